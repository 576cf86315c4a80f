"""The embedded store: one SQLite file in WAL mode, shared by the engine and by other commands' processes.

All documents are rows of one table `(kind, id, body, version, stamp)`. `version` is the number of the commit that wrote
it and `stamp` that commit's id. What queries need of a job is repeated in `queue`, one row per placement key, so that
the head of the queue is read through an index however long the queue is.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tpufn.adapters.sqlite_file import Database, connect
from tpufn.codec import decode, encode, reference
from tpufn.domain.attempt import Attempt
from tpufn.domain.capacity import CreateOutcome, Scope
from tpufn.domain.effects import Row
from tpufn.domain.errors import Stale
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobSpec, JobState
from tpufn.domain.notes import Note
from tpufn.domain.slot import Slot
from tpufn.ports import Clock, Commit, Document

_SCHEMA = """
create table if not exists document (
    kind text, id text, body blob, version integer, stamp text, parent text default '', sort text default '',
    primary key (kind, id)
) without rowid;
create index if not exists document_parent on document (kind, parent, sort);
create table if not exists job (
    id text primary key, state text, submitted_at real, due_at real, deadline_at real
) without rowid;
create index if not exists job_state on job (state, submitted_at, id);
create index if not exists job_due on job (due_at) where due_at > 0;
create index if not exists job_deadline on job (deadline_at) where deadline_at > 0;
create table if not exists queue (key text, state text, rank text, id text, primary key (id, key)) without rowid;
create index if not exists queue_rank on queue (key, state, rank);
create table if not exists note (number integer primary key autoincrement, id text unique, job text, body blob);
create index if not exists note_job on note (job, number);
create table if not exists meta (name text primary key, value integer);
insert or ignore into meta values ('commits', 0);
"""
_IN_QUEUE = frozenset({JobState.PENDING, JobState.WAITING})

T = TypeVar("T")


class SqliteStore:
    """`on_commit` is told each commit after it is durable: the embedded engine's document triggers."""

    def __init__(self, path: Path, clock: Clock, *, on_commit: Callable[[Commit], None] | None = None) -> None:
        self._path, self._clock, self._on_commit = path, clock, on_commit
        self._local = threading.local()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection().executescript(_SCHEMA)

    def on_commit(self, listener: Callable[[Commit], None]) -> None:
        self._on_commit = listener

    @contextmanager
    def cut(self) -> Iterator["SqliteCut"]:
        connection = self._connection()
        connection.execute("begin")
        try:
            yield SqliteCut(connection, self._clock.now())
        finally:
            connection.execute("rollback")

    def commit(self, commit: Commit) -> None:
        connection = self._connection()
        connection.execute("begin immediate")
        try:
            _write(connection, commit)
        except BaseException:
            connection.execute("rollback")
            raise
        connection.execute("commit")
        if self._on_commit is not None:
            self._on_commit(commit)

    def applied(self, commit: Commit) -> bool:
        refs = [reference(d) for d in commit.writes]
        rows = (self._connection().execute(_STAMP, ref).fetchone() for ref in refs)
        return any(row is not None and row[0] == commit.id for row in rows)

    def close(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            del self._local.connection

    def _connection(self) -> Database:
        """One connection a thread: a cut is a transaction of its own."""
        connection: Database | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._path)
        return connection


_STAMP = "select stamp from document where kind = ? and id = ?"


def _write(connection: Database, commit: Commit) -> None:
    connection.execute("update meta set value = value + 1 where name = 'commits'")
    (number,) = connection.execute("select value from meta where name = 'commits'").fetchone()
    for document in commit.writes:
        _check(connection, document)
        _put(connection, document, number, commit.id)
    for document in commit.deletes:
        _check(connection, document)
        connection.execute("delete from document where kind = ? and id = ?", reference(document))
    for note in commit.notes:
        body = msgspec.json.encode(note)
        connection.execute("insert or ignore into note (id, job, body) values (?, ?, ?)", (note.id, note.job, body))


def _check(connection: Database, document: Document) -> None:
    ref = reference(document)
    row = connection.execute("select version from document where kind = ? and id = ?", ref).fetchone()
    stored = str(row[0]) if row else ""
    if stored != document.version:
        raise Stale(f"{'/'.join(ref)} is at version {stored or 'none'}, not {document.version or 'none'}")


def _put(connection: Database, document: Document, number: int, stamp: str) -> None:
    kind, id = reference(document)
    parent, sort = _place(document)
    body = msgspec.json.encode(encode(document))
    connection.execute(
        "insert or replace into document values (?, ?, ?, ?, ?, ?, ?)", (kind, id, body, number, stamp, parent, sort)
    )
    if isinstance(document, Job):
        _index(connection, document)


def _place(document: Document) -> tuple[str, str]:
    """(parent, sort key) for the kinds that are listed by parent."""
    match document:
        case Attempt(job=job, number=number):
            return job, f"{number:08d}"
        case CreateOutcome(pool=pool, at=at):
            return pool, f"{at:017.3f}"
        case _:
            return "", ""


