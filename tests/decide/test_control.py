"""Commands of people: each verb, what it leaves alone, and that saying it twice does it once."""

from dataclasses import replace
from typing import Any

import pytest

from tpufn.decide.control import decide, restamped
from tpufn.decide.decision import Decision
from tpufn.decide.people import ControlSnapshot
from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.effects import Kind
from tpufn.domain.events import Command
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import TERMINAL, Job, JobSpec, JobState, Priority
from tpufn.domain.slot import Slot, SlotState

from .builders import (
    CENTRAL,
    EAST,
    NOW,
    POLICY,
    events,
    fleet,
    job,
    kinds,
    pool,
    report,
    slot,
    stopping,
    trio,
    written,
    zeros,
)

V6, V4 = pool("v6e-16", EAST), pool("v4-32", CENTRAL)
FLEET = fleet(V6, V4)
LIVE = [AttemptState.ASSIGNED, AttemptState.LAUNCHING, AttemptState.RUNNING, AttemptState.SETTLING]


def tell(verb: str, snapshot: ControlSnapshot, **args: Any) -> Decision:
    target = snapshot.job.id if snapshot.job else snapshot.slot.name if snapshot.slot else "nothing"
    return decide(snapshot, Command(verb=verb, target=target, args=args, by="ada", id="c1"), policy=POLICY)


def of_job(whole: Job | Any, **changes: Any) -> ControlSnapshot:
    """A snapshot with a job as the target: alone, or with its live attempt."""
    if isinstance(whole, Job):
        return ControlSnapshot(now=NOW, fleet=FLEET, job=whole, **changes)
    return ControlSnapshot(now=NOW, fleet=FLEET, job=whole.job, spec=whole.spec, trio=whole, report=report(), **changes)


def of_slot(place: Slot, whole: Any = None, **changes: Any) -> ControlSnapshot:
    seen = {"report": report(), **changes} if whole else changes
    return ControlSnapshot(now=NOW, fleet=FLEET, slot=place, trio=whole, **seen)


@pytest.mark.parametrize("verb", ["cancel", "interrupt", "set-priority", "retry", "hold", "release", "delete", "sing"])
def test_what_is_not_there_is_left_alone(verb: str) -> None:
    """Why: the client has told the person already; a command is only a hint by the time it arrives."""
    nothing = ControlSnapshot(now=NOW, fleet=FLEET)
    assert tell(verb, nothing, priority="high", **{"as": "x"}).steps == ()


# cancel


def test_a_pending_job_is_cancelled_at_once() -> None:
    """Why: nothing of it runs."""
    decision = tell("cancel", of_job(job()))
    assert (written(decision, Job).state, written(decision, Job).cause) == (JobState.CANCELLED, "cancelled by ada")
    assert events(decision) == ["job.cancelled"]


@pytest.mark.parametrize("state", LIVE)
def test_a_running_job_is_cancelling_until_verified(state: AttemptState) -> None:
    """Why: processes may outlive the wish; the stop proof comes later."""
    decision = tell("cancel", of_job(trio(state=state)))
    assert written(decision, Job).state is JobState.CANCELLING
    assert (written(decision, Attempt).outcome, written(decision, Attempt).release) == (Outcome.CANCELLED, False)
    assert written(decision, Slot).state is SlotState.CLEANING
    assert kinds(decision) == [(Kind.STOP, "train.1")]


def test_a_job_between_attempts_waits_for_the_proof_of_the_last() -> None:
    """Why: what is being stopped already is not stopped twice, but it must stop."""
    decision = tell("cancel", of_job(stopping(Outcome.PREEMPTED)))
    assert written(decision, Job).state is JobState.CANCELLING
    assert (written(decision, Attempt), kinds(decision)) == (None, [])


def test_a_job_in_its_backoff_is_cancelled_at_once() -> None:
    """Why: its last attempt is closed."""
    after = written(tell("cancel", of_job(job(state=JobState.WAITING, due_at=NOW + 60, attempt=1))), Job)
    assert (after.state, after.due_at) == (JobState.CANCELLED, 0.0)


@pytest.mark.parametrize("state", [*sorted(TERMINAL), JobState.CANCELLING])
def test_an_ended_job_cannot_be_cancelled(state: JobState) -> None:
    """Why: if succeeded was first, cancel says so; and twice is once."""
    assert tell("cancel", of_job(job(state=state))).steps == ()


