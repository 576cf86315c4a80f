"""Placement: many jobs over many slots, checked against a reference solver. Prints one JSON line last.

python tests/benchmarks/placement.py --jobs 10000 --slots 1000
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "shared"))

from tpufn.decide.matching import Bin, Matching
from tpufn.domain.fleet import Pool, job_keys
from tpufn.domain.job import Priority, rank

ZONES = {
    "v4-32": ["us-central2-b"],
    "v4-64": ["us-central2-b"],
    "v5litepod-16": ["us-central1-a", "europe-west4-b"],
    "v5litepod-64": ["us-central1-a", "europe-west4-b"],
    "v6e-16": ["us-east1-d", "europe-west4-a"],
    "v6e-64": ["us-east1-d", "europe-west4-a"],
}
REGIONS = ("us-central2", "us-central1", "europe-west4", "us-east1")


def workload(
    job_count: int, slot_count: int, seed: int = 1
) -> tuple[list[tuple[str, tuple[str, ...], str]], list[tuple[str, str, str]]]:
    """Jobs (id, accepted types, priority) in submit order and slots (id, type, zone); the seed fixes both."""
    rng = random.Random(seed)
    types = list(ZONES)
    jobs = [
        (
            f"job-{i:06d}",
            tuple(rng.sample(types, rng.choice([1, 1, 2, 3, 4]))),
            rng.choice(["low", "normal", "normal", "high"]),
        )
        for i in range(job_count)
    ]
    slots = []
    for i in range(slot_count):
        kind = rng.choice(types)
        slots.append((f"slot-{i:05d}", kind, rng.choice(ZONES[kind])))
    return jobs, slots


def place(heads: list[tuple[str, str, tuple[str, ...]]], bins: list[Bin]) -> dict[str, str]:
    matching = Matching(bins)
    for _, job, accepts in heads:
        matching.offer(job, accepts)
    return dict(matching.placed())


def heads_of(jobs: list[tuple[str, tuple[str, ...], str]]) -> list[tuple[str, str, tuple[str, ...]]]:
    """(rank, id, keys) in rank order."""
    rows = []
    for i, (job, types, priority) in enumerate(jobs):
        pools = sum(len(ZONES[t]) for t in types)
        rows.append((rank(Priority[priority.upper()], pools, float(i), job), job, job_keys(types, REGIONS)))
    return sorted(rows)


def bins_of(slots: list[tuple[str, str, str]]) -> list[Bin]:
    room = Counter((kind, zone) for _, kind, zone in slots)
    pools = [Pool(id=f"{kind}@{zone}", type=kind, zone=zone, count=n) for (kind, zone), n in sorted(room.items())]
    return [Bin(name=p.id, keys=p.keys, room=p.count) for p in pools]


def reference(heads: list[tuple[str, str, tuple[str, ...]]], bins: list[Bin], weights: list[float]) -> float:
    """The best total weight of any placement, by a linear program (its matrix is totally unimodular)."""
    import numpy as np
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    edges = [(j, b) for j, (_, _, keys) in enumerate(heads) for b, bin in enumerate(bins) if bin.keys & set(keys)]
    job_of = [j for j, _ in edges]
    rows = job_of + [len(heads) + b for _, b in edges]
    matrix = coo_matrix((np.ones(2 * len(edges)), (rows, [*range(len(edges))] * 2)))
    limits = np.array([1.0] * len(heads) + [float(b.room) for b in bins])
    answer = linprog(-np.array([weights[j] for j in job_of]), A_ub=matrix.tocsr(), b_ub=limits[: matrix.shape[0]])
    return float(-answer.fun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--slots", type=int, default=1_000)
    args = parser.parse_args()
    jobs, slots = workload(args.jobs, args.slots)
    heads, bins = heads_of(jobs), bins_of(slots)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        placed = place(heads, bins)
        seconds.append(time.perf_counter() - start)
    priority = {job: p for job, _, p in jobs}
    by_priority = Counter(priority[job] for job in placed)
    # Priorities dominate: first as many high as possible, then normal, then low.
    weight = {"high": 1e8, "normal": 1e4, "low": 1.0}
    weights = [weight[priority[job]] for _, job, _ in heads]
    best_count = reference(heads, bins, [1.0] * len(heads))
    best_weight = reference(heads, bins, weights)
    got_weight = sum(weight[priority[job]] for job in placed)
    optimal = abs(best_count - len(placed)) < 0.5 and abs(best_weight - got_weight) < 0.5
    print(
        json.dumps(
            {
                "seconds": round(sorted(seconds)[2], 4),
                "assigned": len(placed),
                "by_priority": dict(sorted(by_priority.items())),
                "optimal": optimal,
                "jobs": args.jobs,
                "slots": args.slots,
            }
        )
    )


if __name__ == "__main__":
    main()
