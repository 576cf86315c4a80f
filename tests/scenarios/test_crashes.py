"""A crash, a lost answer, a freeze at every single boundary: each is its own run, and all end the same.

A boundary is the moment before or after a commit, an effect or a message. After a crash everything that was only in
memory is gone: no trigger and no worker's message is ever heard again, the ticks alone go on.
"""

from collections.abc import Callable
from functools import cache

import pytest

from tpufn.domain.job import JobState
from tpufn.simulation.scripted_script import Script
from tpufn.simulation.universe_faults import Boundary, Trouble

from .scene import V4, V6A, Scene, pool

STEPS = 8
"""The boundaries are shared out over so many tests, each taking every eighth."""


def happy() -> Scene:
    scene = Scene(pool(*V4), pool(*V6A), idle=120.0)
    scene.scripts["a"] = Script(run=200, checkpoint=50)
    scene.start("a")
    return scene


def preempted(notice: float | None) -> Scene:
    """The first run is reclaimed when it has lasted a hundred seconds, wherever the core is by then."""
    scene = happy()

    def check() -> None:
        scene.invariants()
        run = next(iter(scene.workers.runs()), None)
        if run is not None and not run.ended and scene.clock.now() > run.began + 100 and not scene.struck:
            scene.struck = True
            scene.cloud.preempt(run.tpu, notice=notice)

    scene.after_step = check
    return scene


ROADS: dict[str, Callable[[], Scene]] = {
    "happy": happy,
    "preempted": lambda: preempted(None),
    "noticed": lambda: preempted(30.0),
}


def to_end(scene: Scene) -> None:
    scene.until_ended("a")
    scene.until_empty()


def took(scene: Scene) -> float:
    """Seconds to the job's end."""
    return next(n.at for n in scene.notes if n.event == "job.succeeded") - scene.began


@cache
def undisturbed(road: str) -> tuple[int, float]:
    """How many boundaries there are on this road without trouble, and how long it takes."""
    scene = ROADS[road]()
    to_end(scene)
    return scene.gate.passed, took(scene)


def boundaries(road: str) -> int:
    return undisturbed(road)[0]


def struck(road: str, number: int, trouble: Trouble, *, alone: bool = False) -> Scene:
    """The road with trouble at one boundary."""
    scene = ROADS[road]()
    scene.alone = alone

    def plan(boundary: Boundary) -> Trouble | None:
        if boundary.number != number:
            return None
        scene.mail.hints = alone or trouble is not Trouble.CRASH
        return trouble

    scene.gate.plan = plan
    to_end(scene)
    return scene


def check_end(scene: Scene, road: str) -> None:
    """One success, at most one preemption before it, one create a generation, nothing left."""
    assert scene.job("a").state is JobState.SUCCEEDED
    *before, last = scene.outcomes("a")
    assert last == "succeeded"
    assert before in ([], ["preempted"])
    assert road != "happy" or not before
    assert set(scene.creates().values()) == {1}
    assert scene.job("a").application_failures == scene.job("a").infrastructure_failures == 0


@pytest.mark.parametrize("share", range(STEPS))
@pytest.mark.parametrize("road", ROADS)
def test_a_crash_at_every_boundary(road: str, share: int) -> None:
    """Recovery is by ticks alone."""
    for number in range(share, boundaries(road), STEPS):
        scene = struck(road, number, Trouble.CRASH)
        assert scene.crashes == 1, number
        check_end(scene, road)


@pytest.mark.parametrize("road", ROADS)
def test_an_engine_that_is_alone_takes_over_at_once(road: str) -> None:
    """The claims of a dead process need not run out; what is written from now on is heard. Only ticks are lost."""
    for number in range(1, boundaries(road), 6):
        scene = struck(road, number, Trouble.CRASH, alone=True)
        check_end(scene, road)
        assert took(scene) <= undisturbed(road)[1] + 3 * scene.policy.tick, number


@pytest.mark.parametrize("trouble", [Trouble.LOSE, Trouble.CONTEND, Trouble.INTERLEAVE, Trouble.FREEZE])
@pytest.mark.parametrize("road", ROADS)
def test_other_trouble_at_every_sixth_boundary(road: str, trouble: Trouble) -> None:
    """A lost answer, a contended commit, another handler in between, an hour's standstill."""
    for number in range(0, boundaries(road), 6):
        check_end(struck(road, number, trouble), road)


@pytest.mark.parametrize("road", ROADS)
def test_two_crashes(road: str) -> None:
    """The second one strikes whoever cleans up after the first."""
    for number in range(0, boundaries(road), 6):
        scene = ROADS[road]()
        hits = {number, number + 7}
        scene.gate.plan = lambda boundary, hits=hits: Trouble.CRASH if boundary.number in hits else None
        to_end(scene)
        check_end(scene, road)


def test_a_process_that_never_lives_long() -> None:
    """A crash at every fifteenth boundary, for ever."""
    scene = happy()
    scene.gate.plan = lambda boundary: Trouble.CRASH if boundary.number % 15 == 14 else None
    scene.until_ended("a")
    scene.until_empty()
    assert scene.crashes > 1
    check_end(scene, "happy")