@pytest.mark.parametrize(
    ("state", "cancelled"), [(JobState.PENDING, True), (JobState.WAITING, False), (JobState.ACTIVE, False)]
)
def test_cancel_if_pending_never_stops_a_run(state: JobState, cancelled: bool) -> None:
    """Why: the person asked only for those that have not begun."""
    assert bool(tell("cancel", of_job(job(state=state)), if_pending=True).steps) is cancelled


def test_cancel_after_the_last_zero_finds_a_success() -> None:
    """Why: every verdict first lists the results; all zeros before any TERM of ours is success."""
    whole = trio()
    decision = tell("cancel", replace(of_job(whole), report=zeros()))
    assert written(decision, Attempt).outcome is Outcome.SUCCEEDED


# interrupt


@pytest.mark.parametrize("state", LIVE)
def test_interrupt_gives_a_busy_tpu_up(state: AttemptState) -> None:
    """Why: the person wants the TPU away; the job goes on elsewhere and nothing is counted against it."""
    whole = trio(state=state)
    decision = tell("interrupt", of_slot(whole.slot, whole))
    assert (written(decision, Attempt).outcome, written(decision, Attempt).release) == (Outcome.INTERRUPTED, True)
    assert written(decision, Job).state is JobState.WAITING


def test_interrupt_leaves_a_success_alone() -> None:
    """Why: the work is done; the verdict is about to say so."""
    whole = trio()
    assert tell("interrupt", of_slot(whole.slot, whole, report=zeros())).steps == ()


def test_interrupt_of_a_stopping_attempt_is_nothing() -> None:
    """Why: twice is once."""
    whole = stopping(Outcome.INTERRUPTED)
    assert tell("interrupt", of_slot(whole.slot, whole)).steps == ()


# set-priority


def test_a_new_priority_is_a_new_rank() -> None:
    """Why: the rank is what is sorted by."""
    before = job("train", "v6e-16", "v4-32", of=FLEET)
    after = written(tell("set-priority", of_job(before), priority="high"), Job)
    assert (after.priority, after.rank[:6], after.submitted_at) == (Priority.HIGH, "7-0002", before.submitted_at)
    assert tell("set-priority", of_job(after), priority="HIGH").steps == (), "twice is once"


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_an_ended_job_keeps_its_priority(state: JobState) -> None:
    """Why: it is history."""
    assert tell("set-priority", of_job(job(state=state)), priority="high").steps == ()


def test_a_very_long_wait_counts_as_most_constrained() -> None:
    """Why: a flexible job must not starve behind choosy ones for ever."""
    before = job("train", "v6e-16", "v4-32", of=FLEET)
    assert restamped(before, FLEET).rank == before.rank
    assert restamped(before, FLEET, longest=True).rank < before.rank


# retry

FAILED = job("train", state=JobState.FAILED, attempt=3, version="7", region="us-east1", region_started=True)
FAILED = replace(FAILED, accepts=("v6e-16@us-east1",))
SPEC = JobSpec(id="train", command="python train.py", queue_deadline=60.0, version="3")


def test_a_retry_is_a_new_job_that_continues_the_checkpoints() -> None:
    """Why: an ended job stays ended; its history is kept."""
    decision = tell("retry", of_job(FAILED, spec=SPEC), **{"as": "train-retry-1"})
    (step,) = decision.steps
    old, fresh = sorted((w for w in step.writes if isinstance(w, Job)), key=lambda j: j.id)
    spec = written(step, JobSpec)
    assert (old.id, old.state, old.retries, old.version) == ("train", JobState.FAILED, 1, "7")
    assert (fresh.id, fresh.state, fresh.attempt, fresh.version) == ("train-retry-1", JobState.PENDING, 0, "")
    assert (fresh.region, fresh.accepts, fresh.submitted_at) == ("us-east1", ("v6e-16@us-east1",), NOW)
    assert (spec.id, spec.checkpoints_of, spec.command, spec.version) == ("train-retry-1", "train", SPEC.command, "")
    assert fresh.queue_deadline_at == NOW + 60


def test_a_retry_of_a_retry_continues_the_first_checkpoints() -> None:
    """Why: there is one line of checkpoints, however often it is picked up."""
    spec = replace(SPEC, checkpoints_of="first")
    assert written(tell("retry", of_job(FAILED, spec=spec), **{"as": "x"}), JobSpec).checkpoints_of == "first"


@pytest.mark.parametrize("state", [s for s in JobState if s not in (JobState.FAILED, JobState.CANCELLED)])
def test_only_a_failed_or_cancelled_job_is_tried_again(state: JobState) -> None:
    """Why: two runs of one job would write one set of checkpoints."""
    assert tell("retry", of_job(replace(FAILED, state=state), spec=SPEC), **{"as": "x"}).steps == ()


