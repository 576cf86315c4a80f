"""Values as JSON. Listings are one document; streams are one event per line.

Enums are their names, priorities their labels.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import click

from tpufn.domain.job import Priority
from tpufn.domain.notes import Note
from tpufn_cli.flow.output import OutputLine

_INTERNAL = frozenset({"version", "rank", "digest"})


def jsonable(value: Any) -> Any:
    """`value` as plain JSON types. Dataclasses lose the fields that only the store understands."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: jsonable(getattr(value, f.name)) for f in fields(value) if f.name not in _INTERNAL}
    if isinstance(value, Priority):
        return value.label
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(item) for item in value]
    return value


def print_document(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(jsonable(value), indent=2, ensure_ascii=False))


def print_event(event: Mapping[str, Any]) -> None:
    """One event on one line of stdout, at once."""
    click.echo(json.dumps(jsonable(event), ensure_ascii=False, separators=(",", ":")))


def note_event(note: Note) -> dict[str, Any]:
    """A note as an event: only what it says."""
    event: dict[str, Any] = {"event": note.event, "at": round(note.at, 3), "subject": note.subject}
    for name in ("job", "attempt", "slot", "reason", "id"):
        if getattr(note, name):
            event[name] = getattr(note, name)
    return {**event, "data": dict(note.data)} if note.data else event


def output_event(line: OutputLine) -> dict[str, Any]:
    """One line of a worker's output as an event; `partial` only where the line goes on."""
    event = {"event": "output", "job": line.job, "attempt": line.attempt, "worker": line.worker, "text": line.text}
    return {**event, "partial": True} if line.partial else event
