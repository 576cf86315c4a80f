"""What people are told: a note becomes a message, or nothing. Few things are worth a phone's buzz: a TPU is there, a
job ended, a job was preempted again and again, capacity is stuck for a reason that waiting does not mend.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tpufn.domain.events import Notice
from tpufn.domain.notes import Note

EVERY = 3
"""A job's preemptions are told at each third one."""
STUCK = ("structural", "quota")
"""Refusals that more waiting does not mend by itself."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message. `key` is the same for everything that is to be told once; `urgency` is ntfy's, 1 to 5."""

    key: str
    title: str
    text: str
    urgency: int = 3
    tag: str = ""


def message(note: Note | Notice, *, preemptions: int = 0) -> Message | None:
    """The message for a note, if it is worth one. `preemptions`: how often its job was preempted by now."""
    make = _MAKERS.get(note.event)
    return make(note, preemptions) if make else None


def asks_for_preemptions(note: Note | Notice) -> bool:
    """Whether the message depends on its job's number of preemptions, which the note does not carry."""
    return note.event == "attempt.closed" and note.data.get("outcome") == "preempted"


def _usable(note: Note | Notice, preemptions: int) -> Message | None:
    """Once per TPU: it becomes idle again after each job."""
    if note.reason.startswith("after "):
        return None
    key = f"{note.data.get('tpu') or note.id}/usable"
    return Message(key=key, title=f"{note.slot} is usable", text=note.reason, urgency=4, tag="rocket")


def _succeeded(note: Note | Notice, preemptions: int) -> Message | None:
    return Message(key=note.id, title=f"{note.job} succeeded", text=note.reason, tag="white_check_mark")


def _failed(note: Note | Notice, preemptions: int) -> Message | None:
    return Message(key=note.id, title=f"{note.job} failed", text=note.reason, urgency=4, tag="x")


def _cancelled(note: Note | Notice, preemptions: int) -> Message | None:
    return Message(key=note.id, title=f"{note.job} was cancelled", text=note.reason, urgency=2, tag="no_entry_sign")


def _preempted(note: Note | Notice, preemptions: int) -> Message | None:
    if not asks_for_preemptions(note) or preemptions == 0 or preemptions % EVERY:
        return None
    title = f"{note.job} was preempted {preemptions} times"
    return Message(key=f"{note.job}/preempted/{preemptions}", title=title, text=note.reason, tag="repeat")


def _refused(note: Note | Notice, preemptions: int) -> Message | None:
    """Once per pool and kind of refusal: the same one comes again with every try."""
    kind = note.reason.partition(":")[0]
    if kind not in STUCK:
        return None
    pool = note.slot.rpartition("-")[0]
    return Message(key=f"{pool}/{kind}", title=f"{pool} is stuck: {kind}", text=note.reason, urgency=4, tag="warning")


def _unschedulable(note: Note | Notice, preemptions: int) -> Message | None:
    return Message(
        key=f"{note.job}/unschedulable", title=f"{note.job} can run nowhere", text=note.reason, urgency=4, tag="warning"
    )


_MAKERS: Mapping[str, Callable[[Note | Notice, int], Message | None]] = {
    "slot.idle": _usable,
    "job.succeeded": _succeeded,
    "job.failed": _failed,
    "job.rejected": _failed,
    "job.cancelled": _cancelled,
    "attempt.closed": _preempted,
    "slot.refused": _refused,
    "job.unschedulable": _unschedulable,
}
