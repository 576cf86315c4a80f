"""One queued resource with its node, as a frozen value: where it is in its life, and the plan of what comes next."""

from dataclasses import dataclass, replace
from typing import Any, Self

from tpufn.domain.accelerators import price_per_hour, region_of
from tpufn.domain.cloud import CreateOrder, Health, NodeState, QueuedResourceState, Tpu
from tpufn.domain.fleet import Model
from tpufn.domain.machine import step
from tpufn.domain.slot import Worker
from tpufn.simulation.life import LIFE, NODE_AFTER, SHOWN, Event, Phase, reachable


@dataclass(frozen=True, order=True)
class Step:
    """Something that will happen at a moment (Unix seconds), unless the resource leaves that road before."""

    at: float
    event: Event


@dataclass(frozen=True, kw_only=True)
class Resource:
    """Everything that the cloud knows of one name in one zone."""

    order: CreateOrder
    family: str
    chips: int
    hosts: int  # how many workers its node has
    created_at: float
    phase: Phase = Phase.CREATING
    node: NodeState | None = None
    health: Health = Health.UNSPECIFIED
    workers: tuple[Worker, ...] = ()
    error_code: int = 0
    error: str = ""
    plan: tuple[Step, ...] = ()
    ripe_at: float | None = None  # since when its grant waits for free chips only
    granted_at: float | None = None
    active_at: float | None = None
    reclaimed_at: float | None = None  # when the hardware was taken away
    doom: NodeState | None = None  # the node's state after the planned preemption
    reclaiming: bool = False  # somebody asked for its preemption
    foreign: bool = False  # made by somebody else
    queued: bool = True  # False: a node without a queued resource

    @property
    def name(self) -> str:
        return self.order.name

    @property
    def zone(self) -> str:
        return self.order.zone

    @property
    def region(self) -> str:
        return region_of(self.order.zone)

    @property
    def key(self) -> str:
        return key_of(self.order.zone, self.order.name)

    @property
    def is_visible(self) -> bool:
        return self.phase in SHOWN

    @property
    def is_ready(self) -> bool:
        """Whether its node runs, as far as the API says."""
        return self.phase in {Phase.ACTIVE, Phase.LAGGING}

    @property
    def holds_capacity(self) -> bool:
        """From the grant until the hardware is taken away or the resource is gone."""
        return self.granted_at is not None and self.reclaimed_at is None

    @property
    def request(self) -> QueuedResourceState | None:
        return SHOWN.get(self.phase) if self.queued else None

    def on(self, event: Event, **changes: Any) -> Self:
        """This resource after `event`; steps that can no longer happen leave the plan. Raises IllegalTransition."""
        phase = step(LIFE, self.phase, event)
        possible = reachable(phase)
        plan = tuple(s for s in self.plan if s.event in possible)
        return replace(self, **{"phase": phase, "node": self._node_after(event), "plan": plan} | changes)

    def planning(self, *steps: Step) -> Self:
        """This resource with further steps in its plan."""
        return replace(self, plan=tuple(sorted({*self.plan, *steps})))

    def done(self, step: Step) -> Self:
        """This resource without a step of its plan."""
        return replace(self, plan=tuple(s for s in self.plan if s != step))

    def view(self) -> Tpu:
        """What the API shows of it. Health is a statement about a READY node only."""
        return Tpu(
            name=self.name,
            zone=self.zone,
            type=self.order.type,
            model=self.order.model,
            request=self.request,
            node=self.node,
            health=self.health if self.node is NodeState.READY else Health.UNSPECIFIED,
            labels=dict(self.order.labels),
            workers=self.workers,
            error_code=self.error_code,
            error=self.error,
            created_at=self.created_at,
        )

    def _node_after(self, event: Event) -> NodeState | None:
        if event is Event.DELETE:
            return self.node and NodeState.DELETING
        return NODE_AFTER.get(event, self.node)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one TPU cost: from ACTIVE until it was reclaimed or gone. `cost` is an estimate in USD, at list price."""

    name: str
    zone: str
    type: str
    model: str
    chips: int
    seconds: float
    cost: float

    @property
    def chip_seconds(self) -> float:
        return self.chips * self.seconds


def usage_of(resource: Resource, *, now: float) -> Usage:
    """The usage of a resource so far."""
    order, start = resource.order, resource.active_at
    end = now if resource.reclaimed_at is None else resource.reclaimed_at
    seconds = 0.0 if start is None else max(0.0, end - start)
    hourly = price_per_hour(order.type, order.zone, spot=order.model == Model.SPOT)
    return Usage(
        name=order.name,
        zone=order.zone,
        type=order.type,
        model=order.model,
        chips=resource.chips,
        seconds=seconds,
        cost=seconds / 3600 * hourly,
    )


def key_of(zone: str, name: str) -> str:
    """Names are unique within a zone."""
    return f"{zone}/{name}"
