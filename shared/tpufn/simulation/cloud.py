"""The Cloud TPU API as the port `TpuCloud` sees it, simulated in one process.

The state is a function of the recorded timeline and the clock: every call first brings the world to now. There are no
threads and no sleeps. With a `path`, whatever was acknowledged is there again after the process was killed, and what
was due meanwhile happens on the next call, each step at its own moment.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tpufn.domain.accelerators import accelerator
from tpufn.domain.cloud import CreateOrder, Health, NodeState, Tpu
from tpufn.domain.errors import Conflict, NotFound, TpufnError
from tpufn.domain.machine import allows
from tpufn.ports import Clock
from tpufn.simulation import story
from tpufn.simulation.answers import Call, answer, exists, missing, over_quota
from tpufn.simulation.capacity import Capacity, Place, quota_places
from tpufn.simulation.faults import Faults, Rule, Stage, Target
from tpufn.simulation.hosts import Hosts, NoHosts, addresses
from tpufn.simulation.life import LIFE, UNFORCED_DELETE, Event, Phase
from tpufn.simulation.resource import Resource, Step, Usage, key_of, usage_of
from tpufn.simulation.texts import refusal, say
from tpufn.simulation.validation import check
from tpufn.simulation.world import Moment, Request, World, new_resource, target_of, usage_key

REQUEST_MEMORY = 3600.0
"""For how long a request id is remembered (seconds): at least an hour, as Google's API guidelines ask (AIP-155)."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything at one moment, for invariants."""

    now: float
    resources: tuple[Resource, ...]  # by key, those that no call shows yet included
    used: Mapping[Place, int]  # chips taken, per (model, family, zone)
    held: Mapping[Place, int]  # chips held against quotas, per (model, family, zone or region)
    calls: Mapping[str, int]


