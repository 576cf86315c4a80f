"""The policy against simpler ones and against hindsight, on the same traces. Prints one JSON line last.

    python tests/benchmarks/policy.py --days 4 --seeds 3

Each trace has the same jobs, slots and distributions of waits and lifetimes for all of them:

    tpufn      the real decisions, as `tpufn simulate` plays them
    failover   one zone at a time: a job asks in one zone, gives up after ten minutes and goes on to the next; its TPU
               is its own and goes with it
    fifo       first come, first served: one request a job, in the first pool of the file with a free slot, never
               taken back; TPUs are reused in the order of the file, and given back after ten idle minutes
    hindsight  every job starts on arrival, and a solver chains jobs on TPUs so that the least is paid: what is paid
               can hardly be less, and nobody can wait less

A wait is from submission to the first start, in minutes. Utilisation is busy chip-time over paid chip-time, cost in USD
at list prices.
"""

import argparse
import heapq
import json
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy
from scipy.optimize import linear_sum_assignment

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "shared"), str(ROOT)]

from tpufn.domain.accelerators import price_per_hour
from tpufn.domain.fleet import Fleet, Model, Pool, pool_id
from tpufn.planning.capacity import DEFAULT, usual
from tpufn.planning.play import play
from tpufn.planning.tally import quantile
from tpufn.planning.workload import KindKeys, MixKeys, Planned, RateKeys, WorkloadKeys, planned
from tpufn.simulation.life import Event

ZONES = ("us-east5-a", "us-east5-b", "us-east1-d", "europe-west4-a")
COUNTS = {"v6e-8": 4, "v6e-16": 3, "v6e-32": 2}
IDLE, PATIENCE = 600.0, 600.0
STEPS = (Event.ACCEPT, Event.QUEUE, Event.GRANT, Event.BUILD, Event.READY)
AFTER = (Event.CONFIRM, Event.ENDPOINTS, Event.HEALTH)
"""Delays of a TPU that is there and not yet usable: they are paid for."""


def fleet() -> Fleet:
    pools = tuple(
        Pool(id=pool_id(Model.SPOT, type, zone), type=type, zone=zone, count=number, runtime="any")
        for type, number in COUNTS.items()
        for zone in ZONES
    )
    return Fleet(name="lab", pools=pools, idle_timeout=IDLE)


def workload(days: float, seed: int, per_hour: float) -> tuple[Planned, ...]:
    kind: dict[str, Any] = {"checkpoint_every": "10m"}
    mix = (
        MixKeys(share="3", tpu=["v6e-8"], duration="1h", duration_max="8h", **kind),
        MixKeys(share="2", tpu=["v6e-16", "v6e-8"], duration="2h", duration_max="12h", **kind),
        MixKeys(share="1", tpu=["v6e-32"], duration="4h", duration_max="24h", **kind),
    )
    assert issubclass(MixKeys, KindKeys)
    return planned(WorkloadKeys(rate=RateKeys(per_hour=str(per_hour), mix=mix)), days=days, seed=seed)


@dataclass
class Tpu:
    """One TPU of a baseline. Times in seconds from the start."""

    pool: Pool
    job: str = ""
    usable: bool = False
    paid_from: float = -1.0
    gone: bool = False


@dataclass
class Waiting:
    """What is left of a job; `zones` it may still use, once it has started."""

    job: Planned
    left: float
    region: str = ""
    tried: int = 0


