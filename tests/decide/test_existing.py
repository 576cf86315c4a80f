"""TPUs that we use but never create or delete: `existing` in the deployment file."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tpufn.decide import assign, attempts, autoscale, control, execute, idle_teardown, observe, people, preemption, race
from tpufn.decide.decision import Decision, Step
from tpufn.decide.observe import Observed
from tpufn.decide.records import SlotRecord
from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.cloud import NodeState
from tpufn.domain.effects import Effect, Kind, Row
from tpufn.domain.events import Command, PreemptionNotice
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobState
from tpufn.domain.slot import Slot, SlotState

from .builders import (
    EAST,
    NOW,
    POLICY,
    closed,
    fleet,
    job,
    kinds,
    placement,
    pool,
    racing,
    report,
    sight,
    slot,
    stopping,
    table,
    tpu_of,
    trio,
    written,
)

MINE = pool("v6e-16", EAST, id="existing-mine", existing="mine", count=0)
FLEET = fleet(MINE)


def sweep(of: Fleet, *slots: Slot, observed: dict[str, Observed] | None = None) -> Decision:
    snapshot = autoscale.SweepSnapshot(
        now=NOW,
        fleet=of,
        slots=slots,
        scopes={},
        rows=(),
        due_jobs=(),
        cancelling=(),
        waiting_long=(),
        demand=True,
        observed=observed or {},
        listed=(),
    )
    return autoscale.decide(snapshot, policy=POLICY)


def look(of: Slot, node: NodeState | None) -> Step | None:
    row = Row(entity="", effect=Effect(kind=Kind.CREATE, entity=""))
    record = SlotRecord(now=NOW, fleet=FLEET, slot=of, row=row, scopes={})
    tpu = tpu_of(of, node=node, labels={}) if node else None
    return observe.observe(record, Observed(tpu=tpu), policy=POLICY)


def without_proof() -> Decision:
    whole = stopping(Outcome.FAILED, of=MINE, due_at=NOW)
    return execute.decide(execute.ExecuteSnapshot(trio=whole, sight=sight(whole, report())), policy=POLICY)


def reclaimed() -> Decision:
    snapshot = preemption.PreemptionSnapshot(now=NOW, slot=slot(MINE))
    return preemption.decide(snapshot, PreemptionNotice(slot="mine", generation=1), policy=POLICY)


def deleted_by_hand() -> Decision:
    snapshot = people.ControlSnapshot(now=NOW, fleet=FLEET, slot=slot(MINE))
    return control.decide(snapshot, Command(verb="delete", target="mine"), policy=POLICY)


WAYS: dict[str, Callable[[], Step | Decision | None]] = {
    "reclaimed while idle": lambda: look(slot(MINE), NodeState.PREEMPTED),
    "in repair while idle": lambda: look(slot(MINE), NodeState.REPAIRING),
    "not found while idle": lambda: look(slot(MINE), None),
    "lost while it boots": lambda: look(slot(MINE, 1, SlotState.BOOTING), NodeState.STOPPED),
    "slow to boot": lambda: look(slot(MINE, 1, SlotState.BOOTING, deadline=NOW), NodeState.READY),
    "a notice": reclaimed,
    "no stop proof": without_proof,
    "a person says delete": deleted_by_hand,
    "its entry left the file": lambda: sweep(Fleet(name="lab"), slot(MINE)),
    "nobody waits for it while it boots": lambda: race.decide(
        racing(FLEET, [slot(MINE, 1, SlotState.BOOTING)]), policy=POLICY
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_adopted_tpu_is_never_deleted(way: str) -> None:
    """Why: it was there before us and is not ours to delete, whatever happens to it."""
    assert kinds(WAYS[way]()) == []


def test_an_adopted_tpu_without_a_stop_proof_is_told_again() -> None:
    """Why: its owner may have made it anew under the same name; who was told before is not there any more."""
    left = {"state": SlotState.FREE}
    whole = stopping(Outcome.INFRASTRUCTURE, of=MINE, due_at=NOW, slot_changes={**left, "adopted": True})
    decision = execute.decide(execute.ExecuteSnapshot(trio=whole, sight=sight(whole, report())), policy=POLICY)
    assert kinds(decision) == [(Kind.STOP, "train.1")]
    assert written(decision, Attempt).due_at == NOW + POLICY.stop_budget, "not with every wake"


def test_an_adopted_tpu_is_never_requested() -> None:
    """Why: it is there, or it is not."""
    assert race.decide(racing(FLEET, table(FLEET), job()), policy=POLICY).steps == ()


def test_an_adopted_tpu_is_never_torn_down_as_idle() -> None:
    """Why: it costs its owner the same."""
    late = slot(MINE, idle_since=0.0)
    snapshot = idle_teardown.IdleSnapshot(now=NOW, fleet=FLEET, slots=[late], scopes={}, wanted=frozenset())
    assert idle_teardown.decide(snapshot).steps == ()


def test_an_adopted_tpu_appears() -> None:
    """Why: a job that wants it, or its type, must be able to run on it."""
    free = slot(MINE, 1, SlotState.FREE)
    there = replace(tpu_of(replace(free, tpu="mine")), labels={})
    after = written(sweep(FLEET, free, observed={"mine": Observed(tpu=there, usable=True, workers_answering=4)}), Slot)
    assert after.state in (SlotState.BOOTING, SlotState.IDLE)


def test_a_job_can_run_on_it_by_name_or_by_type() -> None:
    """Why: it is a pool of one."""
    for of in (job(tpu_name="mine"), job()):
        assert written(assign.decide(placement(FLEET, [slot(MINE)], of)), Slot).name == "mine"


@pytest.mark.parametrize("outcome", [Outcome.UNFIT, Outcome.INTERRUPTED])
def test_an_unfit_adopted_tpu_is_not_taken_again_at_once(outcome: Outcome) -> None:
    """Why: a device that was busy is busy still; without a pause job and TPU would turn in circles."""
    whole = stopping(outcome, of=MINE, release=True)
    step = attempts.close(whole, sight(whole, report(closed=closed())), "closed", policy=POLICY)
    assert written(step, Job).state in (JobState.PENDING, JobState.WAITING)


def test_quick_failures_do_not_pile_up() -> None:
    """Why: no growing array in any document."""
    whole = stopping(Outcome.FAILED, of=MINE, slot_changes={"quick_failures": ("a",) * 50}, started_at=NOW - 20)
    step = attempts.close(whole, sight(whole, report(closed=closed())), "closed", policy=POLICY)
    assert len(written(step, Slot).quick_failures) <= 50


def test_a_running_attempt_on_it_is_like_any_other() -> None:
    """Why: only its beginning and its end differ."""
    whole = trio(of=MINE, state=AttemptState.ASSIGNED)
    decision = execute.decide(execute.ExecuteSnapshot(trio=whole, sight=sight(whole, report())), policy=POLICY)
    assert kinds(decision) == [(Kind.LAUNCH, "train.1")]
