"""A SQLite file of our own: durable, shared by processes, and with errors that say what is wrong with which file."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tpufn.domain.errors import StateUnusable

BUSY_SECONDS = 10.0
"""How long a statement waits for another process that writes."""
_REMEDIES = (
    ("locked", "another process has been writing for long: try again, or stop it"),
    ("full", "make room on the disk, then try again"),
    ("readonly", "make it writable, or choose another place with --home"),
    ("unable to open", "make its folder writable, or choose another place with --home"),
    ("disk I/O", "look at the disk; `dmesg` may say more"),
    ("", "move its folder away to start anew; what it held (jobs, TPUs) must then be looked after by hand"),
)


def connect(path: Path, *, check_same_thread: bool = True) -> "Database":
    """In WAL mode, in autocommit, waiting for other writers. Raises StateUnusable, as all that is done with it does."""
    with _named(path):
        database = Database(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=check_same_thread)
    database.path = path
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = normal")
    return database


class Database(sqlite3.Connection):
    """A connection whose failures name the file."""

    path: Path

    def execute(self, sql: str, parameters: Any = (), /) -> "Answer":
        return self._answer().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> "Answer":
        return self._answer().executemany(sql, parameters)

    def executescript(self, script: str, /) -> "Answer":
        answer = self._answer()
        with _named(self.path):
            answer.executescript(script)
        return answer

    def _answer(self) -> "Answer":
        return self.cursor(Answer)


class Answer(sqlite3.Cursor):
    """Rows may be read from the disk as late as they are fetched."""

    connection: Database

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        with _named(self.connection.path):
            return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Self:
        with _named(self.connection.path):
            return super().executemany(sql, parameters)

    def fetchone(self) -> Any:
        with _named(self.connection.path):
            return super().fetchone()

    def fetchall(self) -> list[Any]:
        with _named(self.connection.path):
            return super().fetchall()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise  # a defect of ours
    except sqlite3.DatabaseError as error:
        raise StateUnusable(f"{path}: {error}; {_remedy(str(error))}") from error


def _remedy(problem: str) -> str:
    return next(remedy for mark, remedy in _REMEDIES if mark in problem)
