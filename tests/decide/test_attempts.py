"""How an attempt ends, and what follows from it for job and slot."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpufn.decide import attempts
from tpufn.decide.attempts import Trio
from tpufn.decide.decision import Step
from tpufn.decide.verdict import Verdict
from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.effects import Kind
from tpufn.domain.job import Job, JobState, Retries
from tpufn.domain.orders import Closed, WorkerReport
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotState

from .builders import (
    NOW,
    POLICY,
    closed,
    events,
    exited,
    kinds,
    notes,
    quick,
    report,
    sight,
    stopping,
    trio,
    written,
    zeros,
)

PROOF = report(closed=closed())


def close(whole: Trio, seen: WorkerReport = PROOF, *, policy: Policy = POLICY, **sees: Any) -> Step:
    return attempts.close(whole, sight(whole, seen, **sees), "every worker has closed", policy=policy)


def ends(step: Step) -> list[Any]:
    """Every attempt and slot written, by id: a retry on the same TPU writes two attempts."""
    return [w for w in step.writes if isinstance(w, Attempt)]


# The steps before the end


def test_go_marks_the_region_as_the_job_s_for_good() -> None:
    """Why: from here on there may be checkpoints there."""
    step = attempts.go(trio(state=AttemptState.LAUNCHING), now=NOW)
    assert (written(step, Job).region_started, written(step, Attempt).started_at) == (True, NOW)
    assert kinds(step) == [(Kind.GO, "train.1")]


@pytest.mark.parametrize("outcome", Outcome)
def test_a_verdict_stops_the_workers_and_leaves_the_lease(outcome: Outcome) -> None:
    """Why: the lease ends with the stop proof only."""
    verdict = Verdict(outcome=outcome, cause="because", evidence=("e",))
    step = attempts.conclude(trio(), verdict, report(exited(0, 3)), now=NOW, policy=POLICY)
    ended, place = written(step, Attempt), written(step, Slot)
    assert (ended.state, ended.outcome, ended.cause, ended.evidence) == (
        AttemptState.STOPPING,
        outcome,
        "because",
        ("e",),
    )
    assert (ended.ended_at, ended.due_at, ended.exit_codes) == (NOW, NOW + POLICY.stop_budget, (3, None, None, None))
    assert (place.state, place.lease) == (SlotState.CLEANING, ended.lease)
    assert kinds(step) == [(Kind.STOP, "train.1")]


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.SUCCEEDED, JobState.SUCCEEDED),
        (Outcome.FAILED, None),
        (Outcome.TIMED_OUT, None),
        (Outcome.PREEMPTED, JobState.WAITING),
        (Outcome.INFRASTRUCTURE, JobState.WAITING),
        (Outcome.UNFIT, JobState.WAITING),
        (Outcome.INTERRUPTED, JobState.WAITING),
    ],
)
def test_only_success_ends_the_job_at_once(outcome: Outcome, state: JobState | None) -> None:
    """Why: zeros may still come to light; what asks for a retry is demand from now on."""
    step = attempts.conclude(trio(), Verdict(outcome=outcome, cause="x"), report(), now=NOW, policy=POLICY)
    assert (written(step, Job).state if written(step, Job) else None) == state


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.PREEMPTED])
def test_a_verdict_does_not_move_a_cancelling_job(outcome: Outcome) -> None:
    """Why: once `cancelling` is committed the end is cancelled."""
    whole = trio(job_state=JobState.CANCELLING)
    assert (
        written(attempts.conclude(whole, Verdict(outcome=outcome, cause="x"), report(), now=NOW, policy=POLICY), Job)
        is None
    )


# The end

ENDS = [
    # outcome, what becomes of the job, where the TPU goes
    (Outcome.SUCCEEDED, JobState.SUCCEEDED, SlotState.IDLE),
    (Outcome.FAILED, JobState.FAILED, SlotState.IDLE),
    (Outcome.TIMED_OUT, JobState.FAILED, SlotState.IDLE),
    (Outcome.CANCELLED, JobState.CANCELLED, SlotState.IDLE),
    (Outcome.PREEMPTED, JobState.PENDING, SlotState.RELEASING),
    (Outcome.INFRASTRUCTURE, JobState.PENDING, SlotState.RELEASING),
    (Outcome.UNFIT, JobState.PENDING, SlotState.RELEASING),
    (Outcome.INTERRUPTED, JobState.PENDING, SlotState.RELEASING),
]


@pytest.mark.parametrize(("outcome", "job_state", "slot_state"), ENDS)
def test_each_outcome_has_its_consequence(outcome: Outcome, job_state: JobState, slot_state: SlotState) -> None:
    """Why: what was nobody's fault is tried again at once; a TPU that was lost or ill is never used again."""
    changes: dict[str, Any] = {"release": slot_state is SlotState.RELEASING}
    if outcome is Outcome.CANCELLED:
        changes["job_state"] = JobState.CANCELLING
    whole = stopping(outcome, **changes)
    step = close(whole)
    after_job, place, ended = written(step, Job) or whole.job, written(step, Slot), written(step, Attempt)
    assert (after_job.state, place.state, place.lease) == (job_state, slot_state, None)
    assert (ended.state, ended.outcome, ended.due_at) == (AttemptState.CLOSED, outcome, 0.0)
    assert step.closes == ("attempt:train.1",), "what was still to be told the workers has become pointless"
    assert after_job.is_terminal or after_job.slot == ""


