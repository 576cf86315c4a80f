"""Each kind of failure has its own budget, and its own patience."""

from dataclasses import replace
from typing import Any

import pytest

from tpufn.decide import attempts
from tpufn.decide.attempts import Trio
from tpufn.decide.decision import Step
from tpufn.decide.retry import Again, Enough, after, backoff
from tpufn.domain.attempt import Outcome
from tpufn.domain.job import Job, JobState, Retries
from tpufn.domain.orders import WorkerReport
from tpufn.domain.policy import SANDBOX, Policy
from tpufn.domain.slot import Slot, SlotState

from .builders import (
    NOW,
    POLICY,
    closed,
    exited,
    report,
    sight,
    stopping,
    written,
)

PROOF = report(closed=closed())


def close(whole: Trio, seen: WorkerReport = PROOF) -> Step:
    return attempts.close(whole, sight(whole, seen), "every worker has closed", policy=POLICY)


def consequence(
    outcome: Outcome, retries: dict[str, Any], policy: Policy = POLICY, runtime: float = 500, **job: Any
) -> Again | Enough:
    whole = stopping(
        outcome,
        spec={"retries": Retries(**retries)},
        job_changes=job,
        started_at=NOW - 1000,
        ended_at=NOW - 1000 + runtime,
    )
    codes = (None, 7, None, None)
    attempt = replace(whole.attempt, exit_codes=codes, failed_worker=1 if outcome is Outcome.FAILED else None)
    return after(whole.job, whole.spec, attempt, policy=policy)


@pytest.mark.parametrize(
    ("outcome", "retries", "job", "again"),
    [
        (Outcome.PREEMPTED, {}, {"preemptions": 10**6}, True),
        (Outcome.PREEMPTED, {"preemption": 2}, {"preemptions": 1}, True),
        (Outcome.PREEMPTED, {"preemption": 2}, {"preemptions": 2}, False),
        (Outcome.PREEMPTED, {"preemption": 0}, {}, False),
        (Outcome.INFRASTRUCTURE, {}, {"infrastructure_failures": 9}, True),
        (Outcome.INFRASTRUCTURE, {}, {"infrastructure_failures": 10}, False),
        (Outcome.INFRASTRUCTURE, {"infrastructure": 0}, {}, False),
        (Outcome.INFRASTRUCTURE, {"infrastructure": None}, {"infrastructure_failures": 10**6}, True),
        (Outcome.UNFIT, {"preemption": 0, "infrastructure": 0}, {}, True),
        (Outcome.INTERRUPTED, {"preemption": 0, "infrastructure": 0}, {}, True),
        (Outcome.FAILED, {}, {}, False),
        (Outcome.FAILED, {"application": 1}, {}, True),
        (Outcome.FAILED, {"application": 1}, {"application_failures": 1}, False),
        (Outcome.FAILED, {"application": 1, "application_exit_codes": (7, 8)}, {}, True),
        (Outcome.FAILED, {"application": 1, "application_exit_codes": (8,)}, {}, False),
        (Outcome.TIMED_OUT, {"application": 9}, {}, False),
    ],
)
def test_each_kind_of_failure_has_its_own_budget(
    outcome: Outcome, retries: dict[str, Any], job: dict[str, Any], again: bool
) -> None:
    """Why: preemptions are normal, infrastructure is bounded, the application's failures are the user's own."""
    result = consequence(outcome, retries, **job)
    assert isinstance(result, Again) is again
    counters = {
        Outcome.PREEMPTED: (1, 0, 0),
        Outcome.INFRASTRUCTURE: (0, 1, 0),
        Outcome.FAILED: (0, 0, 1),
    }.get(outcome, (0, 0, 0))
    names = ("preemptions", "infrastructure_failures", "application_failures")
    assert tuple(getattr(result.job, n) - job.get(n, 0) for n in names) == counters


@pytest.mark.parametrize(("failures", "pause"), [(1, 0), (2, 15), (3, 30), (4, 60), (5, 120), (8, 900), (200, 900)])
def test_the_first_retry_is_at_once_and_then_they_slow_down(failures: int, pause: float) -> None:
    """Why: most failures are chance; a row of them is not."""
    assert backoff(failures, POLICY) == pause
    unlimited = {"infrastructure": None, "application": 10**6}
    for outcome, counter in (
        (Outcome.INFRASTRUCTURE, "infrastructure_failures"),
        (Outcome.FAILED, "application_failures"),
    ):
        result = consequence(outcome, unlimited, **{counter: failures - 1})
        assert isinstance(result, Again)
        assert result.pause == pause


@pytest.mark.parametrize(("runtime", "counted"), [(5, True), (59.9, True), (60, False)])
def test_a_crash_loop_ends_the_job(runtime: float, counted: bool) -> None:
    """Why: a job that dies at its start everywhere would burn TPUs for ever."""
    result = consequence(Outcome.INFRASTRUCTURE, {"infrastructure": None}, runtime=runtime, quick_failures=4)
    assert isinstance(result, Enough) is counted
    assert result.job.quick_failures == (5 if counted else 0)
    assert not counted or "5 quick failures in a row" in result.cause  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", [POLICY, SANDBOX])
@pytest.mark.parametrize("outcome", [Outcome.INFRASTRUCTURE, Outcome.FAILED])
def test_budgets_are_finite(policy: Policy, outcome: Outcome) -> None:
    """Why: whatever happens again and again comes to an end by default."""
    whole, tries = stopping(outcome, spec={"retries": Retries(application=3)}), 0
    job = whole.job
    while isinstance(result := after(job, whole.spec, whole.attempt, policy=policy), Again):
        job, tries = result.job, tries + 1
        assert result.pause <= policy.retry_backoff_max
    assert tries == (3 if outcome is Outcome.FAILED else 10)


def test_a_backoff_is_a_waiting_job_with_a_time() -> None:
    """Why: waiting is a state with a time, never a sleep."""
    step = close(stopping(Outcome.INFRASTRUCTURE, job_changes={"infrastructure_failures": 1}))
    job = written(step, Job)
    assert (job.state, job.due_at, job.slot) == (JobState.WAITING, NOW + 15, "")
    assert job.cause == "infrastructure: next try in 15 s"
    assert written(step, Slot).state is SlotState.IDLE


def test_an_application_retry_detaches_first() -> None:
    """Why: the verdict left the job active, for zeros might have come to light."""
    whole = stopping(
        Outcome.FAILED,
        spec={"retries": Retries(application=2)},
        job_changes={"application_failures": 1},
        failed_worker=1,
    )
    job = written(close(whole, report(exited(1, 7), closed=closed())), Job)
    assert (job.state, job.due_at) == (JobState.WAITING, NOW + 15)
