"""Asking for a slot's next TPU, and the two guards of every request: chips left in a scope, and the scope's counter."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tpufn.decide.decision import Step
from tpufn.decide.release import slot_note
from tpufn.domain.accelerators import accelerator
from tpufn.domain.capacity import Scope
from tpufn.domain.effects import Effect, Kind, slot_entity
from tpufn.domain.fleet import Fleet, Pool
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotEvent, cloud_name


def request(
    slot: Slot,
    pool: Pool,
    reason: str,
    *,
    deployment: str,
    now: float,
    policy: Policy,
    job: str = "",
    hold: str = "",
    group: str = "",
) -> Step:
    """Ask for the slot's next generation. `hold`: for whom; `group`: the race that people started it in."""
    generation = slot.generation + 1
    after = slot.on(
        SlotEvent.REQUEST,
        now=now,
        generation=generation,
        fence=0,
        tpu=cloud_name(deployment, slot.name, generation),
        requested_at=now,
        create_settled=False,
        deadline=now + policy.request_budget,
        workers=(),
        caches=(),
        quick_failures=(),
        deletes=0,
        last_job="",
        idle_since=0.0,
        hold=hold,
        group=group,
        cause=reason,
    )
    effect = Effect(kind=Kind.CREATE, entity=slot_entity(slot.name), generation=generation, reason=reason)
    note = slot_note(after, "slot.requesting", f"{pool.type} in {pool.zone}, {reason}", job=job)
    return Step(writes=(after,), effects=(effect,), notes=(note,), reason=f"request {slot.name} {reason}")


def guard(scope: str, scopes: Mapping[str, Scope]) -> Step:
    """The bump of a chip scope's counter: two planners cannot both spend the same chips, or dip below a warm floor."""
    there = scopes.get(scope, Scope(id=scope))
    return Step(writes=(replace(there, seq=there.seq + 1),))


def chips_left(fleet: Fleet, slots: Sequence[Slot]) -> dict[str, float]:
    """Chips still to be had per scope: its limit less what its slots hold; infinite without a limit."""
    left: dict[str, float] = {p.scope: float(p.chip_limit or "inf") for p in fleet.pools}
    for slot in slots:
        if slot.holds_chips and slot.scope in left:
            left[slot.scope] -= accelerator(slot.type).chips
    return left
