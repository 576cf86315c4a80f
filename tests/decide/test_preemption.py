"""A TPU is being reclaimed, or was."""

import pytest

from tpufn.decide.decision import Decision
from tpufn.decide.preemption import PreemptionSnapshot, decide
from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.effects import Kind
from tpufn.domain.events import PreemptionNotice
from tpufn.domain.job import Job, JobState
from tpufn.domain.orders import WorkerReport
from tpufn.domain.slot import Slot, SlotState

from .builders import EAST, NOW, POLICY, kinds, pool, report, sight, slot, stopping, trio, written, zeros

V6 = pool("v6e-16", EAST)


def noticed(state: AttemptState, seen: WorkerReport, *, generation: int = 1) -> Decision:
    whole = stopping(Outcome.FAILED) if state is AttemptState.STOPPING else trio(state=state)
    assert whole.slot is not None
    snapshot = PreemptionSnapshot(now=NOW, slot=whole.slot, trio=whole, sight=sight(whole, seen))
    return decide(snapshot, PreemptionNotice(slot=whole.slot.name, generation=generation), policy=POLICY)


LIVE = [AttemptState.ASSIGNED, AttemptState.LAUNCHING, AttemptState.RUNNING, AttemptState.SETTLING]


@pytest.mark.parametrize("state", LIVE)
def test_a_live_attempt_is_preempted_and_its_tpu_given_up(state: AttemptState) -> None:
    """Why: the grace is for checkpoints; the job races again at once."""
    decision = noticed(state, report())
    ended = written(decision, Attempt)
    assert (ended.outcome, ended.release, ended.cause) == (
        Outcome.PREEMPTED,
        True,
        f"Spot preemption of {ended.tpu} (notice)",
    )
    assert written(decision, Job).state is JobState.WAITING
    assert kinds(decision) == [(Kind.STOP, "train.1")]


@pytest.mark.parametrize("state", [AttemptState.RUNNING, AttemptState.SETTLING])
def test_all_zeros_are_a_success_all_the_same(state: AttemptState) -> None:
    """Why: every verdict first lists the results."""
    decision = noticed(state, zeros())
    assert (written(decision, Attempt).outcome, written(decision, Job).state) == ("succeeded", "succeeded")


def test_a_success_gives_the_reclaimed_tpu_up_too() -> None:
    """Why: after a preemption notice the TPU is always released."""
    assert written(noticed(AttemptState.RUNNING, zeros()), Attempt).release


def test_a_notice_while_stopping_is_remembered() -> None:
    """Why: after a preemption notice the TPU is always released."""
    assert written(noticed(AttemptState.STOPPING, report()), Attempt).release


@pytest.mark.parametrize("state", LIVE)
def test_a_notice_for_another_generation_is_late(state: AttemptState) -> None:
    """Why: it was about the TPU before."""
    assert noticed(state, report(), generation=0).steps == ()


@pytest.mark.parametrize("state", SlotState)
def test_a_tpu_without_an_attempt_is_released(state: SlotState) -> None:
    """Why: an idle or booting TPU can be reclaimed too; what is not there cannot."""
    place = slot(V6, 1, state, generation=3)
    decision = decide(
        PreemptionSnapshot(now=NOW, slot=place), PreemptionNotice(slot=place.name, generation=3), policy=POLICY
    )
    there = state not in (SlotState.FREE, SlotState.BUSY, SlotState.RELEASING, SlotState.RETIRED)
    assert kinds(decision) == ([(Kind.DELETE, place.name)] if there else [])
    assert not there or written(decision, Slot).state is SlotState.RELEASING


def test_a_lease_whose_attempt_is_not_known_is_left_alone() -> None:
    """Why: only a closed attempt ends a lease; `execute` finds the loss by itself."""
    whole = trio()
    assert whole.slot is not None
    snapshot = PreemptionSnapshot(now=NOW, slot=whole.slot)
    assert decide(snapshot, PreemptionNotice(slot=whole.slot.name, generation=1), policy=POLICY).steps == ()


def test_a_second_notice_changes_nothing_more() -> None:
    """Why: every worker sends one, and the tick finds it too."""
    whole = trio(state=AttemptState.STOPPING, outcome=Outcome.PREEMPTED, release=True)
    assert whole.slot is not None
    snapshot = PreemptionSnapshot(now=NOW, slot=whole.slot, trio=whole, sight=sight(whole, report()))
    assert decide(snapshot, PreemptionNotice(slot=whole.slot.name, generation=1), policy=POLICY).steps == ()
