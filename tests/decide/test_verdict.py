"""The verdict on an attempt, situation by situation."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpufn.decide.execute import ExecuteSnapshot, decide
from tpufn.decide.verdict import first_failure, silent_workers
from tpufn.domain.attempt import RETRIED, Attempt, AttemptState, Outcome
from tpufn.domain.cloud import Health, NodeState, QueuedResourceState
from tpufn.domain.effects import Kind
from tpufn.domain.orders import Closed, Exited, Phase, WorkerReport

from .builders import NOW, POLICY, exited, kinds, quick, report, sight, tpu_of, trio, written, zeros

N, Q = NodeState, QueuedResourceState
BROKEN = Exited(worker=1, code=1, phase=Phase.COMMAND, at=NOW - 5)
ORPHANS = [exited(i, code, at=NOW - 85, signature="sibling-death") for i, code in ((1, 1), (2, 134), (3, 139))]


def judge(
    state: AttemptState,
    seen: WorkerReport,
    *,
    spec: dict[str, Any] | None = None,
    sees: dict[str, Any] | None = None,
    node: NodeState | None = N.READY,
    request: QueuedResourceState | None = Q.ACTIVE,
    health: Health = Health.HEALTHY,
    gone: bool = False,
    **attempt: Any,
) -> str:
    """What one look makes of an attempt: the outcome, or the state it goes to, or "-" for no change."""
    whole = trio(state=state, spec=spec, **attempt)
    assert whole.slot is not None
    tpu = None if gone else tpu_of(whole.slot, node=node, request=request, health=health)
    decision = decide(ExecuteSnapshot(trio=whole, sight=sight(whole, seen, tpu=tpu, **(sees or {}))), policy=POLICY)
    after = written(decision, Attempt)
    if after is None:
        return "-"
    if after.state is AttemptState.STOPPING:
        return str(after.outcome)
    return after.state.value if after.state is not state else "noted"


RUNNING, SETTLING, LAUNCHING = AttemptState.RUNNING, AttemptState.SETTLING, AttemptState.LAUNCHING
DUE, EARLY = {"due_at": NOW}, {"due_at": NOW + 60}
ANSWERS = {"answering": frozenset(range(4))}
SILENT = {**dict.fromkeys(range(4), NOW - 1), 0: NOW - 91}


@dataclass(frozen=True)
class Case:
    """What is expected of one look, and the look."""

    expected: str
    look: dict[str, Any]


def case(expected: str, state: AttemptState, seen: WorkerReport, **more: Any) -> Case:
    return Case(expected, {"state": state, "seen": seen, **more})


def zeros_but(last: Exited) -> WorkerReport:
    return report(*(exited(i, 0) for i in range(3)), last)


def unprepared(*workers: int, at: float = NOW - 5) -> list[Exited]:
    return [exited(i, None, phase=Phase.SETUP, at=at) for i in workers]


SITUATIONS: dict[str, Case] = {
    # Ends of a command that runs
    "all zeros": case("succeeded", RUNNING, zeros()),
    "all zeros although the node is PREEMPTED": case("succeeded", RUNNING, zeros(), node=N.PREEMPTED),
    "all zeros although nothing is found": case("succeeded", RUNNING, zeros(), gone=True),
    "all zeros seen while in doubt": case("succeeded", SETTLING, zeros(), **EARLY),
    "three zeros of four": case("noted", RUNNING, report(*(exited(i, 0) for i in range(3)))),
    "three zeros and one after our TERM": case("noted", RUNNING, zeros_but(exited(3, 0, ours=True))),
    "a zero after the notice is no success": case(
        "preempted", RUNNING, zeros_but(exited(3, 0, ours=True, preempted=True))
    ),
    "one failure": case("settling", RUNNING, report(BROKEN)),
    "one failure, and it is early": case("-", SETTLING, report(BROKEN, beat=NOW - 6), **EARLY),
    "one failure, and the others still beat": case("failed", SETTLING, report(BROKEN, beat=NOW - 1), **EARLY),
    "one failure, and the time is up": case("failed", SETTLING, report(BROKEN, beat=NOW - 6), **DUE),
    "terminated from outside": case("infrastructure", SETTLING, report(exited(1, 143), beat=NOW - 6), **DUE),
    "ran out of memory": case("failed", SETTLING, report(exited(1, 137), beat=NOW - 6), **DUE),
    # What the cloud says
    "PREEMPTED": case("preempted", RUNNING, report(), node=N.PREEMPTED),
    "TERMINATED": case("infrastructure", RUNNING, report(), node=N.TERMINATED),
    "REPAIRING": case("infrastructure", RUNNING, report(), node=N.REPAIRING),
    "UNKNOWN": case("infrastructure", RUNNING, report(), node=N.UNKNOWN),
    "HIDDEN": case("infrastructure", RUNNING, report(), node=N.HIDDEN),
    "SUSPENDED": case("preempted", RUNNING, report(), request=Q.SUSPENDED),
    "SUSPENDING": case("preempted", RUNNING, report(), request=Q.SUSPENDING),
    "not found": case("infrastructure", RUNNING, report(), gone=True),
    "the cloud does not answer": case("-", RUNNING, report(), gone=True, sees={"blind": True}),
    "ill while training goes on": case("-", RUNNING, report(), health=Health.UNHEALTHY_MAINTENANCE),
    "no health while training goes on": case("-", RUNNING, report(), health=Health.UNSPECIFIED),
    "the notice": case("preempted", RUNNING, report(exited(2, None, ours=True, preempted=True))),
    "the notice while the cloud does not answer": case(
        "preempted", RUNNING, report(exited(2, 143, ours=True, preempted=True)), gone=True, sees={"blind": True}
    ),
    "a failure while preempted": case("preempted", SETTLING, report(BROKEN), node=N.PREEMPTED, **EARLY),
    # Silence
    "two heartbeats missed": case("-", RUNNING, report(beat=NOW - 61)),
    "three heartbeats missed": case("settling", RUNNING, report(beat=NOW - 91)),
    "silence beats a healthy node": case("infrastructure", SETTLING, report(heartbeats=SILENT), **DUE),
    "silence, but the time is not up": case("-", SETTLING, report(heartbeats=SILENT), **EARLY),
    "silence, but the probe finds it alive": case(
        "running", SETTLING, report(heartbeats=SILENT), sees={"alive": frozenset({0})}, **EARLY
    ),
    "heard again": case("running", SETTLING, report(), **EARLY),
    "heard again at the last moment": case("running", SETTLING, report(), **DUE),
    "never heard since the start": case("settling", RUNNING, report(beat=None)),
    "just started": case("-", RUNNING, report(beat=None), started_at=NOW - 80),
    # Siblings
    "one vanished, the others died of it": case("-", SETTLING, report(*ORPHANS, heartbeats={0: NOW - 91}), **EARLY),
    "one vanished, and the time is up": case(
        "infrastructure", SETTLING, report(*ORPHANS, heartbeats={0: NOW - 91}), **DUE
    ),
    "one vanished, the others exit 1 without a word": case(
        "infrastructure",
        SETTLING,
        report(*(exited(i, 1, at=NOW - 85) for i in (1, 2, 3)), heartbeats={0: NOW - 91}),
        **DUE,
    ),
    "one vanished, and the cloud says so at last": case(
        "preempted", SETTLING, report(*ORPHANS, heartbeats={0: NOW - 91}), node=N.PREEMPTED, **EARLY
    ),
    "all died of losing another": case(
        "infrastructure", SETTLING, report(*ORPHANS, exited(0, 1, signature="sibling-death")), sees=ANSWERS, **EARLY
    ),
    "one failed by itself, the others died of it": case(
        "failed", SETTLING, report(exited(0, 2, at=NOW - 80), *ORPHANS), sees=ANSWERS, **EARLY
    ),
    "every worker exited, and their hosts answer": case(
        "failed", SETTLING, report(*(exited(i, 1, at=NOW - 30) for i in range(4))), sees=ANSWERS, **EARLY
    ),
    "every worker exited, and one host does not answer": case(
        "-",
        SETTLING,
        report(*(exited(i, 1, at=NOW - 30) for i in range(4))),
        sees={"answering": frozenset({0, 1, 3})},
        **EARLY,
    ),
    # Devices
    "device busy": case("unfit", SETTLING, report(exited(0, 1, signature="device-busy")), **EARLY),
    "device busy before anything ran": case(
        "unfit",
        LAUNCHING,
        report(exited(2, None, phase=Phase.DEVICE, signature="device-busy"), beat=None),
        due_at=NOW + 60,
    ),
    # Set-up
    "set-up failed": case("settling", LAUNCHING, report(*unprepared(1)), due_at=NOW + 60),
    "set-up failed, and the TPU answers": case("failed", SETTLING, report(*unprepared(1)), started_at=0.0, **EARLY),
    "set-up failed while preempted": case(
        "preempted", SETTLING, report(*unprepared(1)), started_at=0.0, node=N.PREEMPTED, **EARLY
    ),
    "set-up failed, then another worker went silent": case(
        "infrastructure", SETTLING, report(*unprepared(1), heartbeats=SILENT), started_at=0.0, **DUE
    ),
    # Launch
    "not prepared in time": case("unfit", LAUNCHING, report(prepared=frozenset({0, 1})), due_at=NOW),
    "three of four prepared": case("-", LAUNCHING, report(prepared=frozenset({0, 1, 2})), due_at=NOW + 1),
    "all prepared": case("running", LAUNCHING, report(prepared=frozenset(range(4))), due_at=NOW + 1),
    "reclaimed before the start": case("preempted", LAUNCHING, report(), node=N.PREEMPTED, due_at=NOW + 1),
    "reclaimed before the launch": case("preempted", AttemptState.ASSIGNED, report(), node=N.PREEMPTED),
    "assigned": case("launching", AttemptState.ASSIGNED, report()),
    "assigned, and the cloud does not answer": case(
        "launching", AttemptState.ASSIGNED, report(), gone=True, sees={"blind": True}
    ),
    "assigned to a TPU that has fallen ill": case(
        "unfit", AttemptState.ASSIGNED, report(), health=Health.UNHEALTHY_MAINTENANCE
    ),
    # Limits of time
    "the first zero is noted": case("noted", RUNNING, report(exited(0, 0))),
    "others have time to finish": case("-", RUNNING, report(exited(0, 0)), first_zero_at=NOW - 599),
    "others took too long to finish": case("timed-out", RUNNING, report(exited(0, 0)), first_zero_at=NOW - 600),
    "a finish_timeout of its own": case(
        "timed-out", RUNNING, report(exited(0, 0)), first_zero_at=NOW - 9, spec={"finish_timeout": 9.0}
    ),
    "the last zero in time's nick": case("succeeded", RUNNING, zeros(), first_zero_at=NOW - 9999),
    "max_runtime": case("timed-out", RUNNING, report(), spec={"max_runtime": 600.0}),
    "before max_runtime": case("-", RUNNING, report(), spec={"max_runtime": 601.0}),
    "zeros after max_runtime": case("succeeded", RUNNING, zeros(), spec={"max_runtime": 1.0}),
    "preempted after max_runtime": case("preempted", RUNNING, report(), node=N.PREEMPTED, spec={"max_runtime": 1.0}),
    # Evidence that comes late, or from another worker
    "all prepared, seen after the budget": case(
        "running",
        LAUNCHING,
        report(prepared=frozenset(range(4))),
        due_at=NOW - 1,
    ),
    "a busy device that is not the first failure": case(
        "unfit",
        SETTLING,
        report(exited(0, 1, at=NOW - 9), exited(2, 1, at=NOW - 8, signature="device-busy")),
        **DUE,
    ),
    "a device check that failed, seen in doubt": case(
        "unfit",
        SETTLING,
        report(exited(0, None, phase=Phase.DEVICE, at=NOW - 9), *unprepared(1)),
        started_at=0.0,
        **DUE,
    ),
    "set-up failed, and the cloud does not answer": case(
        "not failed",
        SETTLING,
        report(*unprepared(1), beat=NOW - 6),
        started_at=0.0,
        gone=True,
        sees={"blind": True},
        **DUE,
    ),
    "set-up failed on a TPU that is ill": case(
        "not failed",
        SETTLING,
        report(*unprepared(1)),
        started_at=0.0,
        health=Health.UNHEALTHY_MAINTENANCE,
        **DUE,
    ),
    "set-up failed on every worker at once": case(
        "-",
        SETTLING,
        report(*unprepared(0, 1, 2, 3, at=NOW - 1), beat=NOW - 2),
        started_at=0.0,
        **EARLY,
    ),
    "every worker exits 1 at once": case(
        "-",
        SETTLING,
        report(*(exited(i, 1, at=NOW - 1) for i in range(4)), beat=NOW - 2),
        **EARLY,
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_situation_has_its_verdict(name: str) -> None:
    """Why: zeros first, then what the cloud and the notice say, then silence, then signatures, the exit code last."""
    expected, found = SITUATIONS[name].expected, judge(**SITUATIONS[name].look)
    assert found == expected or (expected == "not failed" and found != "failed")


@pytest.mark.parametrize(
    ("ends", "blamed"),
    [
        ([exited(0, 0)], None),
        ([exited(0, 1, at=9.0), exited(1, 1, at=8.0)], 1),
        ([exited(0, 1, at=8.0), exited(1, 1, at=8.0)], 0),
        ([exited(0, 1, at=7.0, signature="sibling-death"), exited(1, 1, at=9.0)], 1),
        ([exited(0, 1, at=7.0, ours=True), exited(1, 1, at=9.0)], 1),
        ([exited(0, 0, phase=Phase.SETUP)], 0),
    ],
)
def test_the_first_failure_that_is_no_sibling_is_blamed(ends: list[Exited], blamed: int | None) -> None:
    """Why: a person is shown the last lines of the worker that failed, not of those that died of it."""
    found = first_failure(report(*ends))
    assert (found.worker if found else None) == blamed


reports = st.builds(
    lambda ends, beats, close: WorkerReport(
        count=4,
        exited={e.worker: e for e in ends},
        heartbeats=beats,
        closed={i: Closed(worker=i) for i in close},
        prepared=frozenset(close),
    ),
    st.lists(
        st.builds(
            Exited,
            worker=st.integers(0, 3),
            phase=st.sampled_from(Phase),
            code=st.sampled_from((0, 0, 1, 134, 143, None)),
            ours=st.booleans(),
            preempted=st.booleans(),
            signature=st.sampled_from(("", "device-busy", "sibling-death")),
            at=st.floats(NOW - 200, NOW),
        ),
        max_size=4,
    ),
    st.dictionaries(st.integers(0, 3), st.floats(NOW - 300, NOW)),
    st.sets(st.integers(0, 3)),
)


@quick
@given(
    st.sampled_from([s for s in AttemptState if s is not AttemptState.CLOSED]),
    reports,
    st.sampled_from([None, *NodeState]),
    st.booleans(),
    st.sampled_from([NOW - 1, NOW + 60]),
)
def test_no_evidence_is_ever_misread(
    state: AttemptState, seen: WorkerReport, node: NodeState | None, blind: bool, due: float
) -> None:
    """Why: success needs every zero; the user's failure needs an end of a worker's own; nothing crashes the judge."""
    whole = trio(state=state, due_at=due, outcome=Outcome.FAILED if state is AttemptState.STOPPING else None)
    assert whole.slot is not None
    tpu = None if node is None else tpu_of(whole.slot, node=node)
    decision = decide(ExecuteSnapshot(trio=whole, sight=sight(whole, seen, tpu=tpu, blind=blind)), policy=POLICY)
    after = written(decision, Attempt)
    if after is None or after.outcome is None or state is AttemptState.STOPPING:
        return
    assert after.outcome is not Outcome.SUCCEEDED or seen.all_zero
    assert after.outcome is Outcome.SUCCEEDED or not (seen.all_zero and state in (RUNNING, SETTLING))
    if after.outcome is Outcome.FAILED:
        assert first_failure(seen) is not None
        assert after.failed_worker in seen.exited
        assert not any(e.preempted for e in seen.exited.values())
    if after.outcome in RETRIED:
        assert after.release
    assert kinds(decision) == [(Kind.STOP, "train.1")]


def test_the_words_of_a_verdict() -> None:
    """Why: `why` prints them."""
    whole = trio(state=SETTLING, due_at=NOW)
    seen = report(exited(2, 3, reason="Traceback"), beat=NOW - 6)
    after = written(decide(ExecuteSnapshot(trio=whole, sight=sight(whole, seen)), policy=POLICY), Attempt)
    assert after.cause == "worker 2: the command ended with exit code 3 (Traceback)"
    assert after.evidence[-1] == "exit codes: worker 2: 3"
    assert (after.failed_worker, after.exit_codes) == (2, (None, None, 3, None))


def test_silence_counts_from_the_start_and_never_for_the_ended() -> None:
    """Why: an agent's first heartbeat takes a moment, and a worker that has ended beats no more."""
    whole = trio(started_at=NOW - 91)
    assert silent_workers(sight(whole, report(exited(0, 0), beat=None)), policy=POLICY) == (1, 2, 3)
    assert silent_workers(sight(trio(started_at=NOW - 89), report(beat=None)), policy=POLICY) == ()
