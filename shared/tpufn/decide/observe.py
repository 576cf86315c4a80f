"""One slot against what the cloud says of its TPU: the transitions that follow."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tpufn.decide.cooldown import forgiven
from tpufn.decide.decision import Step
from tpufn.decide.records import SlotRecord, failed, outcome
from tpufn.decide.refusals import classify
from tpufn.decide.release import released, slot_note
from tpufn.decide.verdict import workers
from tpufn.domain.capacity import Class, Refusal
from tpufn.domain.cloud import LABEL_NONCE, Health, NodeState, QueuedResourceState, Tpu
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotEvent, SlotState

_QUEUED = frozenset(
    {QueuedResourceState.CREATING, QueuedResourceState.ACCEPTED, QueuedResourceState.WAITING_FOR_RESOURCES}
)
_BUILDING = frozenset({NodeState.CREATING, NodeState.STARTING, NodeState.REIMAGING, NodeState.RESTARTING})


@dataclass(frozen=True, kw_only=True)
class Observed:
    """`tpu` None: a get by name said not found. `usable`: every worker of a READY TPU answers."""

    tpu: Tpu | None
    usable: bool = False
    workers_answering: int = 0


def observe(record: SlotRecord, seen: Observed, *, policy: Policy) -> Step | None:
    """The step that brings the slot up to date; None when it is."""
    slot = record.slot
    if seen.tpu is not None and not slot.adopted and seen.tpu.labels.get(LABEL_NONCE) != record.fleet.nonce:
        seen = Observed(tpu=None)  # somebody else's of the same name; the create says that the name is taken
    if slot.adopted and slot.state is SlotState.FREE:
        return _appear(slot, seen, now=record.now, policy=policy)
    if slot.is_leg:
        return _leg(record, seen, policy)
    if slot.state is SlotState.IDLE:
        return _idle(slot, seen, record.now)
    return None


def _leg(record: SlotRecord, seen: Observed, policy: Policy) -> Step | None:
    slot, tpu, now = record.slot, seen.tpu, record.now
    if tpu is None:
        return _missing(record, policy)
    if tpu.is_dead:
        return failed(replace(record, slot=replace(slot, create_settled=True)), _why_dead(record, tpu), policy=policy)
    return _advance(record, seen, policy) or _overdue(slot, seen, now=now)


def _appear(slot: Slot, seen: Observed, *, now: float, policy: Policy) -> Step | None:
    """An `existing` TPU is there: one generation, its own name. Not before its pause is over and its lease ended."""
    if seen.tpu is None or not seen.tpu.is_ready or slot.lease is not None or now < slot.deadline:
        return None
    deadline = now + policy.boot_budget
    after = slot.on(SlotEvent.APPEAR, now=now, generation=1, tpu=seen.tpu.name, workers=seen.tpu.workers, cause="")
    after = replace(after, deadline=deadline, create_settled=True)
    return Step(writes=(after,), notes=(slot_note(after, "slot.booting", "the TPU is there"),), reason="it appeared")


def _missing(record: SlotRecord, policy: Policy) -> Step | None:
    """Not found: nothing yet while the create's outcome is open or the API may lag behind it, else it vanished."""
    slot, now = record.slot, record.now
    if not slot.create_settled:
        overdue = slot.deadline and now >= slot.deadline
        return released(slot, f"no outcome of the create in {now - slot.since:.0f} s", now=now) if overdue else None
    if now - slot.since < policy.stray_grace:
        return None
    return released(slot, "the cloud says not found: it vanished before it was usable", now=now)


def _why_dead(record: SlotRecord, tpu: Tpu) -> Refusal:
    assert record.pool is not None
    if tpu.error or tpu.error_code:
        return classify(tpu.error_code, tpu.error, record.pool)
    text = f"reclaimed before it was usable: node {tpu.node or 'none'}, queued resource {tpu.request or 'none'}"
    return Refusal(cls=Class.PREEMPTED, scope="", text=text)


def _advance(record: SlotRecord, seen: Observed, policy: Policy) -> Step | None:
    """Through as many states as the cloud has gone."""
    slot, now, tpu = record.slot, record.now, seen.tpu
    assert tpu is not None
    notes, writes = [], []
    for event, state in _events(slot, seen):
        if not slot.allows(event):
            continue
        slot = slot.on(event, now=now, **_changes(event, tpu, now, policy))
        notes.append(slot_note(slot, f"slot.{slot.state}", state))
        if event is SlotEvent.GRANTED:
            writes.append(outcome(record, "granted", how="seen"))
    if not notes:
        return None
    armed = forgiven(record.pool, record.scopes) if writes and record.pool else ()
    return Step(writes=(slot, *writes, *armed), notes=tuple(notes), reason=f"{record.slot.state} -> {slot.state}")


def _events(slot: Slot, seen: Observed) -> tuple[tuple[SlotEvent, str], ...]:
    """The events that bring a leg to where its TPU is, in order, each with its reason."""
    tpu = seen.tpu
    assert tpu is not None
    queued = (SlotEvent.QUEUED, f"queued resource {tpu.request}")
    granted = (SlotEvent.GRANTED, f"granted: queued resource {tpu.request}, node {tpu.node or 'none yet'}")
    count, one = len(tpu.workers), len(tpu.workers) == 1
    found = f", {seen.workers_answering} of {count} workers answer" if count > 1 else ""
    started = (SlotEvent.STARTED, f"node READY{found}")
    usable = (SlotEvent.USABLE, f"{workers(count)} answer{'s' if one else ''}")
    if tpu.node is NodeState.READY:
        return (granted, started, usable) if seen.usable and tpu.is_ready else (granted, started)
    if tpu.node in _BUILDING or tpu.request in (QueuedResourceState.PROVISIONING, QueuedResourceState.ACTIVE):
        return (granted,)
    return (queued,) if tpu.request in _QUEUED else ()


def _changes(event: SlotEvent, tpu: Tpu, now: float, policy: Policy) -> Mapping[str, object]:
    match event:
        case SlotEvent.GRANTED:
            return {"create_settled": True, "deadline": now + policy.provisioning_budget}
        case SlotEvent.STARTED:
            return {"create_settled": True, "deadline": now + policy.boot_budget, "workers": tpu.workers}
        case SlotEvent.USABLE:
            return {"workers": tpu.workers, "deadline": 0.0, "idle_since": now, "cause": ""}
        case _:
            return {"create_settled": True, "deadline": 0.0}


def _overdue(slot: Slot, seen: Observed, *, now: float) -> Step | None:
    """Past the budget of its state: given up without a cool-down, for it was no stockout."""
    if not slot.deadline or now < slot.deadline:
        return None
    count = len(seen.tpu.workers) if seen.tpu else 0
    found = f", {seen.workers_answering} of {count} workers answered" if slot.state is SlotState.BOOTING else ""
    return released(slot, f"still {slot.state} after {now - slot.since:.0f} s{found}", now=now)


def _idle(slot: Slot, seen: Observed, now: float) -> Step | None:
    tpu = seen.tpu
    if tpu is None:
        return released(slot, "the cloud says not found while it was idle", now=now)
    ill = tpu.health not in (Health.HEALTHY, Health.UNSPECIFIED)  # a missing health may only be late
    if tpu.is_dead or ill or tpu.node is not NodeState.READY:
        cause = f"not usable any more: node {tpu.node or 'none'}, health {tpu.health or 'unknown'}"
        return released(slot, cause, now=now)
    return None
