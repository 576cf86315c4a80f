"""`execute`, `preemption` and `control`: the functions that move an attempt along."""

from dataclasses import replace

from tpufn.decide import control, execute, people, preemption
from tpufn.decide.attempts import Trio
from tpufn.decide.decision import Decision
from tpufn.decide.verdict import Sight, first_failure, silent_workers
from tpufn.domain.attempt import Attempt, AttemptState, attempt_id
from tpufn.domain.cloud import Tpu
from tpufn.domain.effects import Kind, attempt_entity
from tpufn.domain.errors import Refused, Unknown
from tpufn.domain.events import Command, Event, PreemptionNotice, Wake, WorkerEvent, Written
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot
from tpufn.flows.report import read_report
from tpufn.ports import Cut, Ports
from tpufn.runner import Function

_PROBED = frozenset({AttemptState.RUNNING, AttemptState.SETTLING})


def load_execute(ports: Ports, event: Event, policy: Policy) -> execute.ExecuteSnapshot | None:
    id = _attempt_of(event)
    with ports.store.cut() as cut:
        trio, now = read_trio(cut, id), cut.now
    if trio is None or trio.attempt.state is AttemptState.CLOSED:
        return None
    return execute.ExecuteSnapshot(trio=trio, sight=look(ports, trio, now=now, policy=policy))


def load_preemption(ports: Ports, event: Event, policy: Policy) -> preemption.PreemptionSnapshot | None:
    assert isinstance(event, PreemptionNotice)
    with ports.store.cut() as cut:
        slot, now = cut.slot(event.slot), cut.now
        trio = read_trio(cut, slot.lease.attempt) if slot and slot.lease else None
    if slot is None or slot.generation != event.generation:
        return None
    sight = look(ports, trio, now=now, policy=policy) if trio else None
    return preemption.PreemptionSnapshot(now=now, slot=slot, trio=trio, sight=sight)


def load_control(ports: Ports, event: Event, policy: Policy) -> people.ControlSnapshot | None:
    assert isinstance(event, Command)
    with ports.store.cut() as cut:
        fleet = cut.fleet()
        if fleet is None:
            return None
        snapshot = _control(cut, event, people.ControlSnapshot(now=cut.now, fleet=fleet))
    report = read_report(ports.blobs, snapshot.trio.attempt) if snapshot.trio else None
    return replace(snapshot, report=report)


def _control(cut: Cut, command: Command, blank: people.ControlSnapshot) -> people.ControlSnapshot:
    job, slot = cut.job(command.target), cut.slot(command.target)
    live = ""
    if job is not None and job.attempt:
        live = attempt_id(job.id, job.attempt)
    elif slot is not None and slot.lease is not None:
        live = slot.lease.attempt
    trio = read_trio(cut, live)
    if trio is not None and trio.attempt.state is AttemptState.CLOSED:
        trio = None
    successor = cut.job(str(command.args.get("as", ""))) if job is not None else None
    spec = cut.spec(job.id) if job is not None else None
    snapshot = replace(blank, job=job, spec=spec, slot=slot, trio=trio, successor=successor)
    if command.verb not in people.CAPACITY:
        return snapshot
    return replace(snapshot, slots=cut.slots(), scopes={s.id: s for s in cut.scopes()})


def read_trio(cut: Cut, id: str) -> Trio | None:
    """An attempt with its job, specification and slot. None where any but the slot is missing."""
    attempt = cut.attempt(id) if id else None
    job = cut.job(attempt.job) if attempt else None
    spec = cut.spec(attempt.job) if attempt else None
    if attempt is None or job is None or spec is None:
        return None
    slot, fleet = cut.slot(attempt.slot), cut.fleet()
    pool = fleet.pool(attempt.pool) if fleet else None
    return Trio(job=job, spec=spec, attempt=attempt, slot=_leased(slot, attempt), pool=pool, fleet=fleet)


def _leased(slot: Slot | None, attempt: Attempt) -> Slot | None:
    return slot if slot is not None and slot.lease == attempt.lease else None


def look(ports: Ports, trio: Trio, *, now: float, policy: Policy) -> Sight:
    """What cloud and bucket say of an attempt. A cloud that does not answer makes the sight blind, not the TPU lost.

    The cloud first: what a TPU wrote before it was gone is in the bucket by then. Silent hosts are asked before doubt
    as well as in it: one that lost only its heartbeat would go from doubt to life and back without end.
    """
    attempt = trio.attempt
    tpu, blind = _ask(ports, attempt)
    report = read_report(ports.blobs, attempt)
    sight = Sight(now=now, attempt=attempt, report=report, tpu=tpu, blind=blind)
    return _probed(ports, sight, policy) if attempt.state in _PROBED else sight


def _probed(ports: Ports, sight: Sight, policy: Policy) -> Sight:
    """The hosts are asked themselves: the silent ones at once, all of them a while after a failure."""
    if sight.tpu is None or not sight.tpu.is_ready:
        return sight
    failed = first_failure(sight.report)
    if failed is not None and sight.now >= failed.at + policy.probe_after:
        return replace(sight, answering=ports.workers.usable(sight.tpu) - _dead(ports, sight))
    if silent_workers(sight, policy=policy):
        answers = ports.workers.alive(sight.tpu, sight.attempt.id)
        return replace(sight, alive=frozenset(i for i, alive in answers.items() if alive))
    return sight


def _dead(ports: Ports, sight: Sight) -> frozenset[int]:
    """Workers whose host answers and knows nothing alive of the attempt, though they never told an end: they were lost,
    and the failure of another one may be the consequence."""
    assert sight.tpu is not None
    answers = ports.workers.alive(sight.tpu, sight.attempt.id)
    return frozenset(i for i, alive in answers.items() if not alive and i not in sight.report.exited)


def _ask(ports: Ports, attempt: Attempt) -> tuple[Tpu | None, bool]:
    try:
        return ports.cloud.get(attempt.tpu, attempt.zone), False
    except (Refused, Unknown):
        return None, True


def _attempt_of(event: Event) -> str:
    match event:
        case WorkerEvent(attempt=id) | Written(kind="attempt", id=id):
            return id
        case Wake(entity=entity):
            return entity.removeprefix("attempt:")
        case _:
            return ""


def _entity(event: Event) -> str:
    id = _attempt_of(event)
    return attempt_entity(id) if id else ""


def _decide_execute(snapshot: execute.ExecuteSnapshot, event: Event, policy: Policy) -> Decision:
    return execute.decide(snapshot, policy=policy)


def _decide_preemption(snapshot: preemption.PreemptionSnapshot, event: Event, policy: Policy) -> Decision:
    assert isinstance(event, PreemptionNotice)
    return preemption.decide(snapshot, event, policy=policy)


def _decide_control(snapshot: people.ControlSnapshot, event: Event, policy: Policy) -> Decision:
    assert isinstance(event, Command)
    return control.decide(snapshot, event, policy=policy)


def _nothing(event: Event) -> str:
    return ""


EXECUTE = Function(
    name="execute",
    load=load_execute,
    decide=_decide_execute,
    entity=_entity,
    owns=frozenset({Kind.LAUNCH, Kind.GO, Kind.STOP}),
)
PREEMPTION = Function(name="preemption", load=load_preemption, decide=_decide_preemption, entity=_nothing)
CONTROL = Function(name="control", load=load_control, decide=_decide_control, entity=_nothing)
