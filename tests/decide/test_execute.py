"""The steps of an attempt: launch, doubt, stop, and the proof that it has stopped."""

from dataclasses import replace
from typing import Any

import pytest

from tpufn.decide.execute import ExecuteSnapshot, decide
from tpufn.decide.verdict import Sight, stopped
from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.cloud import NodeState
from tpufn.domain.effects import Kind
from tpufn.domain.orders import Closed

from .builders import NOW, POLICY, closed, exited, kinds, report, sight, tpu_of, trio, written, zeros

N = NodeState
BROKEN = exited(1, 1)


def test_a_launch_is_an_effect_and_a_budget() -> None:
    """Why: waiting is a state with a time."""
    whole = trio(state=AttemptState.ASSIGNED)
    decision = decide(ExecuteSnapshot(trio=whole, sight=sight(whole, report())), policy=POLICY)
    assert kinds(decision) == [(Kind.LAUNCH, "train.1")]
    assert written(decision, Attempt).due_at == NOW + POLICY.launch_budget


def test_doubt_has_ninety_seconds() -> None:
    """Why: the cloud may say READY for a minute after a TPU was reclaimed."""
    whole = trio()
    decision = decide(ExecuteSnapshot(trio=whole, sight=sight(whole, report(BROKEN))), policy=POLICY)
    after = written(decision, Attempt)
    assert (after.due_at, after.due) == (NOW + 90, "settle")
    assert decision.reason == "worker 1: the command ended with exit code 1; waiting up to 90 s for evidence"


def test_a_closed_attempt_is_left_alone() -> None:
    """Why: late events are hints about nothing."""
    whole = trio(state=AttemptState.CLOSED)
    assert decide(ExecuteSnapshot(trio=whole, sight=sight(whole, zeros())), policy=POLICY).steps == ()


@pytest.mark.parametrize(
    ("changes", "proof"),
    [
        ({"report": report(closed=closed())}, True),
        ({"report": report(closed=closed(3))}, False),
        ({"report": report(closed=closed(3)), "tpu": None}, True),
        ({"report": report(), "tpu": None, "blind": True}, False),
        ({"report": report(closed=closed()), "tpu": None, "blind": True}, True),
        *(({"report": report(), "node": node}, node in ("PREEMPTED", "TERMINATED", "STOPPED")) for node in NodeState),
    ],
)
def test_the_stop_proof(changes: dict[str, Any], proof: bool) -> None:
    """Why: only every agent's `closed`, or a node on which nothing can run, lets the job run again."""
    whole = trio(state=AttemptState.STOPPING)
    assert whole.slot is not None
    changes = dict(changes)
    node = changes.pop("node", N.READY)
    seen = Sight(**{"now": NOW, "attempt": whole.attempt, "tpu": tpu_of(whole.slot, node=node), **changes})
    assert stopped(seen) is proof


def test_an_unclean_close_is_no_proof() -> None:
    """Why: a cancel is verified, and a kill is over when no holder is left on any worker."""
    whole = trio(state=AttemptState.STOPPING)
    left = {**closed(), 2: Closed(worker=2, clean=False)}
    assert not stopped(sight(whole, report(closed=left)))


def test_a_stop_without_proof_costs_the_tpu() -> None:
    """Why: a silent node in any other state is deleted, and the attempt waits for that."""
    whole = trio(state=AttemptState.STOPPING, due_at=NOW, outcome=Outcome.FAILED)
    decision = decide(ExecuteSnapshot(trio=whole, sight=sight(whole, report())), policy=POLICY)
    assert kinds(decision) == [(Kind.DELETE, whole.attempt.slot)]
    assert written(decision, Attempt) is None
    early = replace(whole, attempt=replace(whole.attempt, due_at=NOW + 1))
    assert decide(ExecuteSnapshot(trio=early, sight=sight(early, report())), policy=POLICY).steps == ()
