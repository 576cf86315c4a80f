"""From a reclaim to the job's next attempt being pending, in simulated seconds. Prints one JSON line last.

    python tests/benchmarks/recovery.py --runs 200

Production's policy over the simulated cloud with delays as users have seen them; messages take a second or two. With
notice the clock starts at the notice; without it when the hosts die, which the API tells up to a minute later.
"""

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "shared"), str(ROOT)]

from tpufn.adapters.memory import MemoryStore
from tpufn.domain.fleet import Fleet, Model, Pool, pool_id
from tpufn.planning.capacity import DEFAULT
from tpufn.planning.tally import quantile
from tpufn.simulation.capacity import Capacity
from tpufn.simulation.scripted_script import Script
from tpufn.simulation.universe import Universe, job_body

POOL = Pool(id=pool_id(Model.SPOT, "v6e-16", "us-east5-b"), type="v6e-16", zone="us-east5-b", count=2, runtime="any")


def recovery(seed: int, *, notice: float | None) -> float:
    """Seconds in one run."""
    universe = Universe(
        Fleet(name="lab", pools=(POOL,)),
        store=lambda clock, listener: MemoryStore(clock, on_commit=listener),
        seed=seed,
        capacity=Capacity(seed=seed, default=DEFAULT),
        script=lambda job, number, worker: Script(run=1e6, checkpoint=60.0, on_term=1.0),
    )
    universe.submit(job_body("j", ("v6e-16",), ("us-east5",)))
    universe.run_until(lambda: "attempt.running" in universe.events(job="j"), limit=86400.0)
    rng = random.Random(seed)
    universe.run_for(600.0)
    universe.clock.advance(rng.uniform(0.0, 59.0))  # between two ticks: steps alone end at one
    reclaimed = universe.clock.now()
    universe.cloud.preempt(universe.attempts("j")[0].tpu, notice=notice, lag=0.0 if notice else rng.uniform(0.0, 60.0))
    universe.run_until(lambda: universe.events(job="j", of="job.pending") != [], limit=3600.0)
    return universe.clock.now() - reclaimed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    found: dict[str, Any] = {"runs": runs}
    for name, notice in (("notice", 30.0), ("silent", None)):
        seconds = sorted(recovery(seed, notice=notice) for seed in range(runs))
        found |= {f"{name}_p50": round(quantile(seconds, 0.5), 1), f"{name}_p95": round(quantile(seconds, 0.95), 1)}
        print(f"{name}: p50 {found[f'{name}_p50']} s, p95 {found[f'{name}_p95']} s")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
