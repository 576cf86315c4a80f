"""Storms by the thousand: `python -m tests.simulation --seeds 10000` on all cores, with one JSON line last.

`--seed N` replays one: with `--trace` its whole story is printed. A failing one is first shrunk to the parts that
matter (`--whole`: not), and the story to the lines about what is wrong. The exit code is 1 where anything is wrong.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / part) for part in ("shared", "cli")]

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .edges import ALL, Edge
from .outcome import Outcome, blow
from .shrink import shrunk

_SHARE = 10
"""Seeds that a process is handed at a time."""
_ERRORS = Console(stderr=True, highlight=False)


def main() -> int:
    args = _arguments()
    if args.seed is not None:
        return replay(args.seed, trace=args.trace, whole=args.whole)
    return many(range(args.first, args.first + args.seeds), jobs=args.jobs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many (1000)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first one (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes (one per core)")
    parser.add_argument("--seed", type=int, metavar="N", help="replay this one")
    parser.add_argument("--trace", action="store_true", help="with --seed: print its story")
    parser.add_argument("--whole", action="store_true", help="with --seed: do not shrink a failing one")
    return parser.parse_args()


def many(seeds: range, *, jobs: int) -> int:
    """Run every seed; the failing ones are told as they are found."""
    began, failed, taken = time.monotonic(), 0, set[Edge]()
    with _progress() as progress:
        bar = progress.add_task("storms", total=len(seeds), wrong="none wrong")
        for outcome in _outcomes(seeds, jobs):
            taken |= outcome.taken
            if outcome.problem:
                failed += 1
                progress.console.print(_told(outcome), highlight=False, markup=False)
            progress.update(bar, advance=1, wrong=f"{failed} wrong" if failed else "none wrong")
    missing = sorted(ALL - taken)
    if missing:
        _ERRORS.print("transitions not taken: " + ", ".join(f"{t} {s} {e}" for t, s, e in missing))
    result = {
        "seeds": len(seeds),
        "violations": failed,
        "transitions_covered": len(taken),
        "transitions_total": len(ALL),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result))
    return int(bool(failed))


def _progress() -> Progress:
    columns = (MofNCompleteColumn(), TextColumn("{task.fields[wrong]}"), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), BarColumn(), *columns, console=_ERRORS)


def _outcomes(seeds: range, jobs: int) -> Iterator[Outcome]:
    shares = [seeds[i : i + _SHARE] for i in range(0, len(seeds), _SHARE)]
    with ProcessPoolExecutor(jobs) as pool:
        for share in as_completed([pool.submit(_share, share) for share in shares]):
            yield from share.result()


def _share(seeds: range) -> list[Outcome]:
    return [blow(seed) for seed in seeds]


def _told(outcome: Outcome) -> str:
    return f"seed {outcome.seed}: {outcome.problem}\n  replay it: {_replay(outcome.seed)}"


def _replay(seed: int) -> str:
    return f"python -m tests.simulation --seed {seed} --trace"


def replay(seed: int, *, trace: bool, whole: bool) -> int:
    """One seed again, its story in full, or shrunk where it fails."""
    outcome = blow(seed, trace=1_000_000)
    if not outcome.problem:
        print(outcome.story if trace else f"seed {seed}: nothing is wrong")
        return 0
    kept = list(outcome.parts)
    if not whole:
        with _ERRORS.status(f"shrinking {len(kept)} parts"):
            outcome, kept = shrunk(outcome)
    print(f"seed {seed}: {outcome.problem}", f"what it takes: {', '.join(kept) or 'nothing but the seed'}", sep="\n")
    print(outcome.story if whole else outcome.about()) if trace else None
    print(f"replay it: {_replay(seed)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
