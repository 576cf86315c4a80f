"""A TPU is reclaimed: the job goes on in the same region, and nothing of the old TPU is left."""

import pytest

from tpufn.domain.cloud import NodeState
from tpufn.domain.job import JobState
from tpufn.simulation.scripted_script import Script

from .scene import V4, V6A, V6B, WIDE, Scene, pool

TRAINING = Script(run=600, checkpoint=60)
GOLDEN = [
    "attempt.running",
    "attempt.stopping",
    "job.waiting",
    "attempt.closed",
    "job.pending",
    "race.won",
    "attempt.assigned",
    "attempt.launching",
    "attempt.running",
    "attempt.stopping",
    "job.succeeded",
    "attempt.closed",
]


def training(*pools: tuple[str, str]) -> Scene:
    """A job that has run for 200 s on the first TPU that came."""
    scene = Scene(*(pool(*place) for place in pools))
    scene.scripts["a"] = TRAINING
    scene.start("a")
    scene.until_running("a")
    scene.run_for(200)
    return scene


@pytest.mark.parametrize("notice", [None, 5.0, 30.0])
def test_the_retry_stays_in_the_region_and_resumes(notice: float | None) -> None:
    """Golden, with and without notice; the second attempt needs only what the checkpoint lacks."""
    scene = training(V4, V6A)
    tpu = scene.attempt("a").tpu
    scene.cloud.preempt(tpu, notice=notice)
    scene.until_ended("a")
    scene.until_empty()
    story = [n.event for n in scene.notes if n.job == "a" and n.event in set(GOLDEN)]
    assert story[story.index("attempt.running") :] == GOLDEN
    first, second = scene.attempts("a")
    assert (str(first.outcome), str(second.outcome)) == ("preempted", "succeeded")
    assert first.region == second.region
    assert second.tpu != tpu
    ran = {r.attempt: r.ended - r.began for r in scene.workers.runs()}
    assert ran["a.2"] == pytest.approx(600 - (ran["a.1"] if notice else 180), abs=1)
    job = scene.job("a")
    assert (job.preemptions, job.infrastructure_failures, job.application_failures) == (1, 0, 0)


def test_a_notice_is_heard_long_before_the_tick() -> None:
    """The next attempt is pending seconds after the notice."""
    scene = training(V4)
    noticed = scene.clock.now()
    scene.cloud.preempt(scene.attempt("a").tpu, notice=30.0)
    scene.until_state("a", JobState.PENDING)
    assert scene.clock.now() - noticed < 2.0


def test_a_notice_that_nobody_hears_is_found_by_the_tick() -> None:
    """The message is lost, the host dies; the cloud says so within a tick."""
    scene = training(V4)
    scene.mail.hints = False
    scene.cloud.preempt(scene.attempt("a").tpu)
    scene.until_state("a", JobState.PENDING, limit=2 * scene.policy.tick)


def test_a_reclaimed_tpu_that_the_api_shows_late() -> None:
    """The hosts die, READY for five more minutes: silence beats it."""
    scene = training(WIDE)
    scene.cloud.preempt(scene.attempt("a").tpu, lag=300.0)
    scene.until_ended("a")
    assert scene.outcomes("a")[-1] == "succeeded"
    assert scene.outcomes("a")[0] in ("preempted", "infrastructure")
    assert scene.job("a").application_failures == 0


@pytest.mark.parametrize(
    "state", [NodeState.PREEMPTED, NodeState.TERMINATED, NodeState.REPAIRING, NodeState.UNKNOWN, NodeState.HIDDEN]
)
def test_reclaimed_but_still_listed(state: NodeState) -> None:
    """Whatever a lost node shows: one attempt ends, one delete, another name for the next TPU."""
    scene = training(V4)
    tpu = scene.attempt("a").tpu
    scene.cloud.faults.inject("node-lost", tpu=tpu, end_state=state)
    scene.until_ended("a")
    assert len(scene.attempts("a")) == 2
    assert scene.attempt("a", 2).tpu != tpu
    assert scene.job("a").application_failures == 0
    scene.until_empty()


def test_a_storm_of_preemptions_ends_in_success() -> None:
    """Seven in a row: the budget for them is unlimited, and progress adds up."""
    scene = Scene(pool(*V6A), pool(*V6B))
    scene.scripts["a"] = Script(run=800, checkpoint=20)
    scene.start("a")
    for number in range(1, 8):
        scene.until_running("a", number)
        scene.run_for(90)
        scene.cloud.preempt(scene.attempt("a", number).tpu)
    scene.until_ended("a")
    assert scene.outcomes("a") == ["preempted"] * 7 + ["succeeded"]


def test_a_limit_on_preemptions_is_kept() -> None:
    """`retries.preemption: 1`: the second one ends the job."""
    scene = Scene(pool(*V4))
    scene.scripts["a"] = TRAINING
    scene.start("a", retries={"preemption": 1})
    for number in (1, 2):
        scene.until_running("a", number)
        scene.cloud.preempt(scene.attempt("a", number).tpu)
    scene.until_ended("a")
    assert scene.job("a").state is JobState.FAILED
    assert "preempted 2 times" in scene.job("a").cause


def test_zeros_beat_the_preemption() -> None:
    """All workers ended with zero just before the TPU went: it was a success."""
    scene = Scene(pool(*WIDE))
    scene.scripts["a"] = Script(run=100)
    scene.mail.hints = False
    scene.start("a")
    scene.until_running("a")
    scene.run_until(lambda: all(r.ended for r in scene.workers.runs()))
    scene.cloud.preempt(scene.attempt("a").tpu)
    scene.until_ended("a")
    assert scene.outcomes("a") == ["succeeded"]


def test_preempted_during_set_up_is_no_set_up_failure() -> None:
    """Nothing is counted against the job but the preemption."""
    scene = Scene(pool(*V4))
    scene.scripts["a", 1] = Script(prepare=300)
    scene.start("a")
    scene.until_event("attempt.launching")
    scene.run_for(10)
    scene.cloud.preempt(scene.attempt("a").tpu, notice=30.0)
    scene.until_ended("a")
    job = scene.job("a")
    assert (str(job.state), job.application_failures, job.infrastructure_failures) == ("succeeded", 0, 0)


def test_an_unstarted_job_is_free_to_leave_its_region() -> None:
    """No worker ever started in the first region: the pin is undone."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.scripts["a", 1] = Script(prepare=300)
    scene.start("a")
    scene.until_event("attempt.launching")
    first = scene.attempt("a")
    for zone in {p.zone for p in scene.fleet.pools if p.region == first.region}:
        scene.cloud.faults.inject("zone-forbidden", zone=zone, times=None, call="create")
    scene.cloud.preempt(first.tpu)
    scene.until_ended("a")
    assert scene.attempt("a", 2).region != first.region
