"""What goes wrong on machines, and whose fault it is found to be."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tpufn.domain.job import JobState
from tpufn.domain.orders import Phase
from tpufn.simulation.scripted_script import Script
from tpufn.simulation.universe_faults import Boundary, Trouble

from .scene import V4, WIDE, Scene, pool

WORK = Script(run=600, checkpoint=60)


def play(*, limit: float = 3 * 86_400.0, **scripts: Script) -> Scene:
    """One job on four workers; `w2` is the script of worker 2 in the first attempt, `all` of everybody in it."""
    scene = Scene(pool(*WIDE))
    scene.scripts["a"] = WORK
    for name, script in scripts.items():
        scene.scripts[("a", 1) if name == "all" else ("a", 1, int(name[1:]))] = script
    scene.start("a")
    scene.until_ended("a", limit=limit)
    return scene


@pytest.mark.parametrize("words", ["sibling-death", ""])
@pytest.mark.parametrize("code", [1, 134, 139])
def test_sibling_death_is_no_application_failure(code: int, words: str) -> None:
    """One worker vanishes, the others die of it five seconds later, the API says READY all the while."""
    sibling = replace(WORK, sibling_death=5.0, sibling_code=code, sibling_signature=words)
    scene = play(all=sibling, w2=replace(WORK, vanishes_at=100))
    assert scene.outcomes("a") == ["infrastructure", "succeeded"]
    assert scene.job("a").application_failures == 0
    assert scene.attempt("a", 2).tpu != scene.attempt("a").tpu


@pytest.mark.parametrize("words", ["sibling-death", ""])
def test_the_death_of_an_agent_is_no_application_failure_of_its_siblings(words: str) -> None:
    """The host answers, and nothing of the attempt lives there: that worker was lost, the others died of it."""
    sibling = replace(WORK, sibling_death=5.0, sibling_signature=words)
    scene = play(all=sibling, w2=replace(WORK, dies_at=100))
    assert scene.outcomes("a") == ["infrastructure", "succeeded"]
    assert scene.job("a").application_failures == 0


def test_siblings_of_a_failed_worker_do_not_hide_it() -> None:
    """Worker 2 fails by itself, the others die of that: the blame is worker 2's."""
    scene = play(all=replace(WORK, sibling_death=5.0), w2=Script(run=100, code=3, reason="out of memory"))
    assert scene.job("a").state is JobState.FAILED
    assert scene.attempt("a").failed_worker == 2
    assert "out of memory" in scene.job("a").cause


def test_an_application_failure_is_final() -> None:
    """Exit code 1 on a TPU that is well; the TPU is kept for the next job."""
    scene = play(all=Script(run=100, code=1))
    assert scene.outcomes("a") == ["failed"]
    scene.start("b")
    scene.until_ended("b")
    assert scene.attempt("b").tpu == scene.attempt("a").tpu


def test_application_retries_that_the_job_asks_for() -> None:
    """Two, and only for the exit codes it names."""
    for code, expected in ((3, ["failed", "failed", "failed"]), (4, ["failed"])):
        scene = Scene(pool(*V4))
        scene.scripts["a"] = Script(run=100, code=code)
        scene.start("a", retries={"application": {"max": 2, "exit_codes": [3]}})
        scene.until_ended("a")
        assert scene.outcomes("a") == expected


def test_a_silent_worker_is_lost_after_three_heartbeats() -> None:
    """The API says READY and HEALTHY for ever: silence beats it. The TPU is deleted to be sure."""
    scene = play(w1=replace(WORK, silent_at=100))
    assert scene.outcomes("a") == ["infrastructure", "succeeded"]
    assert scene.attempt("a", 2).tpu != scene.attempt("a").tpu
    (end,) = (r.ended for r in scene.workers.runs() if r.attempt == "a.1" and r.worker == 1)
    starts = [r.began for r in scene.workers.runs() if r.attempt == "a.2"]
    assert end <= min(starts)


def test_a_worker_that_is_silent_for_a_while_is_forgiven() -> None:
    """Shorter than the settling: a false alarm."""
    scene = play(w1=replace(WORK, silent_at=100, silent_for=130))
    assert scene.outcomes("a") == ["succeeded"]


def test_a_worker_that_only_lost_its_heartbeat_lives_on() -> None:
    """It answers when it is asked; there is no end of doubt and revival."""
    scene = play(w1=replace(WORK, mute_at=50))
    assert scene.outcomes("a") == ["succeeded"]
    assert len(scene.events(of="attempt.settling")) <= 1


def test_an_agent_that_died_alone() -> None:
    """Its command went with it; the host answers and knows nothing of the attempt."""
    scene = play(w0=replace(WORK, dies_at=100))
    assert scene.outcomes("a")[-1] == "succeeded"
    assert scene.job("a").application_failures == 0


def test_a_result_that_arrives_after_the_silence_counts() -> None:
    """All zeros, one of them told late."""
    scene = play(w3=replace(WORK, silent_at=500, silent_for=220))
    assert scene.outcomes("a") == ["succeeded"]


