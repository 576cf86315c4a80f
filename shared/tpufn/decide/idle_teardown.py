"""Which idle TPUs to give back: those past their timeout that no waiting job could use, down to the warm floor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpufn.decide.decision import NOTHING, Decision, Step
from tpufn.decide.release import released
from tpufn.decide.request import guard
from tpufn.domain.capacity import Scope
from tpufn.domain.fleet import Fleet, Pool
from tpufn.domain.slot import THERE, Slot, SlotState


@dataclass(frozen=True, kw_only=True)
class IdleSnapshot:
    """`wanted`: the pools that some pending or waiting job accepts."""

    now: float
    fleet: Fleet
    slots: Sequence[Slot]
    scopes: Mapping[str, Scope]
    wanted: frozenset[str]


def overdue(fleet: Fleet, slots: Sequence[Slot], *, now: float) -> tuple[Slot, ...]:
    """Idle slots past their timeout that nobody holds, the longest idle first; adopted TPUs are never given back."""
    adopted = {p.id for p in fleet.pools if p.existing}
    late = (
        s
        for s in slots
        if s.state is SlotState.IDLE
        and not s.hold
        and s.pool not in adopted
        and now - s.idle_since >= fleet.idle_timeout
    )
    return tuple(sorted(late, key=lambda s: (s.idle_since, s.name)))


def decide(snapshot: IdleSnapshot) -> Decision:
    """One commit per chip scope; its guard keeps two ticks from both dipping below a warm floor."""
    by_scope: dict[str, Step] = {}
    for pool in snapshot.fleet.pools:
        for slot in _surplus(pool, snapshot):
            idle = snapshot.now - slot.idle_since
            step = released(slot, f"idle for {idle:.0f} s, no waiting job can use it", now=snapshot.now)
            by_scope[pool.scope] = by_scope[pool.scope] + step if pool.scope in by_scope else step
    if not by_scope:
        return NOTHING
    steps = tuple(step + guard(scope, snapshot.scopes) for scope, step in by_scope.items())
    return Decision(steps=steps, reason=f"{sum(len(s.effects) for s in steps)} idle TPUs are past their timeout")


def _surplus(pool: Pool, snapshot: IdleSnapshot) -> tuple[Slot, ...]:
    if pool.id in snapshot.wanted:
        return ()
    late = [s for s in overdue(snapshot.fleet, snapshot.slots, now=snapshot.now) if s.pool == pool.id]
    there = sum(s.pool == pool.id and s.state in THERE and not s.hold for s in snapshot.slots)
    return tuple(late[: max(0, there - pool.keep_warm)])
