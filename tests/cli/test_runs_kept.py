"""Each run has a state of its own: which of them are kept, and that a name never means another run."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tpufn import settings
from tpufn.adapters.local_bus import LocalBus
from tpufn.adapters.lock import EngineLock
from tpufn.adapters.sqlite import SqliteStore
from tpufn.domain.errors import InputError
from tpufn.domain.job import Job, JobState
from tpufn.domain.slot import Slot, SlotState
from tpufn.place import choose, left_behind
from tpufn.ports import Commit, Document
from tpufn.simulation.clock import VirtualClock, WallClock

KEPT = 10


class Runs:
    """The states below one home directory."""

    def __init__(self, home: Path) -> None:
        self.settings = settings.load(home=str(home))
        self._parent = home / "sandbox"

    def begin(self, *documents: Document) -> Path:
        directory = choose(self.settings, sandbox=True, starts=True, fresh=True).directory
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
    assert runs.names() == {f"sandbox-run{n}" for n in range(3, KEPT + 4)}, "ten, and the one that has just begun"


def test_a_refused_run_takes_no_other_away(runs: Runs) -> None:
    """Ten attempts at a job file with a mistake in it must not cost the accounts of ten nights."""
    kept = {runs.begin(job(JobState.SUCCEEDED)).name for _ in range(KEPT)}
    refused = [runs.begin() for _ in range(KEPT)]
    assert kept <= runs.names()
    for directory in refused:
        os.utime(directory / "born", (0, 0))
    last = runs.begin()
    assert runs.names() == {*kept, last.name}


def test_what_was_left_unfinished_is_told(runs: Runs) -> None:
    """A killed run goes on, and costs, until somebody says so."""
    left = runs.begin(job(JobState.ACTIVE), slot(SlotState.BUSY))
    runs.begin(job(JobState.SUCCEEDED))
    place = choose(runs.settings, sandbox=True, starts=True)
    assert left_behind(place) == {left.name: "1 unfinished job, 1 TPU"}


def test_a_submission_that_nobody_has_taken_keeps_its_state(runs: Runs) -> None:
    """A run that was killed before its job was accepted, or a job that was submitted to a run's state."""
    waiting = runs.begin()
    LocalBus(waiting / "bus.sqlite", WallClock()).publish("submissions", {"submission_id": "a", "jobs": [{"id": "a"}]})
    os.utime(waiting / "born", (0, 0))
    for _ in range(KEPT + 3):
        runs.begin(job(JobState.SUCCEEDED))
    assert waiting.name in runs.names()
    assert left_behind(choose(runs.settings, sandbox=True, starts=True)) == {waiting.name: "1 message"}


def test_a_run_that_is_not_kept_any_more(runs: Runs) -> None:
    there = runs.begin().name
    with pytest.raises(InputError, match=f"no state of a run sandbox-run99; .* kept: {there}"):
        choose(replace(runs.settings, deployment="sandbox-run99"), sandbox=False, starts=False)


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
