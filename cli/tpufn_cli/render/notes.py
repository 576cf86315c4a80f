"""A note as one line: when, what, about whom, and a phrase with its numbers.

The wording is stable: people grep for it. An event that this version does not know gets its reason as the phrase.
"""

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tpufn.domain.notes import Note
from tpufn_cli.render import words

_EVENT_WIDTH = 18
_SUBJECT_WIDTH = 20


def _validated(note: Note) -> str:
    return _warned(note, note.reason)


def _warned(note: Note, text: str) -> str:
    return "; ".join((text, *(f"warning: {line}" for line in warnings(note))))


def _bundled(note: Note) -> str:
    if not note.data.get("sha256"):
        return note.reason
    files, size = int(note.data.get("files") or 0), float(note.data.get("size") or 0)
    return _warned(note, f"{words.count(files, 'file')}, {words.size(size)}, sha256 {str(note.data['sha256'])[:12]}")


def _opened(note: Note) -> str:
    legs = listed(note, "legs")
    return f"{words.count(len(legs), 'leg')}: {', '.join(legs)}" if legs else note.reason


def _won(note: Note) -> str:
    losers = listed(note, "losers")
    return f"{note.reason}; releases {', '.join(losers)}" if losers else note.reason


def _ended(note: Note) -> str:
    outcome = str(note.data.get("outcome") or "")
    return ": ".join(part for part in (outcome, note.reason) if part)


_PHRASES: Mapping[str, Callable[[Note], str]] = MappingProxyType(
    {
        "job.validated": _validated,
        "bundle.built": _bundled,
        "race.opened": _opened,
        "race.won": _won,
        "attempt.stopping": _ended,
        "attempt.closed": _ended,
    }
)


def phrase(note: Note) -> str:
    """What a note says beside its event and subject: its reason, for some events with their numbers."""
    make = _PHRASES.get(note.event)
    return make(note) if make else note.reason


def warnings(note: Note) -> tuple[str, ...]:
    """The warnings that come with a validated job file or a bundle."""
    return tuple(str(note.data.get("warnings") or "").splitlines())


def subject(note: Note) -> str:
    """Whom a note is about, without the kind."""
    return words.bare(note.subject)


def listed(note: Note, key: str) -> tuple[str, ...]:
    """A list that the note carries as text: `a, b` or `a b`. Empty where it carries a number or nothing."""
    value = note.data.get(key)
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) and not value.isdigit() else ()


def line(note: Note, *, start: float | None = None) -> str:
    """The whole line. Times are relative to `start`, or of the day."""
    head = f"{clock(note.at, start)} {note.event:<{_EVENT_WIDTH}}"
    return f"{head} {subject(note):<{_SUBJECT_WIDTH}} {phrase(note)}".rstrip()


def output_line(worker: int, text: str, *, job: str = "") -> str:
    """A worker's line in the same columns, `job` where there are several. It has no time: it is seen a little after it
    was written."""
    who = f"{job} worker {worker}" if job else f"worker {worker}"
    return f"{'':8} {'output':<{_EVENT_WIDTH}} {who} | {words.printable(text)}".rstrip()


def clock(at: float, start: float | None) -> str:
    """`   +3.2s` after `start`, or the local time of the day."""
    if start is None:
        return time.strftime("%H:%M:%S", time.localtime(at))
    return f"{f'+{max(0.0, at - start):.1f}s':>8}"
