"""Where documents live in Firestore, and which of their values Firestore itself has to see.

A stored document is `body` (all of it, as JSON text), `applied` (the id of the commit that wrote it) and the few values
that a query filters or sorts by. `body` and `applied` are exempt from indexing (`firestore_indexes.json`). One text
instead of a map of maps: reading 100 slots of 16 workers took 32 ms instead of 72 (Python 3.11, 2.34 of the client),
an environment variable may be called `__X__` as no Firestore field may, and JSON's `Infinity` is kept.

A job is in the index of the queue only while it wants capacity, and has a `due` only while something may become due: a
query's cost follows what it finds, never how many jobs there ever were.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from tpufn.codec import decode, encode, reference
from tpufn.domain.attempt import Attempt, split_attempt_id
from tpufn.domain.capacity import CreateOutcome
from tpufn.domain.job import Job, JobState
from tpufn.domain.notes import Note
from tpufn.ports import Document

STATISTICS = timedelta(days=30)
"""How long outcomes and the slots' own notes are kept: `expires_at` is their TTL field."""

COLLECTIONS: Mapping[str, str] = {
    "job": "jobs",
    "spec": "specs",
    "slot": "slots",
    "scope": "scopes",
    "outcome": "outcomes",
    "outbox": "outbox",
    "fleet": "fleet",
}
FLEET = "fleet/current"
_QUERIED: Mapping[type, tuple[str, ...]] = {Job: ("state", "submitted_at", "rank", "accepts", "due")}

T = TypeVar("T")


def document_path(document: Document) -> str:
    """The path below the database's root."""
    return path(*reference(document))


def path(kind: str, id: str) -> str:
    if kind == "attempt":
        job, number = split_attempt_id(id)
        return f"jobs/{_segment(job)}/attempts/{number}"
    return f"{COLLECTIONS[kind]}/{_segment(id)}"


def history_path(job: str) -> str:
    return f"jobs/{_segment(job)}/history"


def note_path(note: Note) -> str:
    """A job's notes below the job; others below their slot, or below the fleet where they are of neither."""
    if note.job:
        return f"{history_path(note.job)}/{_segment(note.id)}"
    owner = path("slot", note.slot) if note.slot else FLEET
    return f"{owner}/history/{_segment(note.id)}"


def _segment(id: str) -> str:
    """An id as one path segment: a stray's entity is `tpu:ZONE/NAME`."""
    return id.replace("%", "%25").replace("/", "%2F")


def fields(document: Document, commit: str) -> dict[str, Any]:
    """What is stored. A value that is None is left out, and so in no index."""
    queried = {name: value for name, value in _queried(document).items() if value is not None}
    return {**queried, "body": json.dumps(encode(document), ensure_ascii=False), "applied": commit}


def absent(document: Document, stored: Mapping[str, Any]) -> set[str]:
    """The queried values that this version of the document no longer has."""
    return set(_QUERIED.get(type(document), ())) - stored.keys()


def _queried(document: Document) -> dict[str, Any]:
    match document:
        case Job():
            queue = {"rank": document.rank, "accepts": list(document.accepts)} if document.wants_capacity else {}
            return {
                "state": document.state.value,
                "submitted_at": document.submitted_at,
                "due": _due(document),
                **queue,
            }
        case CreateOutcome(pool=pool, at=at):
            return {"pool": pool, "at": at, "expires_at": datetime.fromtimestamp(at, UTC) + STATISTICS}
        case _:
            return {}


def _due(job: Job) -> float | None:
    """When the tick has to look: a backoff's end, or the queue deadline of a job that never ran."""
    if job.state is JobState.WAITING:
        return job.due_at or None
    if job.state is JobState.PENDING and not job.region_started:
        return job.queue_deadline_at or None
    return None


def note_fields(note: Note, number: int, commit: str, *, committed: Any) -> dict[str, Any]:
    """`committed` is the server's time of the commit, `number` the note's place in it: together the history's order."""
    body = json.dumps(msgspec.to_builtins(note), ensure_ascii=False)
    whole = {"body": body, "applied": commit, "committed": committed, "number": number}
    return whole if note.job else {**whole, "expires_at": datetime.fromtimestamp(note.at, UTC) + STATISTICS}


def read(type: type[T], stored: Mapping[str, Any], version: str) -> T:
    return decode(type, json.loads(stored["body"]), version)


def read_note(stored: Mapping[str, Any]) -> Note:
    return msgspec.convert(json.loads(stored["body"]), Note, strict=False)


def by_number(attempts: list[Attempt]) -> list[Attempt]:
    """Their ids sort as text in Firestore: 10 before 2."""
    return sorted(attempts, key=lambda attempt: attempt.number)