def test_a_retry_happens_once() -> None:
    """Why: the command may come twice."""
    there = of_job(FAILED, spec=SPEC, successor=job("train-retry-1"))
    assert tell("retry", there, **{"as": "train-retry-1"}).steps == ()


def test_a_retry_of_a_job_that_never_started_races_everywhere() -> None:
    """Why: nothing of it is in that region."""
    pinned = replace(FAILED, region_started=False, unpinned=("v6e-16@us-east1", "v6e-16@us-central2"))
    decision = tell("retry", of_job(pinned, spec=SPEC), **{"as": "x"})
    (fresh,) = [w for w in decision.steps[0].writes if isinstance(w, Job) and w.id == "x"]
    assert fresh.accepts == pinned.unpinned


# hold, release, delete


@pytest.mark.parametrize("state", SlotState)
def test_hold_marks_a_slot_and_changes_nothing_else(state: SlotState) -> None:
    """Why: a hold is a person's mark on a slot in any state; it neither starts nor stops anything."""
    place = slot(V6, 1, state)
    decision = tell("hold", of_slot(place))
    assert written(decision, Slot) == replace(place, hold="ada")
    assert kinds(decision) == []
    assert tell("hold", of_slot(replace(place, hold="bob"))).steps == (), "somebody else has it"


def test_release_gives_a_held_slot_back_with_a_fresh_timeout() -> None:
    """Why: it must not be torn down the moment the person lets go."""
    after = written(tell("release", of_slot(slot(V6, hold="ada", idle_since=NOW - 9999))), Slot)
    assert (after.hold, after.idle_since, after.state) == ("", NOW, SlotState.IDLE)
    assert written(tell("release", of_slot(slot(V6, 1, SlotState.WAITING, hold="ada"))), Slot).idle_since == 0.0
    assert tell("release", of_slot(slot(V6))).steps == (), "twice is once"


@pytest.mark.parametrize("state", SlotState)
def test_delete_releases_what_has_a_tpu_and_no_attempt(state: SlotState) -> None:
    """Why: a person may give up any TPU that nothing runs on, held or not."""
    place = slot(V6, 1, state, hold="ada")
    there = state not in (SlotState.FREE, SlotState.BUSY, SlotState.RELEASING, SlotState.RETIRED)
    assert kinds(tell("delete", of_slot(place))) == ([(Kind.DELETE, place.name)] if there else [])


def test_delete_never_takes_a_tpu_from_an_attempt() -> None:
    """Why: that is `interrupt`."""
    whole = trio()
    assert tell("delete", of_slot(whole.slot, whole)).steps == ()


# What the person saw

BUSY = trio()
assert BUSY.slot is not None
SEEN: dict[str, ControlSnapshot] = {
    "interrupt": of_slot(BUSY.slot, BUSY),
    "hold": of_slot(BUSY.slot),
    "delete": of_slot(slot(V6, generation=1)),
    "release": of_slot(slot(V6, hold="ada")),
    "cancel": of_job(BUSY),
}


@pytest.mark.parametrize("verb", SEEN)
def test_a_command_that_fits_what_is_seen_is_done(verb: str) -> None:
    """Why: the guard must not refuse what is still so."""
    snapshot = SEEN[verb]
    seen: dict[str, Any] = {"generation": 1, "attempt": "train.1"} if snapshot.trio else {"generation": 1}
    if verb == "hold":
        seen = {"generation": 1, "attempt": "train.1"}
    assert tell(verb, snapshot, **seen).steps != ()


@pytest.mark.parametrize("seen", [{"generation": 2}, {"attempt": "train.9"}], ids=["generation", "attempt"])
@pytest.mark.parametrize("verb", SEEN)
def test_a_command_about_what_was_before_is_nothing(verb: str, seen: dict[str, Any]) -> None:
    """Why: a command names what the person saw and is a no-op otherwise: the screen may have been old."""
    about_a_job = SEEN[verb].job is not None  # a job has no generation
    assert (tell(verb, SEEN[verb], **seen).steps == ()) is not (about_a_job and "generation" in seen)


def test_commands_work_without_any_pool() -> None:
    """Why: a deployment without pools still answers commands."""
    bare = ControlSnapshot(now=NOW, fleet=Fleet(name="lab"), job=job())
    assert written(tell("cancel", bare), Job).state is JobState.CANCELLED
