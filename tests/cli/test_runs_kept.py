"""Each run has a state of its own: which of them are kept, and that a name never means another run."""

from pathlib import Path

import pytest

from tpufn import settings
from tpufn.adapters.lock import EngineLock
from tpufn.adapters.sqlite import SqliteStore
from tpufn.domain.job import Job, JobState
from tpufn.domain.slot import Slot, SlotState
from tpufn.place import choose
from tpufn.ports import Commit, Document
from tpufn.simulation.clock import VirtualClock

KEPT = 10


class Runs:
    """The states below one home directory."""

    def __init__(self, home: Path) -> None:
        self._settings = settings.load(home=str(home))
        self._parent = home / "sandbox"

    def begin(self, *documents: Document) -> Path:
        directory = choose(self._settings, sandbox=True, starts=True, fresh=True).directory
        store = SqliteStore(directory / "state.sqlite", VirtualClock())
        store.commit(Commit(id="c", writes=documents))
        store.close()
        return directory

    def names(self) -> set[str]:
        return {path.name for path in self._parent.iterdir()}


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def job(state: JobState) -> Job:
    return Job(id="a", state=state, since=0.0, submitted_at=0.0, rank="a")


def slot(state: SlotState) -> Slot:
    return Slot(name="s", pool="p", type="v6e-8", zone="us-east5-a", state=state, since=0.0)


def test_the_oldest_finished_runs_go(runs: Runs) -> None:
    for _ in range(KEPT + 3):
        runs.begin(job(JobState.SUCCEEDED), slot(SlotState.FREE))
    assert runs.names() == {f"sandbox-run{n}" for n in range(4, KEPT + 4)}


@pytest.mark.parametrize("left", [job(JobState.PENDING), job(JobState.ACTIVE), slot(SlotState.BUSY)])
def test_what_is_unfinished_stays(runs: Runs, left: Document) -> None:
    """A run that was killed still has its job and its TPUs: only its state knows of them."""
    kept = runs.begin(left)
    for _ in range(KEPT + 3):
        runs.begin(job(JobState.SUCCEEDED))
    assert kept.name in runs.names()


def test_a_running_engine_keeps_its_state(runs: Runs) -> None:
    kept = runs.begin(job(JobState.SUCCEEDED))
    lock = EngineLock(kept / "engine.lock")
    lock.acquire()
    for _ in range(KEPT + 3):
        runs.begin(job(JobState.SUCCEEDED))
    assert kept.name in runs.names()
    lock.release()


def test_a_damaged_state_stays(runs: Runs) -> None:
    """Nobody can say what it held."""
    kept = runs.begin()
    (kept / "state.sqlite").write_bytes(b"no database " * 100)
    for _ in range(KEPT + 3):
        runs.begin(job(JobState.SUCCEEDED))
    assert kept.name in runs.names()


def test_a_number_is_never_given_twice(runs: Runs) -> None:
    """`tpufn -d sandbox-run3 job ID` must mean the same run for ever."""
    names = [runs.begin(job(JobState.SUCCEEDED)).name for _ in range(2 * KEPT)]
    assert names == [f"sandbox-run{n}" for n in range(1, 2 * KEPT + 1)]
