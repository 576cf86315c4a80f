"""Events a second through the runner: real functions, real SQLite, simulated cloud. Prints one JSON line last.

    python tests/benchmarks/throughput.py --jobs 300

A universe in which all jobs are submitted at once and run for ten minutes each, on a fleet that holds a tenth of them.
`events` are the ones that functions handled, ticks included; `commits` the durable ones.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "shared"), str(ROOT)]

from tpufn.adapters.memory import MemoryStore
from tpufn.adapters.sqlite import SqliteStore
from tpufn.domain.events import Event
from tpufn.domain.fleet import Fleet, Model, Pool, pool_id
from tpufn.domain.policy import Policy
from tpufn.flows.registry import woken_by
from tpufn.simulation.scripted_script import Script
from tpufn.simulation.universe import Universe, job_body

ZONES = ("us-east5-a", "us-east5-b", "us-east1-d", "europe-west4-a")


class Counted(Universe):
    """Counts each function that an event wakes."""

    handled = 0

    def _handle(self, event: Event) -> bool:
        self.handled += len(woken_by(event))
        return super()._handle(event)


def run(kind: str, jobs: int) -> dict[str, float]:
    pools = tuple(
        Pool(id=pool_id(Model.SPOT, "v6e-8", zone), type="v6e-8", zone=zone, count=max(1, jobs // 40), runtime="any")
        for zone in ZONES
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.sqlite"
        universe = Counted(
            Fleet(name="lab", pools=pools, idle_timeout=300.0),
            store=lambda clock, listener: (
                SqliteStore(path, clock, on_commit=listener)
                if kind == "sqlite"
                else MemoryStore(clock, on_commit=listener)
            ),
            policy=Policy(heartbeat=1e8),
            script=lambda job, number, worker: Script(run=600.0),
        )
        for number in range(jobs):
            universe.submit(job_body(f"j{number:05}", ("v6e-8",), tuple({p.region for p in pools})))
        begun = time.perf_counter()
        universe.run_until(lambda: universe.events(of="job.succeeded").__len__() == jobs, limit=7 * 86400.0)
        seconds = time.perf_counter() - begun
    return {"events": universe.handled, "commits": universe.commits, "seconds": round(seconds, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=300)
    jobs = parser.parse_args().jobs
    found = {kind: run(kind, jobs) for kind in ("sqlite", "memory")}
    for kind, each in found.items():
        print(f"{kind}: {each['events']} events, {each['commits']} commits in {each['seconds']} s")
    rates = {f"{kind}_per_second": round(each["events"] / each["seconds"]) for kind, each in found.items()}
    print(json.dumps({"jobs": jobs, **found["sqlite"], **rates}))


if __name__ == "__main__":
    main()