@dataclass
class Baseline:
    """A small event simulation that both baselines share; `choose` is all that differs."""

    fleet: Fleet
    jobs: Sequence[Planned]
    horizon: float
    seed: int
    reuses: bool
    now: float = 0.0
    agenda: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: Any = field(default_factory=count)
    tpus: list[Tpu] = field(default_factory=list)
    queue: list[Waiting] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)
    busy = paid = cost = 0.0

    def run(self) -> dict[str, float]:
        for job in self.jobs:
            self.at(job.at, lambda job=job: self.arrive(Waiting(job, job.duration)))
        while self.agenda and self.agenda[0][0] <= self.horizon:
            self.now, _, what = heapq.heappop(self.agenda)
            what()
        self.now = self.horizon
        for tpu in [t for t in self.tpus if not t.gone]:
            self.drop(tpu)
        return measured(self.waits, self.busy, self.paid, self.cost)

    def at(self, moment: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.agenda, (moment, next(self.numbers), what))

    def arrive(self, waiting: Waiting) -> None:
        self.queue.append(waiting)
        self.match()
        if not self.reuses and waiting in self.queue:
            self.ask(waiting)
        elif self.reuses:
            self.ask_first(waiting)

    def pools_for(self, waiting: Waiting) -> list[Pool]:
        return [p for p in self.fleet.pools if p.type in waiting.job.tpu and waiting.region in ("", p.region)]

    def free(self, pool: Pool) -> bool:
        return sum(t.pool is pool and not t.gone for t in self.tpus) < pool.count

    def ask_first(self, waiting: Waiting) -> None:
        """fifo: one request, in the first pool with room; later, when one is free, if there is none."""
        if waiting not in self.queue:
            return
        pool = next((p for p in self.pools_for(waiting) if self.free(p)), None)
        if pool is None:
            self.at(self.now + 300.0, lambda: self.ask_first(waiting))
            return
        self.request(pool, "")

    def ask(self, waiting: Waiting) -> None:
        """failover: one zone after the other."""
        if waiting not in self.queue:
            return
        pools = self.pools_for(waiting)
        pool = pools[waiting.tried % len(pools)]
        waiting.tried += 1
        if not self.free(pool):
            self.at(self.now + (300.0 if waiting.tried % len(pools) == 0 else 0.0), lambda: self.ask(waiting))
            return
        tpu = self.request(pool, waiting.job.id)

        def give_up() -> None:
            if not tpu.usable and not tpu.gone:
                tpu.gone = True
                self.ask(waiting)

        self.at(self.now + PATIENCE, give_up)

    def request(self, pool: Pool, owner: str) -> Tpu:
        number = self.asked[pool.id] = self.asked.get(pool.id, 0) + 1
        rng = random.Random(f"{self.seed}:{pool.id}:{number}")
        tpu = Tpu(pool, job=owner)
        self.tpus.append(tpu)
        there = self.now + sum(DEFAULT.delays[step].draw(rng) for step in STEPS)
        usable = there + sum(DEFAULT.delays[step].draw(rng) for step in AFTER)
        assert DEFAULT.lifetime is not None
        end = there + DEFAULT.lifetime.draw(rng)
        self.at(there, lambda: self.charge(tpu))
        self.at(usable, lambda: self.ready(tpu))
        self.at(end, lambda: self.reclaim(tpu))
        return tpu

    def charge(self, tpu: Tpu) -> None:
        if not tpu.gone:
            tpu.paid_from = self.now

    def ready(self, tpu: Tpu) -> None:
        if not tpu.gone:
            tpu.usable = True
            owner, tpu.job = tpu.job, ""
            self.match(tpu, owner)

    def match(self, only: Tpu | None = None, owner: str = "") -> None:
        """Jobs in the order in which they came, TPUs in the order of the file."""
        for waiting in list(self.queue):
            if owner and waiting.job.id != owner:
                continue
            pools = self.pools_for(waiting)
            idle = [t for t in self.tpus if t.usable and not t.gone and not t.job and t.pool in pools]
            mine = [t for t in idle if only is None or t is only] if not self.reuses else idle
            if mine:
                self.start(waiting, min(mine, key=lambda t: self.fleet.pools.index(t.pool)))

    def start(self, waiting: Waiting, tpu: Tpu) -> None:
        self.queue.remove(waiting)
        waiting.region, tpu.job = tpu.pool.region, waiting.job.id
        if waiting.job.id not in self.begun:
            self.begun.add(waiting.job.id)
            self.waits.append(self.now - waiting.job.at)
        began = self.now

        def finish() -> None:
            if tpu.gone or tpu.job != waiting.job.id:
                return
            self.busy += waiting.left * tpu.pool.chips
            tpu.job = ""
            if self.reuses:
                self.idle(tpu)
            else:
                self.drop(tpu)

        def lost() -> None:
            done = self.now - began
            self.busy += done * tpu.pool.chips
            kept = done // waiting.job.checkpoint * waiting.job.checkpoint
            self.arrive(Waiting(waiting.job, max(1.0, waiting.left - kept), waiting.region))

        tpu.lost = lost  # type: ignore[attr-defined]
        self.at(self.now + waiting.left, finish)

    def idle(self, tpu: Tpu) -> None:
        since = self.now
        self.match()
        if not tpu.job:
            self.at(since + IDLE, lambda: self.drop(tpu) if not tpu.job and not tpu.gone else None)

    def reclaim(self, tpu: Tpu) -> None:
        if tpu.gone or not tpu.usable:
            return
        running = bool(tpu.job)
        self.drop(tpu)
        if running:
            tpu.lost()  # type: ignore[attr-defined]

    def drop(self, tpu: Tpu) -> None:
        if tpu.paid_from >= 0:
            seconds = self.now - tpu.paid_from
            self.paid += seconds * tpu.pool.chips
            self.cost += seconds / 3600 * price_per_hour(tpu.pool.type, tpu.pool.zone, spot=True)
        tpu.gone = True