def test_zeros_that_come_to_light_make_it_a_success() -> None:
    """Why: all zeros before any TERM of ours is success, whatever the verdict was."""
    step = close(stopping(Outcome.PREEMPTED, release=True), replace(zeros(), closed=closed()))
    assert (written(step, Job).state, written(step, Attempt).outcome) == (JobState.SUCCEEDED, Outcome.SUCCEEDED)
    assert "seen after the verdict preempted" in written(step, Attempt).cause
    assert written(step, Slot).state is SlotState.RELEASING, "the TPU goes all the same"


def test_a_plain_success_keeps_its_cause() -> None:
    """Why: `why` prints it."""
    step = close(stopping(Outcome.SUCCEEDED, cause="exit 0 from all 4 workers"), replace(zeros(), closed=closed()))
    assert written(step, Attempt).cause == "exit 0 from all 4 workers"


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.SUCCEEDED])
def test_cancel_wins(outcome: Outcome) -> None:
    """Why: once `cancelling` is committed the end is cancelled, however the attempt ended."""
    for seen in (PROOF, replace(zeros(), closed=closed())):
        step = close(stopping(outcome, job_state=JobState.CANCELLING), seen)
        assert written(step, Job).state is JobState.CANCELLED
        assert events(step).count("job.cancelled") == 1


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED])
def test_an_ended_job_stays_ended(state: JobState) -> None:
    """Why: a close is repeated, late, or the second of two."""
    assert written(close(stopping(Outcome.INFRASTRUCTURE, job_state=state)), Job) is None


# Whether the TPU may be used again


def test_a_clean_retry_keeps_its_tpu_in_the_same_commit() -> None:
    """Why: no flood of other jobs can take the warm TPU of a retry in between."""
    whole = stopping(Outcome.INFRASTRUCTURE)
    assert whole.slot is not None
    step = close(whole, report(closed=closed(caches=("pip",))))
    job, place = written(step, Job), written(step, Slot)
    old, new = ends(step)
    assert (old.id, old.state, new.id, new.state) == ("train.1", "closed", "train.2", "assigned")
    assert (job.state, job.attempt, job.slot) == (JobState.ACTIVE, 2, place.name)
    assert (place.state, place.lease, place.caches) == (SlotState.BUSY, new.lease, ("pip",))
    assert new.lease.fence == old.lease.fence + 1, "a late launch of the old attempt is refused"
    assert events(step) == ["attempt.closed", "attempt.assigned"]


UNCLEAN: dict[str, dict[str, Any]] = {
    "a worker did not close": {"seen": report(closed=closed(3))},
    "a worker is not clean": {"seen": report(closed={**closed(), 1: Closed(worker=1, clean=False)})},
    "the verdict gave it up": {"changes": {"release": True}},
    "quarantine": {"changes": {"slot_changes": {"quick_failures": ("a", "b")}}},
}


