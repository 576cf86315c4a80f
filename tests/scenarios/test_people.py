"""What people do to running things: cancel, interrupt, retry, hold, set a priority."""

from collections.abc import Callable

import pytest

from tpufn.domain.attempt import AttemptState
from tpufn.domain.job import JobState
from tpufn.domain.slot import SlotState
from tpufn.simulation.capacity import Capacity, Supply
from tpufn.simulation.scripted_script import Script

from .scene import V4, V6A, WIDE, Scene, pool

LONG = Script(run=5000, checkpoint=60)


def pending() -> Scene:
    """No chips anywhere: the job waits."""
    scene = Scene(pool(*WIDE), capacity=Capacity(default=Supply(chips=0)))
    scene.start("a")
    scene.until_state("a", JobState.PENDING)
    scene.run_for(100)
    return scene


def attempt_in(state: AttemptState, script: Script = LONG, *, after: float = 0.0) -> Callable[[], Scene]:
    def make() -> Scene:
        scene = Scene(pool(*WIDE))
        scene.scripts["a"] = script
        scene.start("a")
        scene.until_attempt("a", state)
        scene.run_for(after)
        assert scene.attempt("a").state is state
        return scene

    return make


def waiting_for_proof() -> Scene:
    """Interrupted, and the workers take their time to end."""
    scene = attempt_in(AttemptState.RUNNING, Script(run=5000, on_term=20))()
    scene.command("interrupt", scene.slot().name)
    scene.until_state("a", JobState.WAITING)
    return scene


def waiting_for_backoff() -> Scene:
    """The second infrastructure failure: the next try is in a while."""
    scene = Scene(pool(*WIDE))
    scene.scripts |= {("a", 1): Script(run=100, code=143), ("a", 2): Script(run=100, code=143), "a": LONG}
    scene.start("a")
    scene.run_until(lambda: len(scene.attempts("a")) == 2 and scene.job("a").due_at > scene.clock.now())
    assert scene.job("a").state is JobState.WAITING
    return scene


STATES: dict[str, Callable[[], Scene]] = {
    "pending": pending,
    "assigned": attempt_in(AttemptState.ASSIGNED),
    "launching": attempt_in(AttemptState.LAUNCHING, Script(prepare=300), after=10),
    "launching, nothing arrived": attempt_in(AttemptState.LAUNCHING),
    "running": attempt_in(AttemptState.RUNNING, after=30),
    "settling": attempt_in(AttemptState.SETTLING, Script(run=50, code=1)),
    "stopping": attempt_in(AttemptState.STOPPING, Script(run=50, code=1, closing=30)),
    "waiting for the proof": waiting_for_proof,
    "waiting for the backoff": waiting_for_backoff,
}


@pytest.mark.parametrize("where", STATES)
@pytest.mark.parametrize("hints", [True, False])
def test_cancel_in_every_state(where: str, hints: bool) -> None:
    """The end is cancelled, nothing of it runs any more, and a clean TPU is not thrown away."""
    scene = STATES[where]()
    scene.mail.hints = hints
    scene.command("cancel", "a")
    scene.until_ended("a", limit=1200)
    expected = {JobState.CANCELLED, JobState.FAILED} if where == "stopping" else {JobState.CANCELLED}
    assert scene.job("a").state in expected
    assert not [w for w in scene.workers.living() if w[2].startswith("a.")]
    scene.until_empty()


def test_a_cancel_before_the_launch_keeps_the_tpu() -> None:
    """The workers that were never told anything can prove that they are clean."""
    scene = STATES["assigned"]()
    scene.command("cancel", "a")
    scene.until_ended("a", limit=60)
    assert scene.slot().state is SlotState.IDLE


def test_a_cancel_while_term_is_ignored() -> None:
    """TERM, grace, KILL: cancelling until nothing is left, then the TPU is free for the next."""
    scene = attempt_in(AttemptState.RUNNING, Script(run=5000, on_term=1000))()
    scene.command("cancel", "a")
    scene.until_state("a", JobState.CANCELLING)
    scene.start("b")
    scene.until_ended("a", limit=60)
    assert {r.code for r in scene.workers.runs() if r.job == "a"} == {137}
    scene.until_ended("b")
    assert scene.attempt("b").tpu == scene.attempt("a").tpu