def _index(connection: Database, job: Job) -> None:
    deadline = job.queue_deadline_at if job.state is JobState.PENDING and not job.region_started else 0.0
    due = job.due_at if job.state is JobState.WAITING else 0.0
    connection.execute(
        "insert or replace into job values (?, ?, ?, ?, ?)", (job.id, job.state, job.submitted_at, due, deadline)
    )
    connection.execute("delete from queue where id = ?", (job.id,))
    if job.state in _IN_QUEUE:
        rows = [(key, job.state, job.rank, job.id) for key in job.accepts]
        connection.executemany("insert into queue values (?, ?, ?, ?)", rows)


class SqliteCut:
    """One read transaction. See `ports.Cut` for the contract."""

    def __init__(self, connection: Database, now: float) -> None:
        self._connection, self._now = connection, now
        self._connection.execute("select value from meta").fetchone()  # the moment of the cut

    @property
    def now(self) -> float:
        return self._now

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
        return self._all(Row, "outbox", limit=limit)

    def jobs_wanting(
        self, keys: Collection[str], *, states: Collection[JobState], after: str = "", limit: int = 50
    ) -> Sequence[Job]:
        """One index scan per key and state, merged by rank: the cost follows `limit`, never the queue."""
        sql = "select rank, id from queue where key = ? and state = ? and rank > ? order by rank limit ?"
        scans = [
            self._connection.execute(sql, (key, state, after, limit)).fetchall()
            for key in sorted(keys)
            for state in sorted(states)
        ]
        unique = dict.fromkeys(merge(*scans))
        found = (self.job(id) for _, id in islice(unique, limit))
        return [job for job in found if job is not None]

    def jobs_in(self, states: Collection[JobState], *, limit: int, newest: bool = False) -> Sequence[Job]:
        order = "desc" if newest else "asc"
        sql = f"select submitted_at, id from job where state = ? order by submitted_at {order}, id {order} limit ?"
        scans = [self._connection.execute(sql, (state, limit)).fetchall() for state in sorted(states)]
        found = (self.job(id) for _, id in islice(merge(*scans, reverse=newest), limit))
        return [job for job in found if job is not None]

    def jobs_due(self, *, before: float, limit: int = 100) -> Sequence[Job]:
        sql = (
            "select id from job where due_at > 0 and due_at <= ? "
            "union select id from job where deadline_at > 0 and deadline_at <= ? order by id limit ?"
        )
        found = (self.job(id) for (id,) in self._connection.execute(sql, (before, before, limit)).fetchall())
        return [job for job in found if job is not None]

    def attempts(self, job: str) -> Sequence[Attempt]:
        return self._children(Attempt, "attempt", job, "asc", 10_000)

    def history(self, job: str, *, after: str = "", limit: int = 1000) -> Sequence[Note]:
        sql = (
            "select body from note where job = ? and number > "
            "coalesce((select number from note where id = ?), 0) order by number limit ?"
        )
        rows = self._connection.execute(sql, (job, after, limit)).fetchall()
        return [msgspec.json.decode(body, type=Note) for (body,) in rows]

    def feed(self, *, after: str = "", limit: int = 200) -> Sequence[Note]:
        """The newest notes of everything, oldest first: all after the one of that id, at most `limit`."""
        sql = (
            "select body from note where number > coalesce((select number from note where id = ?), 0) "
            "order by number desc limit ?"
        )
        rows = self._connection.execute(sql, (after, limit)).fetchall()
        return [msgspec.json.decode(body, type=Note) for (body,) in reversed(rows)]

    def outcomes(self, *, pool: str = "", limit: int = 20) -> Sequence[CreateOutcome]:
        if pool:
            return self._children(CreateOutcome, "outcome", pool, "desc", limit)
        sql = "select body, version from document where kind = 'outcome' order by sort desc limit ?"
        return self._decode(CreateOutcome, self._connection.execute(sql, (limit,)))

    def _children(self, type: type[T], kind: str, parent: str, order: str, limit: int) -> list[T]:
        sql = f"select body, version from document where kind = ? and parent = ? order by sort {order} limit ?"
        return self._decode(type, self._connection.execute(sql, (kind, parent, limit)))

    def _all(self, type: type[T], kind: str, *, limit: int = -1) -> list[T]:
        sql = "select body, version from document where kind = ? order by id limit ?"
        return self._decode(type, self._connection.execute(sql, (kind, limit)))

    def _get(self, type: type[T], kind: str, id: str) -> T | None:
        sql = "select body, version from document where kind = ? and id = ?"
        found = self._decode(type, self._connection.execute(sql, (kind, id)))
        return found[0] if found else None

    @staticmethod
    def _decode(type: type[T], rows: Any) -> list[T]:
        return [decode(type, msgspec.json.decode(body), str(version)) for body, version in rows.fetchall()]
