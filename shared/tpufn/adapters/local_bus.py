"""The embedded bus: what people send is durable in SQLite, what only wakes is in memory.

Submissions and commands come from other processes and must survive a crash: rows with a visibility time, redelivered
with backoff until they are acknowledged, and dead letters after five tries. Wakes and workers' messages are hints, and
losing them costs a tick. Workers send datagrams to a socket beside the state.
"""

import contextlib
import os
import socket
import threading
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tpufn.adapters.sqlite_file import Database, connect
from tpufn.domain.views import DeadLetter
from tpufn.ports import Clock

DURABLE = frozenset({"submissions", "commands"})
MAX_TRIES = 5
_SCHEMA = """
create table if not exists message (
    id text primary key, topic text, body blob, visible_at real, tries integer default 0, error text default ''
);
create table if not exists dead_letter (id text primary key, topic text, body blob, error text, at real);
"""


_NEXT = """
select id, topic, body from message where visible_at <= ? and not (
    topic = 'commands'
    and exists (select 1 from message as before where before.topic = 'submissions' and before.rowid < message.rowid)
) order by visible_at, rowid limit ?
"""


@dataclass(frozen=True, kw_only=True)
class Message:
    id: str
    topic: str
    body: Mapping[str, Any]


class LocalBus:
    """Publish from any thread or process; `take` from the engine."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._local = threading.local()
        self._memory: deque[Message] = deque()
        self._in_hand: set[str] = set()
        self._taking = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection().executescript(_SCHEMA)

    def publish(self, topic: str, body: Mapping[str, Any]) -> str:
        id = uuid.uuid4().hex
        if topic in DURABLE:
            row = (id, topic, msgspec.json.encode(body), self._clock.now())
            self._connection().execute("insert into message (id, topic, body, visible_at) values (?, ?, ?, ?)", row)
        else:
            self._memory.append(Message(id=id, topic=topic, body=body))
        return id

    def publish_all(self, topic: str, bodies: Iterable[Mapping[str, Any]]) -> None:
        for body in bodies:
            self.publish(topic, body)

    def take(self) -> Message | None:
        """The next message: hints first, then what is durable and visible, oldest first. It stays until `done`,
        `failed` or `bury`; until then no other thread gets it. A command waits for the submissions that were sent
        before it, also for one that failed and comes again: it may be about a job of theirs."""
        with contextlib.suppress(IndexError):
            return self._memory.popleft()
        with self._taking:
            held = set(self._in_hand)  # before the look: what is done meanwhile was seen, and must not be seen again
            rows = self._connection().execute(_NEXT, (self._clock.now(), len(held) + 1)).fetchall()
            row = next((row for row in rows if row[0] not in held), None)
            if row is None:
                return None
            self._in_hand.add(row[0])
        return Message(id=row[0], topic=row[1], body=msgspec.json.decode(row[2]))

    def done(self, message: Message) -> None:
        if message.topic in DURABLE:
            self._connection().execute("delete from message where id = ?", (message.id,))
        self._in_hand.discard(message.id)

    def failed(self, message: Message, error: str) -> None:
        """Again after a growing pause; after five tries a dead letter. A lost hint needs no second try."""
        if message.topic not in DURABLE:
            return
        connection = self._connection()
        sql = "update message set tries = tries + 1, error = ?, visible_at = ? + (1 << tries) where id = ?"
        connection.execute(sql, (error, self._clock.now(), message.id))
        row = connection.execute("select tries from message where id = ?", (message.id,)).fetchone()
        if row is not None and row[0] >= MAX_TRIES:
            self.bury(message, error)
        self._in_hand.discard(message.id)

    def bury(self, message: Message, error: str) -> None:
        """Make a dead letter of it."""
        with _transaction(self._connection()) as connection:
            row = (message.id, message.topic, msgspec.json.encode(message.body), error, self._clock.now())
            connection.execute("insert or ignore into dead_letter values (?, ?, ?, ?, ?)", row)
            connection.execute("delete from message where id = ?", (message.id,))
        self._in_hand.discard(message.id)

    def waiting(self) -> list[Message]:
        """What is about to be delivered, oldest first."""
        rows = self._connection().execute("select id, topic, body from message order by visible_at, rowid").fetchall()
        return [Message(id=id, topic=topic, body=msgspec.json.decode(body)) for id, topic, body in rows]

    def count(self) -> int:
        """Dead letters."""
        (count,) = self._connection().execute("select count(*) from dead_letter").fetchone()
        return int(count)

    def letters(self, *, limit: int = 100) -> list[DeadLetter]:
        sql = "select id, topic, body, error, at from dead_letter order by at, id limit ?"
        rows = self._connection().execute(sql, (limit,)).fetchall()
        return [
            DeadLetter(id=id, topic=topic, body=bytes(body).decode("utf-8", "replace"), problem=error, at=at)
            for id, topic, body, error, at in rows
        ]

    def replay(self, ids: Collection[str]) -> list[DeadLetter]:
        chosen = [letter for letter in self.letters(limit=-1) if not ids or letter.id in ids]
        for letter in chosen:
            self._dig_up(letter)
        return chosen

    def _dig_up(self, letter: DeadLetter) -> None:
        """Deliver it again, from the start."""
        with _transaction(self._connection()) as connection:
            again = "insert or ignore into message (id, topic, body, visible_at) select id, topic, body, ? "
            connection.execute(f"{again} from dead_letter where id = ?", (self._clock.now(), letter.id))
            connection.execute("delete from dead_letter where id = ?", (letter.id,))

    @property
    def has_hints(self) -> bool:
        return bool(self._memory)

    def _connection(self) -> Database:
        connection: Database | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._path)
        return connection


@contextlib.contextmanager
def _transaction(connection: Database) -> Iterator[Database]:
    connection.execute("begin immediate")
    try:
        yield connection
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


class Mailbox:
    """The socket at which workers drop their messages. A message that finds no engine is lost, which is fine."""

    def __init__(self, path: Path, deliver: Callable[[str, Mapping[str, Any]], None]) -> None:
        self.path, self._deliver = path, deliver
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._receive, name="mailbox", daemon=True)
        self._closed = False

    def open(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self._socket.bind(str(self.path))
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _receive(self) -> None:
        while not self._closed:
            try:
                data = self._socket.recv(65_536)
            except OSError:
                return
            with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
                message = msgspec.json.decode(data, type=dict[str, Any])
                self._deliver(str(message.get("topic", "")), message.get("body", {}))
