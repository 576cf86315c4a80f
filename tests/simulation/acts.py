"""What people and nature do in a storm: each act has its own random source and looks at the world as it is then."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from tpufn.domain.errors import Conflict, NotFound
from tpufn.simulation.faults import FAULTS
from tpufn.simulation.universe import job_body

if TYPE_CHECKING:
    from .storm import Storm

Act = Callable[["Storm", Random], None]


def submit(storm: "Storm", rng: Random) -> None:
    pools = storm.fleet.pools
    types = tuple(sorted({p.type for p in rng.sample(pools, rng.randint(1, len(pools)))}))
    regions = tuple(sorted({p.region for p in pools if p.type in types}))
    keys: dict[str, Any] = {"priority": rng.choice(["low", "normal", "high"]), "max_runtime": "2h"}
    if rng.random() < 0.2:
        keys["queue_deadline"] = "20m"
    if rng.random() < 0.2:
        keys["max_runtime"] = "20m"
    if rng.random() < 0.3:
        keys["retries"] = {"application": {"max": 2}, "infrastructure": rng.choice([1, 10])}
    id = f"job-{len(storm.jobs)}"
    storm.jobs.append(id)
    storm.universe.submit(job_body(id, types, regions, **keys))


def fault(storm: "Storm", rng: Random) -> None:
    name = rng.choice(sorted(FAULTS))
    zone = rng.choice(["", *storm.fleet.zones])
    times = None if name in ("zone-dead", "zone-forbidden") and zone else rng.randint(1, 3)
    storm.universe.cloud.faults.inject(name, zone=zone, times=times, seconds=rng.choice([None, 30.0, 700.0]))


def late(storm: "Storm", rng: Random) -> None:
    """Creates that take effect though they time out, and then a refusal: a grant that nobody believes in."""
    faults = storm.universe.cloud.faults
    faults.inject(rng.choice(["timeout-late", "timeout-applied"]), call="create", times=2)
    storm.universe.run_for(rng.choice([0.0, 30.0]))
    faults.inject("rate-limit", call="create", times=2)


def preempt(storm: "Storm", rng: Random) -> None:
    _reclaim(storm, rng, 1)


def preempt_many(storm: "Storm", rng: Random) -> None:
    """A preemption storm: whatever there is."""
    _reclaim(storm, rng, 100)


def _reclaim(storm: "Storm", rng: Random, count: int) -> None:
    cloud = storm.universe.cloud
    there = [r.name for r in cloud.snapshot().resources]
    notice, lag = rng.choice([None, 5.0, 30.0]), rng.choice([0.0, 60.0, 300.0])
    for name in rng.sample(there, min(count, len(there))):
        try:
            cloud.preempt(name, notice=notice, lag=lag)
        except (Conflict, NotFound):
            continue


def command(storm: "Storm", rng: Random) -> None:
    universe = storm.universe
    verb = rng.choice(["cancel", "interrupt", "set-priority", "retry", "hold", "queue", "race", "release", "delete"])
    if verb in ("cancel", "set-priority", "retry"):
        target = rng.choice(storm.jobs or ["nobody"])
        args = {"set-priority": {"priority": "high"}, "retry": {"as": f"{target}-again"}}.get(verb, {})
    else:
        slots = universe.slots()
        busy = [name for name, slot in slots.items() if slot.lease]
        target, args = rng.choice(busy if busy and rng.random() < 0.5 else sorted(slots) or ["nowhere"]), {}
    universe.command(verb, target, **args)


def redeclare(storm: "Storm", rng: Random) -> None:
    """A deployment file in which pools are missing or smaller, or everything is back."""
    kept = tuple(p for p in storm.fleet.pools if rng.random() < 0.6)
    smaller = tuple(replace(p, count=1) if p.count and rng.random() < 0.5 else p for p in kept)
    storm.universe.declare(replace(storm.fleet, pools=smaller or storm.fleet.pools))


def swap_mine(storm: "Storm", rng: Random) -> None:
    """The owner of the `existing` TPU deletes it, or makes it again."""
    storm.take_mine() if storm.has_mine() else storm.give_mine()


MENU: Sequence[Act] = (
    submit,
    fault,
    fault,
    fault,
    late,
    preempt,
    preempt_many,
    command,
    command,
    redeclare,
    swap_mine,
)
