"""The cloud's store: one named Firestore database per deployment. See `ports.Store` for the contract.

A commit is one batch with a precondition per write: a document's version is its update time, to the nanosecond. Every
write carries its commit's id, so that each changes the document: Firestore keeps the update time of a write that
changes nothing. Preconditions instead of transactions: of four contending writers each gets on in a few ms.

The emulator applies a batch document by document after it has stamped it, so that a cut may see half of a commit that
is just being applied; production's cuts are exact. The core bears it, because every commit checks what it has read.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

from google.api_core.exceptions import AlreadyExists
from google.cloud.firestore import DELETE_FIELD, SERVER_TIMESTAMP, DocumentSnapshot, FieldFilter, Query, WriteBatch
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]  # it has no stubs

from tpufn.adapters import firestore_layout as layout
from tpufn.adapters.firestore_database import TIMEOUT, Database, database_id
from tpufn.codec import reference
from tpufn.domain.attempt import Attempt
from tpufn.domain.capacity import CreateOutcome, Scope
from tpufn.domain.effects import Row
from tpufn.domain.errors import Stale
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobSpec, JobState
from tpufn.domain.notes import Note
from tpufn.domain.slot import Slot
from tpufn.ports import Commit, Document

MOST_KEYS = 30
"""Values in one `array_contains_any` (https://firebase.google.com/docs/firestore/query-data/queries#limits_on_or_queries):
each is a disjunct, and states multiply them, so that each state is asked for on its own."""

T = TypeVar("T")


class FirestoreStore:
    """`project` and the deployment's name choose the database, unless `database` does; `timeout` is in seconds, for
    each call. The client is made at the first of them."""

    def __init__(
        self,
        project: str,
        deployment: str,
        *,
        database: str = "",
        credentials: Any = None,
        timeout: float = TIMEOUT,
    ) -> None:
        id = database or database_id(deployment)
        self._database = Database(project, id, credentials=credentials, timeout=timeout)

    @contextmanager
    def cut(self) -> Iterator["FirestoreCut"]:
        yield FirestoreCut(self._database)

    def commit(self, commit: Commit) -> None:
        touched = [layout.document_path(d) for d in (*commit.writes, *commit.deletes)]
        if len(set(touched)) < len(touched):
            raise Stale(f"the second write of one document cannot have read the first: {', '.join(touched)}")
        try:
            self._send(commit, commit.notes)
        except Stale as error:
            untold = self._untold(commit) if isinstance(error.__cause__, AlreadyExists) else commit.notes
            if untold == commit.notes:
                raise
            self._send(commit, untold)

    def applied(self, commit: Commit) -> bool:
        """A note stays as it was written, and so is the lasting evidence."""
        paths = [layout.document_path(d) for d in commit.writes] + [layout.note_path(n) for n in commit.notes[:1]]
        stamps = self._database.get(paths, at=None, names=("applied",)) if paths else ()
        return any(found.exists and found.get("applied") == commit.id for found in stamps)

    def close(self) -> None:
        self._database.close()

    def _send(self, commit: Commit, notes: Sequence[Note]) -> None:
        batch = self._database.client.batch()
        for document in commit.writes:
            self._write(batch, document, commit.id)
        for document in commit.deletes:
            self._delete(batch, document)
        for number, note in enumerate(notes):
            stored = layout.note_fields(note, number, commit.id, committed=SERVER_TIMESTAMP)
            batch.create(self._database.client.document(layout.note_path(note)), stored)
        if len(batch):
            self._database.commit(batch, ", ".join("/".join(reference(d)) for d in (*commit.writes, *commit.deletes)))

    def _write(self, batch: WriteBatch, document: Document, commit: str) -> None:
        ref = self._database.client.document(layout.document_path(document))
        stored = layout.fields(document, commit)
        if not document.version:
            batch.create(ref, stored)
            return
        gone = dict.fromkeys(layout.absent(document, stored), DELETE_FIELD)
        batch.update(ref, {**stored, **gone}, option=self._unchanged(document))

    def _delete(self, batch: WriteBatch, document: Document) -> None:
        client = self._database.client
        option = self._unchanged(document) if document.version else client.write_option(exists=False)
        batch.delete(client.document(layout.document_path(document)), option=option)

    def _unchanged(self, document: Document) -> Any:
        """The precondition that the document is as it was read."""
        time = Timestamp()
        try:
            time.FromJsonString(document.version)
        except ValueError:
            ref = "/".join(reference(document))
            raise Stale(f"{ref} never was at version {document.version!r}") from None
        return self._database.client.write_option(last_update_time=time)

    def _untold(self, commit: Commit) -> tuple[Note, ...]:
        """The notes that are not there yet: a commit that is sent again after a lost answer tells none twice."""
        there = self._database.get([layout.note_path(n) for n in commit.notes], at=None) if commit.notes else ()
        return tuple(note for note, found in zip(commit.notes, there, strict=True) if not found.exists)


class FirestoreCut:
    """Reads as of one moment, which the first of them tells. One document is read once: it cannot change here."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._at: datetime | None = None
        self._seen: dict[str, DocumentSnapshot[Any]] = {}

    @property
    def now(self) -> float:
        return self._moment().timestamp()

    def fleet(self) -> Fleet | None:
        return self._get(Fleet, layout.FLEET)

    def job(self, id: str) -> Job | None:
        return self._get(Job, layout.path("job", id)) if id else None

    def spec(self, id: str) -> JobSpec | None:
        return self._get(JobSpec, layout.path("spec", id)) if id else None

    def attempt(self, id: str) -> Attempt | None:
        try:
            path = layout.path("attempt", id)
        except ValueError:
            return None
        return self._get(Attempt, path)

    def slot(self, name: str) -> Slot | None:
        return self._get(Slot, layout.path("slot", name)) if name else None

    def slots(self) -> Sequence[Slot]:
        return self._list(Slot, self._collection("slots"))

    def scopes(self) -> Sequence[Scope]:
        return self._list(Scope, self._collection("scopes"))

    def row(self, entity: str) -> Row | None:
        return self._get(Row, layout.path("outbox", entity)) if entity else None

    def rows(self, *, limit: int = 500) -> Sequence[Row]:
        return self._list(Row, self._collection("outbox").limit(limit))

    def jobs_wanting(
        self, keys: Collection[str], *, states: Collection[JobState], after: str = "", limit: int = 50
    ) -> Sequence[Job]:
        """One query per state and per 30 keys, each in rank order, merged: at most `limit` documents from each."""
        wanted = sorted(keys)
        pages = [
            self._list(Job, self._wanting(wanted[start : start + MOST_KEYS], state, after).limit(limit))
            for start in range(0, len(wanted), MOST_KEYS)
            for state in sorted(states)
        ]
        in_order = merge(*pages, key=lambda job: (job.rank, job.id))
        return list(islice({job.id: job for job in in_order}.values(), limit))

    def _wanting(self, keys: Sequence[str], state: JobState, after: str) -> Query:
        accepted = FieldFilter("accepts", "array_contains_any", list(keys))
        query: Query = self._collection("jobs").where(filter=FieldFilter("state", "==", state.value))
        return query.where(filter=accepted).where(filter=FieldFilter("rank", ">", after)).order_by("rank")

    def jobs_in(self, states: Collection[JobState], *, limit: int, newest: bool = False) -> Sequence[Job]:
        if not states:
            return ()
        direction = Query.DESCENDING if newest else Query.ASCENDING
        wanted = FieldFilter("state", "in", sorted(state.value for state in states))
        query = self._collection("jobs").where(filter=wanted).order_by("submitted_at", direction=direction)
        return self._list(Job, query.limit(limit))

    def jobs_due(self, *, before: float, limit: int = 100) -> Sequence[Job]:
        query = self._collection("jobs").where(filter=FieldFilter("due", "<=", before)).order_by("due")
        return self._list(Job, query.limit(limit))

    def attempts(self, job: str) -> Sequence[Attempt]:
        return layout.by_number(self._list(Attempt, self._collection(f"{layout.path('job', job)}/attempts")))

    def history(self, job: str, *, after: str = "", limit: int = 1000) -> Sequence[Note]:
        notes = self._collection(layout.history_path(job))
        query = notes.order_by("committed").order_by("number").limit(limit)
        if after:
            last = self._snapshot(layout.note_path(Note(event="", subject="", job=job, id=after)))
            query = query.start_after(last) if last.exists else query
        return [layout.read_note(found.to_dict() or {}) for found in self._database.query(query, at=self._moment())]

    def feed(self, *, after: str = "", limit: int = 200) -> Sequence[Note]:
        """One query over the history of everything."""
        group = self._database.client.collection_group("history")
        newest = group.order_by("committed", direction=Query.DESCENDING).order_by("number", direction=Query.DESCENDING)
        found = self._database.query(newest.limit(limit), at=self._moment())
        notes = [layout.read_note(one.to_dict() or {}) for one in reversed(found)]
        return notes[next((i for i, note in enumerate(notes, 1) if note.id == after), 0) :]

    def outcomes(self, *, pool: str = "", limit: int = 20) -> Sequence[CreateOutcome]:
        query = self._collection("outcomes").order_by("at", direction=Query.DESCENDING).limit(limit)
        return self._list(CreateOutcome, query.where(filter=FieldFilter("pool", "==", pool)) if pool else query)

    def _collection(self, path: str) -> Any:
        return self._database.client.collection(path)

    def _moment(self) -> datetime:
        """The cut's read time. A cut that begins with a query reads the fleet first, as most begin with anyway."""
        if self._at is None:
            self._snapshot(layout.FLEET)
        assert self._at is not None
        return self._at

    def _snapshot(self, path: str) -> "DocumentSnapshot[Any]":
        if path not in self._seen:
            [found] = self._database.get([path], at=self._at)
            self._seen[path] = found
            self._at = self._at or found.read_time
        return self._seen[path]

    def _get(self, type: type[T], path: str) -> T | None:
        return _decode(type, self._snapshot(path))

    def _list(self, type: type[T], query: Any) -> list[T]:
        found = self._database.query(query, at=self._moment())
        return [document for snapshot in found if (document := _decode(type, snapshot)) is not None]


def _decode(type: type[T], snapshot: "DocumentSnapshot[Any]") -> T | None:
    stored = snapshot.to_dict()
    return layout.read(type, stored, snapshot.update_time.rfc3339()) if stored is not None else None
