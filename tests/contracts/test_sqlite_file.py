"""A file that cannot be used says so: its name, what is wrong, what helps. Never a traceback."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tpufn.adapters.local_bus import LocalBus
from tpufn.adapters.sqlite import SqliteStore
from tpufn.adapters.sqlite_file import connect
from tpufn.domain.errors import StateUnusable
from tpufn.ports import Commit
from tpufn.simulation.clock import VirtualClock
from tpufn.simulation.journal import Journal

OPENERS: dict[str, Callable[[Path], object]] = {
    "store": lambda path: SqliteStore(path, VirtualClock()),
    "bus": lambda path: LocalBus(path, VirtualClock()),
    "journal": Journal,
}
FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "garbage": (lambda path: path.write_bytes(b"no database " * 100), "move its folder away"),
    "a directory": (Path.mkdir, "make its folder writable"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("opener", OPENERS)
def test_a_file_that_cannot_be_opened(tmp_path: Path, opener: str, fault: str) -> None:
    path = tmp_path / "state.sqlite"
    breaking, remedy = FAULTS[fault]
    breaking(path)
    with pytest.raises(StateUnusable) as caught:
        OPENERS[opener](path)
    assert str(caught.value).startswith(f"{path}: ")
    assert remedy in str(caught.value)


def test_damage_that_shows_when_rows_are_fetched(tmp_path: Path) -> None:
    """SQLite reads pages as late as it can."""
    path = tmp_path / "state.sqlite"
    database = connect(path)
    database.execute("create table t (x)")
    database.executemany("insert into t values (?)", [(b"x" * 500,) for _ in range(200)])
    database.close()
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xff" * (len(data) - 8192)
    path.write_bytes(data)
    with pytest.raises(StateUnusable, match="malformed"):
        connect(path).execute("select * from t").fetchall()


def test_a_full_disk(tmp_path: Path) -> None:
    """What is told apart by SQLite's words: `max_page_count` gives the same error as the disk."""
    database = connect(tmp_path / "state.sqlite")
    database.execute("pragma max_page_count = 2")
    with pytest.raises(StateUnusable, match="make room on the disk"):
        database.executescript("create table a (x); create table b (x); create table c (x)")


def test_our_own_mistakes_stay_what_they_are(tmp_path: Path) -> None:
    """A violated constraint is a defect, and must look like one."""
    database = connect(tmp_path / "state.sqlite")
    database.execute("create table t (x unique)")
    database.execute("insert into t values (1)")
    with pytest.raises(sqlite3.IntegrityError):
        database.execute("insert into t values (1)")


def test_a_commit_that_finds_the_file_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpufn.adapters.sqlite_file.BUSY_SECONDS", 0.01)
    store = SqliteStore(tmp_path / "state.sqlite", VirtualClock())
    other = sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(StateUnusable, match="another process"):
        store.commit(Commit(id="c"))
    other.close()
