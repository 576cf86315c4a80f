"""What a seed draws of a world: its fleet, what the cloud has, how events travel, what workers do.

Each thing has its own random source, named by the seed and the thing: leaving one out changes no other.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from math import inf
from random import Random
from typing import Any

from tpufn.domain.cloud import NodeState
from tpufn.domain.fleet import Fleet, Model, Pool, pool_id
from tpufn.domain.orders import Phase
from tpufn.simulation.capacity import Capacity, Spread, Supply
from tpufn.simulation.scripted_script import HostScript, Script
from tpufn.simulation.universe_mail import Weather

PLACES = (
    ("v4-8", "us-central2-b"),
    ("v4-16", "us-central2-b"),
    ("v6e-8", "us-east5-a"),
    ("v6e-8", "us-east5-b"),
    ("v6e-16", "us-east5-b"),
    ("v6e-16", "us-east5-a"),
    ("v5litepod-8", "us-west4-a"),
)
MINE = ("mine", "v6e-8", "us-east5-a")
"""A TPU that was there before us: name, type, zone."""
HEALTHY_AFTER = 5
"""From this attempt on a job's workers do nothing strange: every storm must be able to end."""
STRANGE: tuple[dict[str, Any], ...] = (
    {"code": 1},
    {"code": 1, "signature": "device-busy"},
    {"code": 143},
    {"fails_in": Phase.DEVICE},
    {"fails_in": Phase.SETUP},
    {"prepare": inf},
    {"accept": 400.0},
    {"run": inf},
    {"on_term": 45.0},
    {"term_code": 0},
    {"clean": False},
    {"closing": 200.0},
    {"dies_at": 10.0},
    {"vanishes_at": 15.0},
    {"vanishes_at": 40.0},
    {"vanishes_at": 100.0},
    {"silent_at": 10.0},
    {"silent_at": 10.0, "silent_for": 240.0},
    {"silent_at": 10.0, "silent_for": 5.0},
    {"mute_at": 5.0},
    {"hears_notice": False},
)

Keeps = Callable[[str], bool]
"""Whether the named part of the storm takes place."""


def source(seed: int, *what: object) -> Random:
    return Random(" ".join(map(str, (seed, *what))))


def fleet(seed: int) -> Fleet:
    rng = source(seed, "fleet")
    pools = tuple(_pool(rng, type, zone) for type, zone in sorted(rng.sample(PLACES, rng.randint(1, 4))))
    if rng.random() < 0.3:
        name, type, zone = MINE
        pools += (Pool(id=f"existing-{name}", type=type, zone=zone, model=Model.ON_DEMAND, existing=name),)
    limits = {p.scope: p.chip_limit for p in pools}
    return Fleet(name="lab", pools=tuple(replace(p, chip_limit=limits[p.scope]) for p in pools), idle_timeout=600.0)


def _pool(rng: Random, type: str, zone: str) -> Pool:
    return Pool(
        id=pool_id(Model.SPOT, type, zone),
        type=type,
        zone=zone,
        count=rng.randint(1, 2),
        runtime="any",
        chip_limit=rng.choice([0, 0, 16]),
        keep_warm=rng.choice([0, 0, 0, 1]),
    )


def capacity(seed: int) -> Capacity:
    """Fast or slow, scarce or not; Spot lifetimes of the field's or none."""
    rng = source(seed, "capacity")
    supply = Supply(
        chips=rng.choice([None, None, 16]),
        lifetime=rng.choice([None, Spread(300.0, 1500.0)]),
        notice_rate=rng.choice([0.0, 0.5, 1.0]),
        stockout_rate=rng.choice([0.0, 0.0, 0.3]),
        patience=rng.choice([None, 600.0]),
        end_states={NodeState.PREEMPTED: 2.0, NodeState.TERMINATED: 1.0, NodeState.REPAIRING: 1.0},
    )
    return Capacity(seed=seed, speed=rng.choice([1.0, 0.1, 0.03]), default=supply)


def weather(seed: int, keeps: Keeps) -> Weather:
    rng = source(seed, "weather")
    drawn = Weather(
        drop=rng.choice([0.0, 0.0, 0.3, 1.0]),
        double=rng.choice([0.0, 0.3]),
        late=rng.choice([0.0, 0.1]),
        lateness=rng.choice([5.0, 3600.0]),
        shuffle=rng.random() < 0.5,
        skip_tick=rng.choice([0.0, 0.3]),
        double_tick=rng.choice([0.0, 0.3]),
    )
    fair = Weather()
    calmed = {f.name: getattr(fair, f.name) for f in fields(Weather) if not keeps(f"weather:{f.name}")}
    return replace(drawn, **calmed)


def skews(seed: int) -> tuple[float, float]:
    """How far the clock of the handlers' machine is ahead, and the bucket's (seconds)."""
    rng = source(seed, "skew")
    return rng.choice([0.0, 0.0, 3600.0, -3600.0]), rng.choice([0.0, 0.0, 2.0, -2.0])


def script(seed: int, job: str, number: int, worker: int) -> Script:
    """What a worker does in an attempt: half of them something strange, one worker or all of them."""
    plain = Script(run=source(seed, job, "run").choice([20.0, 300.0, 1500.0, 2400.0]), checkpoint=60.0)
    rng = source(seed, job, number)
    if number >= HEALTHY_AFTER or rng.random() < 0.5:
        return plain
    victim, change = rng.choice([0, 0, 1, 3]), rng.choice(STRANGE)
    words = rng.choice(["sibling-death", "", ""])
    sibling = replace(plain, sibling_death=rng.choice([5.0, 5.0, inf]), sibling_signature=words)
    return replace(sibling, **change) if worker == victim or rng.random() < 0.3 else sibling


def host(seed: int, tpu: str, worker: int) -> HostScript:
    rng = source(seed, tpu, worker)
    if rng.random() < 0.8:
        return HostScript()
    return HostScript(
        boot=rng.choice([0.0, 180.0]),
        is_deaf=rng.random() < 0.2,
        lost_launches=rng.randint(0, 4),
        late_launch=rng.choice([0.0, 120.0, 700.0]),
    )