def test_a_cancel_that_leaves_something_behind_costs_the_tpu() -> None:
    """A worker that is not clean is never used again."""
    scene = attempt_in(AttemptState.RUNNING, Script(run=5000, clean=False))()
    scene.command("cancel", "a")
    scene.start("b")
    scene.until_ended("a", "b")
    assert scene.job("a").state is JobState.CANCELLED
    assert scene.attempt("b").tpu != scene.attempt("a").tpu


def test_a_cancel_after_the_end_is_nothing() -> None:
    """Succeeded was first."""
    scene = Scene(pool(*V4))
    scene.start("a")
    scene.until_ended("a")
    scene.command("cancel", "a")
    scene.run_for(600)
    assert scene.job("a").state is JobState.SUCCEEDED


def test_cancel_if_pending_spares_a_running_job() -> None:
    """`--if-pending`."""
    scene = attempt_in(AttemptState.RUNNING)()
    scene.command("cancel", "a", if_pending=True)
    scene.run_for(600)
    assert scene.job("a").state is JobState.ACTIVE
    other = pending()
    other.command("cancel", "a", if_pending=True)
    other.until_ended("a", limit=60)


def test_an_interrupt_gives_the_tpu_up_and_the_job_goes_on() -> None:
    """Another TPU, the same region, the same checkpoints; nothing is counted."""
    scene = Scene(pool(*V4))
    scene.scripts["a"] = Script(run=600, checkpoint=60)
    scene.start("a")
    scene.until_running("a")
    scene.run_for(300)
    slot = scene.slot()
    scene.command("interrupt", slot.name, generation=slot.generation, attempt="a.1")
    scene.until_ended("a")
    assert scene.outcomes("a") == ["interrupted", "succeeded"]
    assert scene.attempt("a", 2).tpu != scene.attempt("a").tpu
    assert scene.job("a").infrastructure_failures == 0


@pytest.mark.parametrize("seen", [{"generation": 7}, {"attempt": "b.1"}])
def test_an_interrupt_of_something_else_is_nothing(seen: dict[str, object]) -> None:
    """A command names what the person saw."""
    scene = attempt_in(AttemptState.RUNNING)()
    scene.command("interrupt", scene.slot().name, **seen)
    scene.run_for(600)
    assert scene.events(of="attempt.stopping") == []


def test_a_failed_job_can_be_tried_again_with_its_checkpoints() -> None:
    """A new job in the same region, from where the old one was."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.scripts["a"] = Script(run=300, code=1, checkpoint=50)
    scene.scripts["again"] = Script(run=400, checkpoint=50)
    scene.start("a")
    scene.until_ended("a")
    assert scene.job("a").state is JobState.FAILED
    scene.command("retry", "a", **{"as": "again"})
    scene.command("retry", "a", **{"as": "again"})
    scene.run_for(1)
    scene.until_ended("again")
    (run,) = (r for r in scene.workers.runs() if r.job == "again")
    assert run.ended - run.began < 200
    assert scene.job("again").region == scene.job("a").region
    assert scene.job("a").state is JobState.FAILED


def test_a_raised_priority_overtakes() -> None:
    """Before it has started."""
    scene = Scene(pool(*V4))
    for id in ("a", "b", "c"):
        scene.start(id)
        scene.run_for(1)
    scene.until_running("a")
    scene.command("set-priority", "c", priority="high")
    scene.until_ended("a", "b", "c")
    assert [n.job for n in scene.notes if n.event == "attempt.running"] == ["a", "c", "b"]


def test_a_held_slot_is_neither_assigned_nor_torn_down() -> None:
    """Until its holder gives it back."""
    scene = Scene(pool(*V4))
    scene.start("a")
    scene.until_ended("a")
    scene.until_slot(SlotState.IDLE)
    scene.command("hold", scene.slot().name)
    scene.run_for(1)
    scene.start("b")
    scene.run_for(5000)
    assert scene.slot().state is SlotState.IDLE
    assert scene.job("b").state is JobState.PENDING
    scene.command("release", scene.slot().name)
    scene.until_ended("b")
    scene.until_empty()