class SimulatedCloud:
    """Implements `TpuCloud`. Thread-safe; the hooks of `hosts` run with the lock held."""

    def __init__(
        self,
        capacity: Capacity | None = None,
        *,
        clock: Clock,
        hosts: Hosts | None = None,
        path: str | Path | None = None,
        project: str = "sandbox",
    ) -> None:
        self._clock, self._project = clock, project
        self._lock = threading.RLock()
        self._is_turning = False
        self._world = World(capacity or Capacity(), hosts or NoHosts(), path, self._turn)
        self.calls: Counter[str] = Counter()

    # The port

    def create(self, order: CreateOrder) -> None:
        target = Target(order.zone, order.name, order.type, order.model, "create")
        with self._called(target) as now:
            if self._is_repeated(order, now):
                return
            check(order, self._world.capacity)
            self._refuse_existing(target)
            late = self._refuse_create(order, target)
            self._admit(order, now, late)
            self._strike(Stage.AFTER, target)

    def get(self, name: str, zone: str) -> Tpu | None:
        with self._called(self._target("get", name, zone)):
            resource = self._find(name, zone)
            return resource.view() if resource else None

    def list(self, zone: str) -> Sequence[Tpu]:
        with self._called(Target(zone, call="list")):
            there = sorted((r for r in self._world.resources.values() if r.zone == zone), key=lambda r: r.name)
            return tuple(r.view() for r in there if r.is_visible and not self._is_omitted(r))

    def delete(self, name: str, zone: str) -> None:
        target = self._target("delete", name, zone)
        with self._called(target) as now:
            resource = self._find(name, zone)
            if resource is None:
                raise missing(self._call(target))
            self._refuse_delete(resource, target)
            self._begin_delete(resource, target, now)
            self._strike(Stage.AFTER, target)

    # Time

    def advance(self) -> None:
        """Let everything happen that is due by now."""
        with self._turn():
            pass

    def next_event_at(self) -> float | None:
        """When the next change is due (Unix seconds); None: never by itself."""
        with self._turn():
            due = self._world.next_due()
            return due[1].at if due else None

    def close(self) -> None:
        """Close the file. Nothing is lost without it."""
        with self._lock:
            self._world.journal.close()

    # What nature and other people do

    @property
    def faults(self) -> Faults:
        return self._world.faults

    def preempt(
        self,
        name: str,
        *,
        notice: float | None = None,
        end_state: NodeState = NodeState.PREEMPTED,
        lag: float = 0.0,
    ) -> None:
        """Reclaim a TPU: now, or after `notice` seconds of warning. The API shows it `lag` seconds after the kill.

        Before its node is READY it ends FAILED at once. Raises NotFound, or Conflict where nothing can be reclaimed.
        """
        with self._turn():
            now, resource = self._clock.now(), self._named(name)
            if allows(LIFE, resource.phase, Event.PREEMPT):
                story.reclaim(self._world, resource, now, notice=notice, state=end_state, lag=lag)
            elif resource.holds_capacity and allows(LIFE, resource.phase, Event.FAIL):
                error = say("preempted-while-creating", key=resource.key)
                story.fail(self._world, resource, now, error, node=end_state)
            else:
                raise Conflict(f"{name} is {resource.phase}: there is nothing to preempt")
            story.advance(self._world, now)

    def set_chips(self, place: Place, chips: int | None) -> None:
        """Change how many chips a place has, from now on; None: as the capacity says. Nobody is evicted."""
        with self._turn():
            if chips is None:
                self._world.chips.pop(str(place), None)
            else:
                self._world.chips[str(place)] = chips
            self._world.freed = True
            story.serve(self._world, self._clock.now())

    def add_foreign(
        self,
        name: str,
        zone: str,
        type: str,
        *,
        model: str = "spot",
        phase: Phase = Phase.ACTIVE,
        node: NodeState | None = NodeState.READY,
        labels: Mapping[str, str] | None = None,
        queued: bool = True,
    ) -> None:
        """Put somebody else's TPU there, in any phase; it stays as it is until it is deleted. `queued=False`: a node
        without a queued resource."""
        order = CreateOrder(
            name=name, zone=zone, type=type, runtime="any", model=model, request_id="", labels=labels or {}
        )
        with self._turn():
            self._refuse_existing(self._target("create", name, zone))
            self._world.put(self._foreign(order, phase=phase, node=node, queued=queued))

    # What tests and closing tables ask

    def provisioned(self, *, foreign: bool = False) -> int:
        """How many nodes and queued resources exist: ours, or with `foreign` everybody's."""
        with self._turn():
            there = (r for r in self._world.resources.values() if r.is_visible and (foreign or not r.foreign))
            return sum((r.request is not None) + (r.node is not None) for r in there)

    def usage(self) -> tuple[Usage, ...]:
        """What every TPU cost so far, gone ones included: by the time of their creation. Somebody else's are not ours
        to count."""
        with self._turn():
            now, world = self._clock.now(), self._world
            living = {usage_key(r): usage_of(r, now=now) for r in world.resources.values() if not r.foreign}
            found = {**world.usages, **living}
            return tuple(found[key] for key in sorted(found))

    def chip_seconds(self) -> float:
        return sum(usage.chip_seconds for usage in self.usage())

    def cost(self) -> float:
        """The estimated cost so far, in USD at list price."""
        return sum(usage.cost for usage in self.usage())

    def timeline(self) -> tuple[Moment, ...]:
        """What happened since this object was made, in order (the last ten thousand moments)."""
        with self._turn():
            return tuple(self._world.timeline)

    def snapshot(self) -> Snapshot:
        with self._turn():
            world = self._world
            return Snapshot(
                now=self._clock.now(),
                resources=tuple(world.resources[key] for key in sorted(world.resources)),
                used=world.used(),
                held=world.held(),
                calls=dict(self.calls),
            )

    # Inside

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The lock, the time, and everything durable at the end. A hook that calls the cloud sees it as it is."""
        with self._lock:
            if self._is_turning:
                yield
                return
            self._is_turning = True
            try:
                story.advance(self._world, self._clock.now())
                yield
            finally:
                self._is_turning = False
                self._world.journal.flush()

    @contextmanager
    def _called(self, target: Target) -> Iterator[float]:
        """A call of the API: counted, and answered at the door where a fault says so."""
        with self._turn():
            self.calls[target.call] += 1
            if not self._world.capacity.knows_zone(target.zone):
                raise refusal("structural-location", zone=target.zone)
            self._strike(Stage.DOOR, target)
            yield self._clock.now()

    def _strike(self, stage: Stage, target: Target) -> None:
        if rule := self.faults.strike(stage, target):
            raise self._answer(rule, target)

    def _answer(self, rule: Rule, target: Target) -> TpufnError:
        return answer(rule.fault, self._call(target, rule=rule))

    def _call(self, target: Target, *, rule: Rule | None = None, limit: int | None = None) -> Call:
        resource = self._find(target.name, target.zone)
        return Call(
            project=self._project,
            target=target,
            limit=self._limit(target) if limit is None else limit,
            code=rule.code if rule else 0,
            state=str((resource and resource.request) or ""),
        )

    def _limit(self, target: Target) -> int:
        """The limit that an injected quota refusal names: the declared one, else what is held already."""
        if not target.type or not self._world.capacity.offers(target.type, target.zone):
            return 0
        kind = accelerator(target.type)
        region, _ = quota_places(target.model, kind.family, target.zone)
        return self._world.capacity.quota.get(region) or max(kind.chips, self._world.held().get(region, 0))

    def _target(self, call: str, name: str, zone: str) -> Target:
        resource = self._find(name, zone)
        return target_of(resource, call) if resource else Target(zone, name, call=call)

    def _find(self, name: str, zone: str) -> Resource | None:
        resource = self._world.resources.get(key_of(zone, name))
        return resource if resource is not None and resource.is_visible else None

    def _named(self, name: str) -> Resource:
        found = next((r for r in self._world.resources.values() if r.name == name), None)
        if found is None:
            raise NotFound(f"the simulated cloud has no TPU {name}")
        return found

    def _is_omitted(self, resource: Resource) -> bool:
        return self.faults.take("list-omits", target_of(resource, "list")) is not None

    def _is_repeated(self, order: CreateOrder, now: float) -> bool:
        """Whether this request was accepted before. Its id must not come with another resource."""
        known = self._world.requests.get(order.request_id)
        if known is None or now - known.at > REQUEST_MEMORY:
            return False
        if known.key != key_of(order.zone, order.name):
            raise refusal("bad-request-id", key=order.name, request_id=order.request_id)
        return True

    def _refuse_existing(self, target: Target) -> None:
        if key_of(target.zone, target.name) in self._world.resources:
            raise exists(self._call(target))

    def _refuse_create(self, order: CreateOrder, target: Target) -> Rule | None:
        """Raise what speaks against a valid order: a fault, or the quota. Returns the fault that only delays it."""
        rule = self.faults.strike(Stage.CREATE, target)
        if rule is not None and rule.fault != "timeout-late":
            raise self._answer(rule, target)
        if full := self._world.over_quota(order):
            place, limit = full
            text = "quota-failure" if limit else "quota-http"
            raise over_quota(self._call(target, limit=limit), place=place.where, text=text)
        return rule

    def _admit(self, order: CreateOrder, now: float, late: Rule | None) -> None:
        resource = new_resource(order, self._world.capacity, at=now, phase=Phase.UNSEEN)
        self._remember(order, now)
        if late is not None:
            self._world.put(resource.planning(Step(now + self._world.seconds(late), Event.APPEAR)))
            raise self._answer(late, target_of(resource, "create"))
        self._world.move(resource, Event.APPEAR, now)

    def _remember(self, order: CreateOrder, now: float) -> None:
        requests = self._world.requests
        for id in [id for id, request in requests.items() if now - request.at > REQUEST_MEMORY]:
            del requests[id]
        if order.request_id:
            requests[order.request_id] = Request(key_of(order.zone, order.name), now)

    def _refuse_delete(self, resource: Resource, target: Target) -> None:
        if resource.request not in UNFORCED_DELETE and (rule := self.faults.take("delete-refused", target)):
            raise self._answer(rule, target)

    def _begin_delete(self, resource: Resource, target: Target, now: float) -> None:
        if resource.phase is Phase.DELETING:
            return
        late = self.faults.take("delete-late", target)
        after = {Event.GONE: self._world.seconds(late)} if late else {}
        self._world.move(resource, Event.DELETE, now, after=after, ripe_at=None)

    def _foreign(self, order: CreateOrder, *, phase: Phase, node: NodeState | None, queued: bool) -> Resource:
        now, hosts = self._clock.now(), self._world.capacity.hosts(order.type)
        has_node = node is not None
        return new_resource(
            order,
            self._world.capacity,
            at=now,
            phase=phase,
            node=node,
            health=Health.HEALTHY if node is NodeState.READY else Health.UNSPECIFIED,
            workers=addresses(key_of(order.zone, order.name), hosts) if has_node else (),
            granted_at=now if has_node else None,
            reclaimed_at=None if node in {None, NodeState.READY, NodeState.CREATING} else now,
            foreign=True,
            queued=queued,
        )
