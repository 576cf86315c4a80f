"""What the simulated cloud remembers, over a crash of its process: dicts that write through to one SQLite file.

Changes are collected and written by `flush` in one transaction, before a call is acknowledged. WAL with
synchronous=NORMAL survives the death of the process at any moment. One process at a time owns a file.
"""

from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from tpufn.adapters.sqlite_file import Database, connect

T = TypeVar("T")

_SCHEMA = "CREATE TABLE IF NOT EXISTS record (kind TEXT, key TEXT, body BLOB, PRIMARY KEY (kind, key)) WITHOUT ROWID"
_WRITE = "INSERT INTO record VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body"
_ERASE = "DELETE FROM record WHERE kind = ? AND key = ?"
_READ = "SELECT key, body FROM record WHERE kind = ? ORDER BY key"


class _Changing(Protocol):
    def drain(self) -> list[tuple[str, str, bytes | None]]: ...


class Journal:
    """The file, or nothing at all where `path` is None."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._tables: list[_Changing] = []
        self._db: Database | None = None
        if path is not None:
            self._db = connect(Path(path), check_same_thread=False)
            self._db.execute(_SCHEMA)

    def table(self, kind: str, type: type[T]) -> "Table[T]":
        """The records of one kind, as they were when last flushed."""
        rows = self._db.execute(_READ, (kind,)).fetchall() if self._db else []
        table = Table(kind, {key: msgspec.json.decode(body, type=type) for key, body in rows})
        self._tables.append(table)
        return table

    def flush(self) -> None:
        """Write every change since the last flush, all or nothing."""
        changes = [change for table in self._tables for change in table.drain()]
        if self._db is None or not changes:
            return
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            for kind, key, body in changes:
                self._db.execute(*((_ERASE, (kind, key)) if body is None else (_WRITE, (kind, key, body))))

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


class Table(MutableMapping[str, T], Generic[T]):
    """A dict that knows which of its keys changed."""

    def __init__(self, kind: str, rows: dict[str, T]) -> None:
        self._kind, self._rows = kind, rows
        self._changed: set[str] = set()

    def __getitem__(self, key: str) -> T:
        return self._rows[key]

    def __setitem__(self, key: str, value: T) -> None:
        self._rows[key] = value
        self._changed.add(key)

    def __delitem__(self, key: str) -> None:
        del self._rows[key]
        self._changed.add(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def drain(self) -> list[tuple[str, str, bytes | None]]:
        """The changes since the last drain: (kind, key, new body, or None where it was deleted)."""
        changed, self._changed = sorted(self._changed), set()
        return [(self._kind, key, self._body(key)) for key in changed]

    def _body(self, key: str) -> bytes | None:
        return msgspec.json.encode(self._rows[key]) if key in self._rows else None
