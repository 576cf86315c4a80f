"""The state of the simulated cloud: its resources, its agenda, and the sums over both.

Nothing here decides what happens next; `story` does, and `cloud` answers calls.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tpufn.domain.accelerators import accelerator
from tpufn.domain.cloud import CreateOrder
from tpufn.simulation.capacity import Capacity, Place, place_of, quota_places
from tpufn.simulation.faults import FAULTS, Faults, Rule, Target
from tpufn.simulation.hosts import Hosts
from tpufn.simulation.journal import Journal
from tpufn.simulation.life import NEXT, Event, Phase
from tpufn.simulation.resource import Resource, Step, Usage, usage_of

_REMEMBERED = 10_000
"""How many moments the timeline keeps."""
_NO_DELAYS: Mapping[Event, float] = MappingProxyType({})


class Moment(NamedTuple):
    """One entry of the timeline."""

    at: float
    name: str
    event: Event
    phase: Phase


@dataclass(frozen=True)
class Request:
    """A request id that was accepted, and for what."""

    key: str
    at: float


class World:
    """All resources of one project. Not thread-safe by itself: the cloud's lock is held around everything."""

    def __init__(
        self,
        capacity: Capacity,
        hosts: Hosts,
        path: str | Path | None,
        turn: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self.capacity, self.hosts = capacity, hosts
        self.journal = Journal(path)
        self.resources = self.journal.table("resource", Resource)
        self.requests = self.journal.table("request", Request)
        self.usages = self.journal.table("usage", Usage)
        self.chips = self.journal.table("chips", int)
        self.faults = Faults(self.journal.table("fault", Rule), turn)
        self.timeline: deque[Moment] = deque(maxlen=_REMEMBERED)
        self.freed = False  # whether chips came free that nobody was offered yet
        self._agenda: list[tuple[float, str, Event]] = []
        for resource in self.resources.values():
            self._note(resource)

    def put(self, resource: Resource) -> Resource:
        """Store a resource, and note its plan in the agenda."""
        before = self.resources.get(resource.key)
        self.freed |= before is not None and before.holds_capacity and not resource.holds_capacity
        self.resources[resource.key] = resource
        self._note(resource)
        return resource

    def move(
        self, resource: Resource, event: Event, at: float, *, after: Mapping[Event, float] = _NO_DELAYS, **changes: Any
    ) -> Resource:
        """Let `event` happen at `at`, and plan what follows. `after` names delays that are not the capacity's own."""
        moved = resource.on(event, **changes)
        follow = (Step(at + self._delay(moved, e, after), e) for e in NEXT.get(event, ()))
        self.timeline.append(Moment(at, moved.name, event, moved.phase))
        return self.put(moved.planning(*follow))

    def remove(self, resource: Resource, at: float) -> None:
        """Forget a resource that is gone; what it cost stays."""
        moved = resource.on(Event.GONE)
        self.timeline.append(Moment(at, moved.name, Event.GONE, moved.phase))
        if not resource.foreign:
            self.usages[usage_key(resource)] = usage_of(resource, now=at)
        self.freed |= resource.holds_capacity
        del self.resources[resource.key]

    def next_due(self) -> tuple[Resource, Step] | None:
        """The earliest planned step of all, and whose it is."""
        while self._agenda:
            at, key, event = self._agenda[0]
            resource, step = self.resources.get(key), Step(at, event)
            if resource is not None and step in resource.plan:
                return resource, step
            heapq.heappop(self._agenda)
        return None

    def fault(self, name: str, resource: Resource) -> tuple[Rule, float] | None:
        """The rule of this fault that strikes the resource, and its delay in the clock's seconds."""
        rule = self.faults.take(name, target_of(resource))
        return None if rule is None else (rule, self.seconds(rule))

    def seconds(self, rule: Rule) -> float:
        """A rule's own seconds, or its fault's, scaled."""
        return self.capacity.scaled(FAULTS[rule.fault].seconds) if rule.seconds is None else rule.seconds

    def chips_at(self, place: Place) -> int | None:
        """How many chips the place has; None: as many as are asked for."""
        return self.chips.get(str(place), self.capacity.at(place).chips)

    def used(self) -> dict[Place, int]:
        """Chips taken from each place."""
        return _sum((place_of(r), r.chips) for r in self.resources.values() if r.holds_capacity)

    def held(self) -> dict[Place, int]:
        """Chips held against each quota, husks included: everything counts until it is gone."""
        return _sum((p, r.chips) for r in self.resources.values() for p in quota_places_of(r))

    def has_room(self, resource: Resource) -> bool:
        place = place_of(resource)
        chips = self.chips_at(place)
        return chips is None or self.used().get(place, 0) + resource.chips <= chips

    def over_quota(self, order: CreateOrder) -> tuple[Place, int] | None:
        """The quota that this order would exceed, with its limit."""
        kind = accelerator(order.type)
        for place in quota_places(order.model, kind.family, order.zone):
            limit = self.capacity.quota.get(place)
            if limit is not None and self.held().get(place, 0) + kind.chips > limit:
                return place, limit
        return None

    def ripe(self) -> Iterator[Resource]:
        """Requests that wait for chips only, the longest waiting first."""
        waiting = (r for r in self.resources.values() if r.ripe_at is not None and r.phase is Phase.WAITING)
        return iter(sorted(waiting, key=lambda r: (r.ripe_at, r.key)))

    def _delay(self, resource: Resource, event: Event, after: Mapping[Event, float]) -> float:
        return after[event] if event in after else self.capacity.delay(resource, event)

    def _note(self, resource: Resource) -> None:
        for step in resource.plan:
            heapq.heappush(self._agenda, (step.at, resource.key, step.event))


def new_resource(order: CreateOrder, capacity: Capacity, *, at: float, **changes: Any) -> Resource:
    """What a create call leaves behind at first."""
    kind = accelerator(order.type)
    resource = Resource(
        order=order,
        family=kind.family,
        chips=kind.chips,
        hosts=capacity.hosts(order.type),
        created_at=at,
        **changes,
    )
    return resource.planning(Step(at + order.valid_for, Event.EXPIRE)) if order.valid_for else resource


def usage_key(resource: Resource) -> str:
    """A name may come again once it is gone: its usages are told apart by the time of creation."""
    return f"{resource.created_at:020.6f}/{resource.key}"


def target_of(resource: Resource, call: str = "") -> Target:
    order = resource.order
    return Target(order.zone, order.name, order.type, order.model, call)


def quota_places_of(resource: Resource) -> tuple[Place, Place]:
    return quota_places(resource.order.model, resource.family, resource.order.zone)


def _sum(parts: Iterable[tuple[Place, int]]) -> dict[Place, int]:
    total: dict[Place, int] = {}
    for place, chips in parts:
        total[place] = total.get(place, 0) + chips
    return total