@pytest.mark.parametrize("name", UNCLEAN)
def test_an_unclean_tpu_is_released_and_the_job_goes_on_elsewhere(name: str) -> None:
    """Why: whatever is left on it would break the next attempt."""
    whole = stopping(Outcome.INFRASTRUCTURE, **UNCLEAN[name].get("changes", {}))
    step = close(whole, UNCLEAN[name].get("seen", PROOF))
    assert (written(step, Slot).state, written(step, Job).state) == (SlotState.RELEASING, JobState.PENDING)
    assert kinds(step) == [(Kind.DELETE, written(step, Slot).name)]
    assert len(ends(step)) == 1


def test_a_held_tpu_is_not_taken_again() -> None:
    """Why: a person waits for it."""
    step = close(stopping(Outcome.INFRASTRUCTURE, slot_changes={"hold": "ada"}))
    place = written(step, Slot)
    assert (place.state, place.hold, place.lease) == (SlotState.IDLE, "ada", None)
    assert written(step, Job).state is JobState.PENDING


def test_a_tpu_whose_pool_left_the_file_is_not_taken_again() -> None:
    """Why: it is to be drained."""
    step = close(replace(stopping(Outcome.INFRASTRUCTURE), pool=None))
    assert (written(step, Slot).state, written(step, Job).state) == (SlotState.IDLE, JobState.PENDING)


@pytest.mark.parametrize("state", [SlotState.RELEASING, SlotState.FREE])
def test_a_tpu_that_is_already_going_only_loses_its_lease(state: SlotState) -> None:
    """Why: the delete waits for just that."""
    step = close(stopping(Outcome.FAILED, slot_changes={"state": state}))
    assert (written(step, Slot).state, written(step, Slot).lease, kinds(step)) == (state, None, [])


def test_a_slot_that_holds_another_tpu_is_not_touched() -> None:
    """Why: the lease is not this attempt's any more."""
    step = close(replace(stopping(Outcome.INFRASTRUCTURE), slot=None))
    assert written(step, Slot) is None
    assert written(step, Job).state is JobState.PENDING


def test_a_tpu_that_the_cloud_has_taken_back_is_not_used_again() -> None:
    """Why: leased again only if the slot is clean; a TPU that is not found cannot be."""
    step = close(stopping(Outcome.INFRASTRUCTURE), tpu=None)
    assert written(step, Job).state is JobState.PENDING


# Quarantine


@pytest.mark.parametrize(
    ("before", "outcome", "runtime", "released"),
    [
        ((), Outcome.FAILED, 5, False),
        (("other",), Outcome.FAILED, 5, True),
        (("train",), Outcome.FAILED, 5, True),
        (("other",), Outcome.INFRASTRUCTURE, 5, True),
        (("other",), Outcome.FAILED, 500, False),
        (("other",), Outcome.SUCCEEDED, 5, False),
        (("other",), Outcome.CANCELLED, 5, False),
    ],
)
def test_two_quick_failures_condemn_a_tpu(
    before: tuple[str, ...], outcome: Outcome, runtime: float, released: bool
) -> None:
    """Why: a machine that always crashes is chosen again and again."""
    started = NOW - 60 - runtime
    changes: dict[str, Any] = {
        "started_at": started,
        "ended_at": started + runtime,
        "slot_changes": {"quick_failures": before},
    }
    if outcome is Outcome.CANCELLED:
        changes["job_state"] = JobState.CANCELLING
    place = written(close(stopping(outcome, **changes)), Slot)
    assert (place.state is SlotState.RELEASING) is released
    if released:
        assert place.cause == f"quarantine: quick failures by {before[0]}, train"
    if outcome is Outcome.SUCCEEDED:
        assert place.quick_failures == ()


@pytest.mark.parametrize(("code", "counts"), [(1, True), (127, False), (126, False), (75, False), (76, True)])
def test_a_code_that_blames_the_program_condemns_no_tpu(code: int, counts: bool) -> None:
    """Why: a command that is not there, or a failure that the job announces by its code, would cost a good TPU."""
    started = NOW - 65
    changes: dict[str, Any] = {
        "started_at": started,
        "ended_at": started + 5,
        "exit_codes": (0, code),
        "failed_worker": 1,
        "slot_changes": {"quick_failures": ("other",)},
        "spec": {"retries": Retries(application=3, application_exit_codes=(75,))},
    }
    seen = report(exited(1, code, at=started + 5, runtime=5.0), closed=closed())
    place = written(close(stopping(Outcome.FAILED, **changes), seen), Slot)
    assert (place.state is SlotState.RELEASING) is counts


