"""The store in memory: the embedded store's contract without a file, for simulations and tests.

A commit changes the present state in place, unless a cut is open on it: then it changes a copy, and the cut keeps what
it saw. So a reader never waits and never sees half of anything, and where nobody reads meanwhile a commit costs what it
writes.
"""

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast

from tpufn.codec import reference
from tpufn.domain.attempt import Attempt
from tpufn.domain.capacity import CreateOutcome, Scope
from tpufn.domain.effects import Row
from tpufn.domain.errors import Stale
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import DEMAND, Job, JobSpec, JobState
from tpufn.domain.notes import Note
from tpufn.domain.slot import Slot
from tpufn.ports import Clock, Commit, Document

T = TypeVar("T")
Place = tuple[str, ...]
"""Which ordered index: ("queue", key, state), ("state", state), ("due",), ("deadline",), ("attempt", job), ..."""


class Entry(NamedTuple):
    """A stored document; its `version` is the store's."""

    document: Document
    stamp: str


class State:
    """Every document, with the indexes that queries need. `readers` counts the cuts that are open on it."""

    def __init__(self) -> None:
        self.number = 0
        self.documents: dict[str, dict[str, Entry]] = {}
        self.indexes: dict[Place, list[tuple[Any, str]]] = {}
        self.notes: list[Note] = []
        self.note_numbers: dict[str, int] = {}
        self.notes_of: dict[str, list[int]] = {}
        self.readers = 0

    def copy(self) -> "State":
        other = State()
        other.number = self.number
        other.documents = {kind: dict(rows) for kind, rows in self.documents.items()}
        other.indexes = {place: list(rows) for place, rows in self.indexes.items()}
        other.notes, other.note_numbers = list(self.notes), dict(self.note_numbers)
        other.notes_of = {job: list(numbers) for job, numbers in self.notes_of.items()}
        return other

    def entry(self, kind: str, id: str) -> Entry | None:
        return self.documents.get(kind, {}).get(id)

    def put(self, document: Document, stamp: str) -> None:
        self.remove(document)
        kind, id = reference(document)
        stored = replace(document, version=str(self.number))
        self.documents.setdefault(kind, {})[id] = Entry(stored, stamp)
        for place, sort in _places(stored):
            insort(self.indexes.setdefault(place, []), (sort, id))

    def remove(self, document: Document) -> None:
        kind, id = reference(document)
        before = self.documents.get(kind, {}).pop(id, None)
        for place, sort in _places(before.document) if before else ():
            rows = self.indexes[place]
            del rows[bisect_left(rows, (sort, id))]

    def tell(self, note: Note) -> None:
        """Append a note; one that is known by its id is not told again."""
        if note.id in self.note_numbers:
            return
        self.notes.append(note)
        self.note_numbers[note.id] = len(self.notes)
        self.notes_of.setdefault(note.job, []).append(len(self.notes))


class MemoryStore:
    """`on_commit` is told each commit after it is applied."""

    def __init__(self, clock: Clock, *, on_commit: Callable[[Commit], None] | None = None) -> None:
        self._clock, self._on_commit = clock, on_commit
        self._lock = threading.Lock()
        self._state = State()

    def on_commit(self, listener: Callable[[Commit], None]) -> None:
        self._on_commit = listener

    @contextmanager
    def cut(self) -> Iterator["MemoryCut"]:
        with self._lock:
            state = self._state
            state.readers += 1
        try:
            yield MemoryCut(state, self._clock.now())
        finally:
            with self._lock:
                state.readers -= 1

    def commit(self, commit: Commit) -> None:
        with self._lock:
            _check(self._state, (*commit.writes, *commit.deletes))
            if self._state.readers:
                self._state = self._state.copy()
            _apply(self._state, commit)
        if self._on_commit is not None:
            self._on_commit(commit)

    def applied(self, commit: Commit) -> bool:
        with self._lock:
            entries = [self._state.entry(*reference(document)) for document in commit.writes]
        return any(entry is not None and entry.stamp == commit.id for entry in entries)

    def close(self) -> None:
        """Nothing is open."""


