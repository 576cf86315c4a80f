"""How much there is, how long it takes and how long it lasts: the simulated cloud's model of supply.

Every draw is seeded by (seed, name, what), so that it depends neither on the order of calls nor on other resources.
Field figures: grants after up to 80 minutes, PROVISIONING for 1-2 hours, Spot lifetimes of 14-40 minutes, Spot notice
of about 30 seconds and best effort.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from tpufn.domain.accelerators import FAMILIES, accelerator, region_of
from tpufn.domain.cloud import NodeState
from tpufn.domain.fleet import Model
from tpufn.simulation.life import Event
from tpufn.simulation.resource import Resource


class Place(NamedTuple):
    """What a supply or a quota covers: a provisioning model, a family, and a zone (for quotas also a region)."""

    model: str
    family: str
    where: str

    def __str__(self) -> str:
        return ":".join(self)


class Spread(NamedTuple):
    """A uniform distribution, in seconds."""

    low: float
    high: float

    def draw(self, rng: random.Random) -> float:
        return rng.uniform(self.low, self.high)


SANDBOX_DELAYS: Mapping[Event, Spread] = MappingProxyType(
    {
        Event.APPEAR: Spread(0.0, 0.0),
        Event.ACCEPT: Spread(0.1, 0.3),
        Event.QUEUE: Spread(0.1, 0.3),
        Event.GRANT: Spread(0.5, 2.5),
        Event.BUILD: Spread(0.1, 0.4),
        Event.READY: Spread(0.8, 2.0),
        Event.CONFIRM: Spread(0.1, 0.3),
        Event.ENDPOINTS: Spread(0.1, 0.3),
        Event.HEALTH: Spread(0.2, 0.5),
        Event.SUSPEND: Spread(0.3, 0.8),
        Event.GONE: Spread(0.4, 1.2),
    }
)
"""Small delays: a person watches."""

FIELD_DELAYS: Mapping[Event, Spread] = MappingProxyType(
    {
        Event.APPEAR: Spread(0.0, 0.0),
        Event.ACCEPT: Spread(1.0, 5.0),
        Event.QUEUE: Spread(1.0, 10.0),
        Event.GRANT: Spread(20.0, 4800.0),
        Event.BUILD: Spread(5.0, 60.0),
        Event.READY: Spread(60.0, 600.0),
        Event.CONFIRM: Spread(1.0, 60.0),
        Event.ENDPOINTS: Spread(0.0, 60.0),
        Event.HEALTH: Spread(5.0, 90.0),
        Event.SUSPEND: Spread(5.0, 60.0),
        Event.GONE: Spread(30.0, 180.0),
    }
)
"""Delays as users have seen them."""

FIELD_LIFETIME = Spread(14 * 60.0, 40 * 60.0)
"""Spot lifetimes as users have seen them on busy days."""


@dataclass(frozen=True, kw_only=True)
class Supply:
    """What one place has to give. Times in seconds, before `speed`."""

    chips: int | None = None  # None: as many as are asked for
    delays: Mapping[Event, Spread] = field(default_factory=lambda: SANDBOX_DELAYS)
    lifetime: Spread | None = None  # of Spot nodes; None: preempted only when asked to
    notice: float = 30.0
    notice_rate: float = 0.9  # the share of preemptions that are announced
    stockout_rate: float = 0.0  # the share of requests that end FAILED with a stockout
    patience: float | None = None  # how long a request waits for chips before it ends FAILED; None: for ever
    end_states: Mapping[NodeState, float] = field(default_factory=lambda: {NodeState.PREEMPTED: 1.0})


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """The whole model. `speed` divides every delay drawn here; a place that is not in `supply` is as `default`.

    A place in `supply` also makes its family available in that zone, whatever the catalogue says.
    """

    seed: int = 0
    speed: float = 1.0
    default: Supply = Supply()
    supply: Mapping[Place, Supply] = field(default_factory=dict)
    quota: Mapping[Place, int] = field(default_factory=dict)  # chips; no entry: no limit
    worker_cap: int | None = None  # a node has at most this many workers

    def at(self, place: Place) -> Supply:
        return self.supply.get(place, self.default)

    def rng(self, name: str, what: str) -> random.Random:
        """The random source of one thing about one name."""
        return random.Random(f"{self.seed}:{name}:{what}")

    def scaled(self, seconds: float) -> float:
        return seconds / self.speed

    def delay(self, resource: Resource, event: Event) -> float:
        """How long after its cause `event` happens."""
        spread = self.at(place_of(resource)).delays[event]
        return self.scaled(spread.draw(self.rng(resource.name, event)))

    def is_stocked_out(self, resource: Resource) -> bool:
        rate = self.at(place_of(resource)).stockout_rate
        return self.rng(resource.name, "stockout").random() < rate

    def lifetime(self, resource: Resource) -> float | None:
        """How long a node lives before it is preempted; None: until it is deleted."""
        spread = self.at(place_of(resource)).lifetime
        if spread is None or resource.order.model != Model.SPOT:
            return None
        return self.scaled(spread.draw(self.rng(resource.name, "lifetime")))

    def notice(self, resource: Resource) -> float | None:
        """How long before its preemption a node is told; None: not at all."""
        supply = self.at(place_of(resource))
        told = self.rng(resource.name, "notice").random() < supply.notice_rate
        return self.scaled(supply.notice) if told else None

    def end_state(self, resource: Resource) -> NodeState:
        """What a preempted node shows."""
        weights = self.at(place_of(resource)).end_states
        return self.rng(resource.name, "end state").choices(list(weights), list(weights.values()))[0]

    def hosts(self, type: str) -> int:
        """How many workers a node of this type has here."""
        hosts = accelerator(type).hosts
        return hosts if self.worker_cap is None else min(hosts, self.worker_cap)

    def knows_zone(self, zone: str) -> bool:
        known = {z for family in FAMILIES.values() for z in family.zones}
        return zone in known or any(place.where == zone for place in self.supply)

    def offers(self, type: str, zone: str) -> bool:
        """Whether this type exists in this zone (not whether there is any)."""
        try:
            family = accelerator(type).family
        except ValueError:
            return False
        return zone in FAMILIES[family].zones or any((p.family, p.where) == (family, zone) for p in self.supply)


def place_of(resource: Resource) -> Place:
    """The place that a resource takes its chips from."""
    return Place(resource.order.model, resource.family, resource.order.zone)


def quota_places(model: str, family: str, zone: str) -> tuple[Place, Place]:
    """The places whose quota a resource counts against."""
    return Place(model, family, region_of(zone)), Place(model, family, zone)