def test_quick_is_measured_to_the_death_not_to_the_verdict() -> None:
    """Why: a program that dies after five seconds is quick, however long the doubt lasts."""
    started = NOW - 110
    changes: dict[str, Any] = {
        "started_at": started,
        "ended_at": started + 95,
        "slot_changes": {"quick_failures": ("other",)},
    }
    seen = report(exited(1, 1, at=started + 5, runtime=5.0), closed=closed())
    assert written(close(stopping(Outcome.FAILED, failed_worker=1, **changes), seen), Slot).state is SlotState.RELEASING


# Regions


@pytest.mark.parametrize(("started", "region"), [(True, "us-east1"), (False, "")])
def test_a_job_is_unpinned_only_if_it_never_started(started: bool, region: str) -> None:
    """Why: without checkpoints there any region will do again; with them only that one."""
    whole = stopping(Outcome.UNFIT, release=True, job_changes={"region_started": started})
    job = written(close(whole), Job)
    assert (job.region, job.state) == (region, JobState.PENDING)
    assert job.accepts == (whole.job.accepts if started else whole.job.unpinned)


def test_a_retry_keeps_its_place_in_the_queue() -> None:
    """Why: original submit time and priority."""
    whole = stopping(Outcome.PREEMPTED, release=True)
    job = written(close(whole), Job)
    assert (job.submitted_at, job.priority) == (whole.job.submitted_at, whole.job.priority)


def test_a_job_that_failed_before_it_started_is_unpinned_too() -> None:
    """Why: `retry` makes a new job of it, which should race everywhere again."""
    whole = stopping(Outcome.FAILED, job_changes={"region_started": False})
    assert written(close(whole), Job).accepts == whole.job.unpinned


def test_the_reasons_carry_the_numbers() -> None:
    """Why: `why` prints them."""
    step = close(stopping(Outcome.PREEMPTED, release=True, spec={"retries": Retries(preemption=0)}))
    assert written(step, Job).cause == "preempted 1 times, retries.preemption allows 0"
    assert notes(step)[0].data["outcome"] == "preempted"


# Whatever happens

whole_attempts = st.builds(
    stopping,
    st.sampled_from(Outcome),
    release=st.booleans(),
    started_at=st.sampled_from((0.0, NOW - 20, NOW - 2000)),
    slot_changes=st.fixed_dictionaries(
        {
            "state": st.sampled_from((SlotState.CLEANING, SlotState.RELEASING)),
            "hold": st.sampled_from(("", "ada")),
            "quick_failures": st.sampled_from(((), ("a",), ("a", "b"))),
        }
    ),
    job_changes=st.fixed_dictionaries(
        {
            "region_started": st.booleans(),
            "infrastructure_failures": st.integers(0, 12),
            "quick_failures": st.integers(0, 5),
        }
    ),
    job_state=st.sampled_from((JobState.ACTIVE, JobState.WAITING, JobState.CANCELLING, JobState.SUCCEEDED)),
)


@quick
@given(whole_attempts, st.sets(st.integers(0, 3)), st.booleans(), st.booleans())
def test_every_close_ends_the_lease_and_leaves_one_owner(
    whole: Trio, closes: set[int], clean: bool, zero: bool
) -> None:
    """Why: no slot with two live attempts, no attempt on two slots, no job forgotten."""
    seen = replace(zeros() if zero else report(), closed={i: Closed(worker=i, clean=clean) for i in closes})
    step = close(whole, seen, tpu=None)
    old, *new = ends(step)
    place, job = written(step, Slot), written(step, Job) or whole.job
    assert old.state is AttemptState.CLOSED
    assert (place.lease is not None) == bool(new)
    assert job.is_terminal or job.state in (JobState.PENDING, JobState.WAITING, JobState.ACTIVE)
    assert (job.state is JobState.ACTIVE) == bool(new)
    assert job.state is not JobState.WAITING or job.due_at > NOW, "nobody would wake it"
    if new:
        assert (clean, len(closes), place.hold, whole.attempt.release) == (True, 4, "", False)
        assert place.state is SlotState.BUSY
    if whole.job.state is JobState.CANCELLING:
        assert job.state is JobState.CANCELLED
    if whole.attempt.release or not clean or len(closes) < 4:
        assert place.state is SlotState.RELEASING
