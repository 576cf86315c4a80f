"""Giving a slot's TPU up, and the notes that slots leave."""

from tpufn.decide.decision import Step
from tpufn.domain.effects import Effect, Kind, slot_entity
from tpufn.domain.notes import Note
from tpufn.domain.slot import Slot, SlotEvent

LEFT_ALONE = 60.0
"""Seconds before an `existing` TPU that was not usable is looked at again."""


def released(slot: Slot, reason: str, *, now: float) -> Step:
    """Give a slot's TPU up: delete with force until it is not found. From here on it is never adopted.

    A TPU that was there before us is only left alone for a while: its owner deletes it, not we.
    """
    if slot.adopted:
        return _left_alone(slot, reason, now=now)
    after = slot.on(
        SlotEvent.RELEASE, now=now, cause=reason, idle_since=0.0, hold="", group="", deletes=slot.deletes + 1
    )
    effect = Effect(kind=Kind.DELETE, entity=slot_entity(slot.name), generation=slot.generation, reason=reason)
    return Step(
        writes=(after,),
        effects=(effect,),
        notes=(slot_note(after, "slot.releasing", reason),),
        reason=f"release {slot.name}: {reason}",
    )


def _left_alone(slot: Slot, reason: str, *, now: float) -> Step:
    after = slot.on(
        SlotEvent.VANISH, now=now, cause=reason, idle_since=0.0, deadline=now + LEFT_ALONE, quick_failures=(), hold=""
    )
    return Step(writes=(after,), notes=(slot_note(after, "slot.free", reason),), reason=f"leave {slot.name}: {reason}")


def slot_note(slot: Slot, event: str, reason: str, *, job: str = "") -> Note:
    return Note(
        event=event,
        subject=slot_entity(slot.name),
        slot=slot.name,
        job=job,
        reason=reason,
        data={"state": slot.state.value, "generation": slot.generation, "tpu": slot.tpu},
    )