class MemoryCut:
    """One state. See `ports.Cut` for the contract."""

    def __init__(self, state: State, now: float) -> None:
        self._state, self._now = state, now

    @property
    def now(self) -> float:
        return self._now

    @property
    def number(self) -> int:
        """How many commits it has seen."""
        return self._state.number

    def fleet(self) -> Fleet | None:
        return self._get(Fleet, "fleet", "current")

    def job(self, id: str) -> Job | None:
        return self._get(Job, "job", id)

    def spec(self, id: str) -> JobSpec | None:
        return self._get(JobSpec, "spec", id)

    def attempt(self, id: str) -> Attempt | None:
        return self._get(Attempt, "attempt", id)

    def slot(self, name: str) -> Slot | None:
        return self._get(Slot, "slot", name)

    def slots(self) -> Sequence[Slot]:
        return self._all(Slot, "slot")

    def scopes(self) -> Sequence[Scope]:
        return self._all(Scope, "scope")

    def row(self, entity: str) -> Row | None:
        return self._get(Row, "outbox", entity)

    def rows(self, *, limit: int = 500) -> Sequence[Row]:
        return self._all(Row, "outbox")[:limit]

    def jobs_wanting(
        self, keys: Collection[str], *, states: Collection[JobState], after: str = "", limit: int = 50
    ) -> Sequence[Job]:
        scans = [self._queue(key, state, after) for key in keys for state in states]
        return self._jobs(islice(dict.fromkeys(merge(*scans)), limit))

    def jobs_in(self, states: Collection[JobState], *, limit: int, newest: bool = False) -> Sequence[Job]:
        scans = [self._state.indexes.get(("state", state), []) for state in states]
        ordered = merge(*(reversed(s) for s in scans), reverse=True) if newest else merge(*scans)
        return self._jobs(islice(ordered, limit))

    def jobs_due(self, *, before: float, limit: int = 100) -> Sequence[Job]:
        ids: set[str] = set()
        for kind in ("due", "deadline"):
            rows = self._state.indexes.get((kind,), [])
            ids |= {id for _, id in rows[: bisect_right(rows, before, key=lambda row: row[0])]}
        return self._jobs(("", id) for id in sorted(ids)[:limit])

    def attempts(self, job: str) -> Sequence[Attempt]:
        return self._children(Attempt, "attempt", self._state.indexes.get(("attempt", job), ()))

    def history(self, job: str, *, after: str = "", limit: int = 1000) -> Sequence[Note]:
        numbers = self._state.notes_of.get(job, [])
        start = bisect_right(numbers, self._state.note_numbers.get(after, 0))
        return [self._state.notes[number - 1] for number in numbers[start : start + limit]]

    def feed(self, *, after: str = "", limit: int = 200) -> Sequence[Note]:
        newest = self._state.notes[-limit:]
        start = next((i for i, note in enumerate(newest, 1) if note.id == after), 0)
        return newest[start:]

    def outcomes(self, *, pool: str = "", limit: int = 20) -> Sequence[CreateOutcome]:
        rows = self._state.indexes.get(("outcome", pool), [])
        return self._children(CreateOutcome, "outcome", rows[: -limit - 1 : -1])

    def _queue(self, key: str, state: JobState, after: str) -> Iterable[tuple[str, str]]:
        rows = self._state.indexes.get(("queue", key, state), [])
        return islice(rows, bisect_right(rows, after, key=lambda row: row[0]), None)

    def _jobs(self, rows: Iterable[tuple[Any, str]]) -> list[Job]:
        return self._children(Job, "job", rows)

    def _children(self, type: type[T], kind: str, rows: Iterable[tuple[Any, str]]) -> list[T]:
        return [cast(T, self._state.documents[kind][id].document) for _, id in rows]

    def _all(self, type: type[T], kind: str) -> list[T]:
        rows = self._state.documents.get(kind, {})
        return [cast(T, rows[id].document) for id in sorted(rows)]

    def _get(self, type: type[T], kind: str, id: str) -> T | None:
        entry = self._state.entry(kind, id)
        return cast(T, entry.document) if entry else None


def _apply(state: State, commit: Commit) -> None:
    state.number += 1
    for document in commit.writes:
        state.put(document, commit.id)
    for document in commit.deletes:
        state.remove(document)
    for note in commit.notes:
        state.tell(note)


def _check(state: State, documents: Iterable[Document]) -> None:
    """Raise Stale unless each is the stored version; the second write of one document in one batch never is."""
    seen: set[tuple[str, str]] = set()
    for document in documents:
        ref = reference(document)
        entry = state.entry(*ref)
        stored = "in this batch" if ref in seen else entry.document.version if entry else ""
        if stored != document.version:
            raise Stale(f"{'/'.join(ref)} is at version {stored or 'none'}, not {document.version or 'none'}")
        seen.add(ref)


def _places(document: Document) -> Iterator[tuple[Place, Any]]:
    """The indexes that a document is in, each with its sort key there."""
    match document:
        case Job():
            yield from _job_places(document)
        case Attempt(job=job, number=number):
            yield ("attempt", job), number
        case CreateOutcome(pool=pool, at=at):
            yield ("outcome", pool), at


def _job_places(job: Job) -> Iterator[tuple[Place, Any]]:
    yield ("state", job.state), job.submitted_at
    if job.state is JobState.WAITING and job.due_at:
        yield ("due",), job.due_at
    if job.state is JobState.PENDING and job.queue_deadline_at and not job.region_started:
        yield ("deadline",), job.queue_deadline_at
    for key in dict.fromkeys(job.accepts) if job.state in DEMAND else ():
        yield ("queue", key, job.state), job.rank