@pytest.mark.parametrize(
    "script",
    [
        Script(fails_in=Phase.DEVICE, prepare=60, reason="/dev/vfio/0 is held by process 4711"),
        Script(run=5, code=1, signature="device-busy"),
    ],
)
def test_a_busy_device_costs_the_tpu_and_nothing_else(script: Script) -> None:
    """Found by the check before the start, or by the job's own words: the TPU is replaced, nothing is counted."""
    scene = play(w2=script)
    assert scene.outcomes("a") == ["unfit", "succeeded"]
    assert scene.attempt("a", 2).tpu != scene.attempt("a").tpu
    job = scene.job("a")
    assert (job.application_failures, job.infrastructure_failures, job.preemptions) == (0, 0, 0)


def test_a_failed_set_up_is_final_where_the_tpu_is_well() -> None:
    """A bundle that cannot be unpacked fails the same everywhere."""
    scene = play(w2=Script(fails_in=Phase.SETUP, reason="the bundle's hash is wrong"))
    assert scene.job("a").state is JobState.FAILED
    assert "the bundle's hash is wrong" in scene.job("a").cause
    assert not scene.workers.runs()


def test_a_machine_that_always_kills_is_quarantined() -> None:
    """Two quick failures by different jobs: the third one gets another TPU."""
    scene = Scene(pool(*V4))
    scene.scripts |= {"a": Script(run=10, code=1), "b": Script(run=10, code=1)}
    for id in ("a", "b", "c"):
        scene.start(id)
        scene.until_ended(id)
    assert scene.attempt("a").tpu == scene.attempt("b").tpu
    assert scene.attempt("c").tpu != scene.attempt("a").tpu
    assert "quarantine" in scene.reason("slot.releasing")


def test_a_crash_loop_stops() -> None:
    """Killed from outside within a minute of every start: after a few tries the job is given up, with the reason."""
    scene = Scene(pool(*V4))
    scene.scripts["a"] = Script(run=10, code=143)
    scene.start("a")
    scene.until_ended("a")
    assert scene.job("a").state is JobState.FAILED
    assert len(scene.attempts("a")) == scene.policy.crash_loop
    assert "quick failures in a row" in scene.job("a").cause
    scene.until_empty()


def test_backoff_grows_between_infrastructure_failures() -> None:
    """None before the first retry; the job keeps its first TPU for that."""
    scene = Scene(pool(*V4))
    scene.scripts["a"] = Script(run=200, code=143)
    scene.start("a", retries={"infrastructure": 4})
    scene.until_ended("a")
    attempts = scene.attempts("a")
    assert len(attempts) == 5
    closed = {n.attempt: n.at for n in scene.notes if n.event == "attempt.closed"}
    pauses = [b.created_at - closed[a.id] for a, b in pairwise(attempts)]
    backoff = scene.policy.retry_backoff
    assert all(pause >= least for pause, least in zip(pauses, [0, backoff, 2 * backoff, 4 * backoff], strict=True))


def test_a_slow_kill_never_overlaps_with_the_next_attempt() -> None:
    """45 s to end, longer than the grace; the invariants watch the worker."""
    scene = Scene(pool(*V4))
    scene.scripts |= {"a": Script(run=5000, on_term=45), "b": Script(run=60)}
    scene.start("a", max_runtime="10m")
    scene.start("b", priority="low")
    scene.until_ended("a", "b")
    (a,), (b,) = ([r for r in scene.workers.runs() if r.job == id] for id in ("a", "b"))
    assert a.ended <= b.began


def test_a_zero_after_our_own_term_is_no_success() -> None:
    """A command that exits with zero when it is told to stop."""
    scene = Scene(pool(*V4))
    scene.scripts["a"] = Script(run=5000, term_code=0)
    scene.start("a", max_runtime="10m")
    scene.until_ended("a")
    assert scene.job("a").state is JobState.FAILED


@pytest.mark.parametrize("followed", [True, False])
@pytest.mark.parametrize("moment", ["before launch", "before put"])
def test_a_launch_that_comes_after_the_stop_starts_nothing(moment: str, followed: bool) -> None:
    """Its handler stood still for five minutes; meanwhile the job was cancelled, and maybe another one got the TPU."""
    scene = Scene(pool(*WIDE))
    scene.scripts["b"] = Script(run=2000)
    scene.gate.standstill = 300.0

    def plan(boundary: Boundary) -> Trouble | None:
        if f"{boundary.when} {boundary.what}" != moment or scene.struck:
            return None
        scene.struck = True
        scene.command("cancel", "a")
        if followed:
            scene.start("b")
        return Trouble.FREEZE

    scene.gate.plan = plan
    scene.start("a")
    scene.until_ended("a")
    scene.run_for(500)
    assert {attempt for _, _, attempt in scene.workers.living()} == ({"b.1"} if followed else set())
    assert not [r for r in scene.workers.runs() if r.job == "a"]
    scene.until_empty()
