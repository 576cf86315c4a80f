"""The main road: a race, an attempt, an end, and what must not change it."""

from pathlib import Path

from tpufn.domain.job import JobState
from tpufn.domain.slot import SlotState
from tpufn.simulation.capacity import Capacity, Place, Supply
from tpufn.simulation.scripted_script import Script
from tpufn.simulation.universe_faults import Boundary
from tpufn.simulation.universe_mail import Weather

from .scene import V4, V6A, V6B, WIDE, Scene, pool

GOLDEN_JOB = [
    "job.submitted",
    "race.opened",
    "race.won",
    "attempt.assigned",
    "attempt.launching",
    "attempt.running",
    "attempt.stopping",
    "job.succeeded",
    "attempt.closed",
]
GOLDEN_SLOT = [
    "slot.requesting",
    "slot.waiting",
    "slot.provisioning",
    "slot.booting",
    "slot.idle",
    "slot.idle",
    "slot.releasing",
    "slot.free",
]
SLOW = Supply(chips=0)


def test_the_happy_path_is_this_sequence() -> None:
    """Golden: submit, race, four workers, success, teardown after the idle timeout."""
    scene = Scene(pool(*WIDE))
    scene.start("a")
    scene.until_ended("a")
    scene.until_empty()
    assert scene.events(job="a", of="job") + scene.events(of="slot.x") == ["job.submitted", "job.succeeded"]
    story = [n.event for n in scene.notes if n.job == "a" and not n.event.startswith("slot.")]
    assert story == GOLDEN_JOB
    assert scene.events(of="slot.") == GOLDEN_SLOT
    assert scene.attempt("a").exit_codes == (0, 0, 0, 0)
    assert scene.creates() == {"tpufn-lab-spot-v6e16-ue5b-1-g1": 1}


def test_the_embedded_store_tells_the_same_story(tmp_path: Path) -> None:
    """One seed, two stores: not an event differs."""
    stories = []
    for path in (None, tmp_path):
        scene = Scene(pool(*V4), pool(*V6A), pool(*V6B), on_disk=path)
        scene.start("a")
        scene.until_ended("a")
        scene.until_empty()
        stories.append([(n.event, n.subject, n.at, n.reason) for n in scene.notes])
    assert stories[0] == stories[1]


def test_the_race_opens_everywhere_and_the_losers_are_released() -> None:
    """Three zones are asked at once; the first grant wins; the legs that still wait are given back at once."""
    scarce = {Place("spot", "v6e", "us-east5-a"): SLOW, Place("spot", "v6e", "us-east5-b"): SLOW}
    scene = Scene(pool(*V4), pool(*V6A), pool(*V6B), capacity=Capacity(supply=scarce))
    scene.scripts["a"] = Script(run=5000)
    scene.start("a")
    scene.until_event("race.won")
    assert scene.events(of="slot.requesting") == ["slot.requesting"] * 3
    scene.run_for(120)
    assert scene.job("a").region == "us-central2"
    assert {s.state for s in scene.slots().values()} == {SlotState.BUSY, SlotState.FREE}
    assert scene.events(of="race.lost") == ["race.lost"] * 2
    assert len(scene.ours()) == 1


def test_ticks_alone_finish_everything() -> None:
    """Every trigger and every worker's message is lost."""
    scene = Scene(pool(*V4, 2), pool(*V6A))
    scene.mail.hints = False
    for i in range(5):
        scene.start(f"j{i}")
    scene.until_ended(*(f"j{i}" for i in range(5)))
    assert {scene.job(f"j{i}").state for i in range(5)} == {JobState.SUCCEEDED}
    scene.until_empty()


def test_every_event_twice_is_the_same_as_once() -> None:
    """Same end, one attempt a job, one create a generation."""
    scene = Scene(pool(*V4, 2), pool(*V6A))
    scene.mail.weather = Weather(double=1.0, double_tick=1.0)
    for i in range(4):
        scene.start(f"j{i}")
    scene.until_ended(*(f"j{i}" for i in range(4)))
    scene.until_empty()
    assert [scene.outcomes(f"j{i}") for i in range(4)] == [["succeeded"]] * 4
    assert set(scene.creates().values()) == {1}


def test_late_and_shuffled_events_change_nothing() -> None:
    """An event is only a hint: most of them come an hour late and in any order."""
    scene = Scene(pool(*V4, 2), pool(*V6A), seed=5)
    scene.mail.weather = Weather(late=0.7, lateness=3600.0, shuffle=True, skip_tick=0.2)
    for i in range(4):
        scene.start(f"j{i}")
    scene.until_ended(*(f"j{i}" for i in range(4)))
    scene.until_empty()
    assert [scene.outcomes(f"j{i}") for i in range(4)] == [["succeeded"]] * 4


def test_two_ticks_at_once_do_the_work_once() -> None:
    """Before every commit another tick runs to its end; no other event is ever heard."""
    scene = Scene(pool(*V4, 2), pool(*V6A))
    scene.mail.hints = False

    def plan(boundary: Boundary) -> None:
        if (boundary.when, boundary.what) == ("before", "commit") and not scene.struck:
            scene.struck = True
            scene.tick()
            scene.struck = False

    scene.gate.plan = plan
    for i in range(4):
        scene.start(f"j{i}")
    scene.until_ended(*(f"j{i}" for i in range(4)))
    scene.until_empty()
    assert [scene.outcomes(f"j{i}") for i in range(4)] == [["succeeded"]] * 4
    assert set(scene.creates().values()) == {1}


def test_the_better_rank_runs_first() -> None:
    """One slot, three jobs: by priority, then by the time of submission."""
    scene = Scene(pool(*V4))
    for id, priority in (("low", "low"), ("first", "normal"), ("second", "normal"), ("high", "high")):
        scene.start(id, priority=priority)
        scene.run_for(1)
    scene.until_ended("low", "first", "second", "high")
    assert [n.job for n in scene.notes if n.event == "attempt.running"] == ["high", "first", "second", "low"]
    assert scene.creates() == {"tpufn-lab-spot-v48-uc2b-1-g1": 1}


def test_a_flexible_job_makes_room_for_a_constrained_one() -> None:
    """Both run at once: the one that may go elsewhere does."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.scripts |= {"any": Script(run=3000), "v4": Script(run=3000)}
    scene.start("any", "v4-8", "v6e-8", priority="high")
    scene.start("v4", "v4-8", regions=("us-central2",), priority="low")
    scene.run_until(lambda: len([r for r in scene.workers.runs() if not r.ended]) == 2, limit=600)
    assert scene.job("v4").slot == "spot-v48-uc2b-1"
    assert scene.job("any").slot == "spot-v6e8-ue5a-1"


def test_the_same_submission_twice_is_one_job() -> None:
    """At-least-once delivery; another body under the same id is refused under an id of its own."""
    scene = Scene(pool(*V4))
    scene.start("a")
    scene.start("a")
    scene.run_for(1)
    scene.start("a", priority="high")
    scene.until_ended("a")
    assert scene.events(of="job.submitted") == ["job.submitted"]
    (refused,) = (n.job for n in scene.notes if n.event == "job.rejected")
    assert scene.job(refused).state is JobState.REJECTED
    assert scene.job("a").priority.label == "normal"