def measured(waits: Sequence[float], busy: float, paid: float, cost: float) -> dict[str, float]:
    ordered = sorted(waits)
    return {
        "wait_mean": statistics.fmean(ordered) / 60 if ordered else 0.0,
        "wait_p95": quantile(ordered, 0.95) / 60,
        "utilisation": busy / paid if paid else 0.0,
        "cost": cost,
    }


def tpufn(jobs: tuple[Planned, ...], days: float, seed: int) -> dict[str, float]:
    summary = play(fleet(), jobs, usual(fleet(), seed=seed), days=days, seed=seed).summary()
    return {
        "wait_mean": summary.wait_mean / 60,
        "wait_p95": summary.wait_p95 / 60,
        "utilisation": summary.utilisation,
        "cost": summary.cost,
    }


def hindsight(jobs: Sequence[Planned]) -> dict[str, float]:
    """Chains of jobs on TPUs with the least idle and boot time, weighed by chips: an assignment of each job either to
    the one before it on its TPU, or to a TPU of its own. Each job on its cheapest type and zone; no preemption."""
    boot = sum(sum(DEFAULT.delays[step]) / 2 for step in AFTER)
    best = [
        min((p for p in fleet().pools if p.type in j.tpu), key=lambda p: price_per_hour(p.type, p.zone, spot=True))
        for j in jobs
    ]
    size = len(jobs)
    start = numpy.array([job.at for job in jobs])
    end = start + numpy.array([job.duration for job in jobs])
    gap = start[None, :] - end[:, None]
    alike = numpy.array([[a is b or a.id == b.id for b in best] for a in best])
    follow = numpy.where(alike & (gap >= 0) & (gap < boot), gap, 1e12)
    costs = numpy.concatenate([follow, numpy.full((size, size), 1e12)])
    numpy.fill_diagonal(costs[size:], boot)
    rows, columns = linear_sum_assignment(costs)
    extra = numpy.zeros(size)
    extra[columns] = costs[rows, columns]
    chips = numpy.array([pool.chips for pool in best])
    work = numpy.array([job.duration for job in jobs])
    prices = numpy.array([_price(pool) for pool in best])
    return {
        "wait_mean": 0.0,
        "wait_p95": 0.0,
        "utilisation": float((work * chips).sum() / ((work + extra) * chips).sum()),
        "cost": float(((work + extra) / 3600 * prices).sum()),
    }


def _price(pool: Pool) -> float:
    return price_per_hour(pool.type, pool.zone, spot=True)


def _mean(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {key: round(statistics.fmean(run[key] for run in runs), 3) for key in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--per-hour", type=float, default=3.0)
    asked = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {"tpufn": [], "failover": [], "fifo": [], "hindsight": []}
    for seed in range(asked.seeds):
        jobs = workload(asked.days, seed, asked.per_hour)
        horizon = asked.days * 86400
        runs["tpufn"].append(tpufn(jobs, asked.days, seed))
        runs["failover"].append(Baseline(fleet(), jobs, horizon, seed, reuses=False).run())
        runs["fifo"].append(Baseline(fleet(), jobs, horizon, seed, reuses=True).run())
        runs["hindsight"].append(hindsight(jobs))
    found = {
        name: {key: round(statistics.fmean(run[key] for run in each), 3) for key in each[0]}
        for name, each in runs.items()
    }
    for name, numbers in found.items():
        print(f"{name:<10} " + "  ".join(f"{key} {value:,.2f}" for key, value in numbers.items()))
    print(json.dumps({"days": asked.days, "seeds": asked.seeds, **found}))


if __name__ == "__main__":
    main()
