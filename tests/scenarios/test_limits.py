"""Times that end things: queue deadline, maximum runtime, finish timeout, launch and boot budgets."""

from math import inf

from tpufn.domain.job import JobState
from tpufn.simulation.capacity import Capacity, Supply
from tpufn.simulation.scripted_script import HostScript, Script

from .scene import V4, WIDE, Scene, pool


def test_the_queue_deadline_ends_a_job_that_never_got_a_tpu() -> None:
    """With the reason; nothing is asked for any more."""
    scene = Scene(pool(*V4), capacity=Capacity(default=Supply(chips=0)))
    scene.start("a", queue_deadline="30m")
    scene.until_ended("a", limit=1800 + 2 * scene.policy.tick)
    assert scene.job("a").state is JobState.FAILED
    assert "queue_deadline passed" in scene.job("a").cause
    scene.until_empty()


def test_the_queue_deadline_is_for_the_first_start_only() -> None:
    """A preempted job may wait longer than that."""
    scene = Scene(pool(*V4))
    scene.scripts["a"] = Script(run=3000, checkpoint=60)
    scene.start("a", queue_deadline="10m")
    scene.until_running("a")
    scene.run_for(1500)
    scene.cloud.preempt(scene.attempt("a").tpu)
    scene.until_ended("a")
    assert scene.outcomes("a") == ["preempted", "succeeded"]


def test_max_runtime_is_of_one_attempt_and_final() -> None:
    """A hanging command is ended."""
    scene = Scene(pool(*WIDE))
    scene.scripts["a"] = Script(run=inf)
    scene.start("a", max_runtime="20m")
    scene.until_running("a")
    began = scene.clock.now()
    scene.until_ended("a")
    assert scene.outcomes("a") == ["timed-out"]
    assert scene.job("a").state is JobState.FAILED
    assert 1200 <= scene.clock.now() - began <= 1200 + 3 * scene.policy.tick


def test_workers_have_to_finish_together() -> None:
    """After the first zero the others have the finish timeout."""
    scene = Scene(pool(*WIDE))
    scene.scripts |= {"a": Script(run=100), ("a", 1, 2): Script(run=inf)}
    scene.start("a", finish_timeout="5m")
    scene.until_ended("a", limit=1200)
    assert scene.outcomes("a") == ["timed-out"]
    assert "workers 2 still ran" in scene.attempt("a").cause
    assert scene.attempt("a").exit_codes == (0, 0, None, 0) or scene.attempt("a").exit_codes[2] == 143


def test_a_worker_that_finishes_late_but_in_time() -> None:
    """Nothing happens to the others."""
    scene = Scene(pool(*WIDE))
    scene.scripts |= {"a": Script(run=100), ("a", 1, 2): Script(run=350)}
    scene.start("a", finish_timeout="5m")
    scene.until_ended("a")
    assert scene.outcomes("a") == ["succeeded"]


def test_a_worker_that_is_never_prepared() -> None:
    """The launch budget: the TPU is replaced, nothing ran, nothing is counted."""
    scene = Scene(pool(*WIDE))
    scene.scripts["a", 1, 3] = Script(prepare=inf)
    scene.start("a")
    scene.until_ended("a")
    assert scene.outcomes("a") == ["unfit", "succeeded"]
    assert not [r for r in scene.workers.runs() if r.attempt == "a.1"]
    assert scene.attempt("a", 2).tpu != scene.attempt("a").tpu
    job = scene.job("a")
    assert (job.application_failures, job.infrastructure_failures) == (0, 0)


def test_a_delivery_that_has_to_be_repeated() -> None:
    """Connection refused three times on one host; the others are not told again."""
    scene = Scene(pool(*WIDE))
    scene.host_scripts["tpufn-lab-spot-v6e16-ue5b-1-g1"] = HostScript(lost_launches=3)
    scene.start("a")
    scene.until_ended("a")
    assert scene.outcomes("a") == ["succeeded"]
    assert {host.launches for host in scene.workers.hosts(scene.attempt("a").tpu)} == {4}


def test_ready_is_not_usable_for_a_while() -> None:
    """READY and HEALTHY, three minutes of refused connections, then fine: the boot budget covers it."""
    scene = Scene(pool(*WIDE))
    scene.host_scripts["tpufn-lab-spot-v6e16-ue5b-1-g1"] = HostScript(boot=180)
    scene.start("a")
    scene.until_ended("a")
    assert scene.outcomes("a") == ["succeeded"]
    assert len(scene.creates()) == 1


def test_a_tpu_that_never_boots_is_replaced_without_a_cool_down() -> None:
    """N-1 of N workers reachable: released after the boot budget, nothing was started there."""
    scene = Scene(pool(*WIDE))
    scene.host_scripts["tpufn-lab-spot-v6e16-ue5b-1-g1"] = HostScript(is_deaf=True)
    scene.start("a")
    scene.until_ended("a", limit=1800)
    assert [a.tpu[-2:] for a in scene.attempts("a")] == ["g2"]
    with scene.store.cut() as cut:
        assert not [s for s in cut.scopes() if s.until > 0]
