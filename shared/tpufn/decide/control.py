"""Commands of people. Each names what the person saw and is a no-op when that has changed since."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tpufn.decide import attempts
from tpufn.decide.attempts import Trio, job_note
from tpufn.decide.decision import NOTHING, Decision, Step
from tpufn.decide.release import released, slot_note
from tpufn.decide.verdict import LIVE, Verdict
from tpufn.domain.attempt import Outcome
from tpufn.domain.events import Command
from tpufn.domain.fleet import Fleet, accepting_pools
from tpufn.domain.job import Job, JobEvent, JobSpec, JobState, Priority, rank
from tpufn.domain.orders import WorkerReport
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotEvent


@dataclass(frozen=True, kw_only=True)
class ControlSnapshot:
    """What the command's target is now. `trio` is the unclosed attempt of the job, or on the slot."""

    now: float
    fleet: Fleet
    job: Job | None = None
    spec: JobSpec | None = None
    slot: Slot | None = None
    trio: Trio | None = None
    report: WorkerReport | None = None
    successor: Job | None = None  # the job that a retry would make, if it is there already


def decide(snapshot: ControlSnapshot, command: Command, *, policy: Policy) -> Decision:
    """Nothing for an unknown verb or a target that is not there: the client has told the person already."""
    act = _VERBS.get(command.verb)
    step = act(snapshot, command, policy) if act else None
    return Decision(steps=(step,), reason=step.reason) if step else NOTHING


def _cancel(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    job = snapshot.job
    if job is None or not job.allows(JobEvent.CANCEL):
        return None
    if command.args.get("if_pending") and job.state is not JobState.PENDING:
        return None
    by = f"cancelled by {command.by or 'a command'}"
    job = job.on(JobEvent.CANCEL, now=snapshot.now, cause=by, due_at=0.0)
    if job.state is JobState.CANCELLED:
        return Step(writes=(job,), notes=(job_note(job, "job.cancelled", by),), reason=by)
    if snapshot.trio is None:
        job = job.on(JobEvent.STOPPED, now=snapshot.now, cause=by)
        return Step(writes=(job,), notes=(job_note(job, "job.cancelled", by),), reason=by)
    cancelling = Step(writes=(job,), notes=(job_note(job, "job.cancelling", f"{by}; stopping"),), reason=by)
    if snapshot.trio.attempt.state not in LIVE:
        return cancelling
    return cancelling + _end(replace(snapshot.trio, job=job), Outcome.CANCELLED, by, snapshot, policy)


def _end(trio: Trio, outcome: Outcome, cause: str, snapshot: ControlSnapshot, policy: Policy) -> Step:
    report = snapshot.report or WorkerReport(count=len(trio.attempt.workers))
    verdict = Verdict(outcome=outcome, cause=cause, release=outcome is Outcome.INTERRUPTED)
    return attempts.conclude(trio, verdict, report, now=snapshot.now, policy=policy)


def _interrupt(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    """Give a busy TPU up; the job retries elsewhere or on the slot's next TPU."""
    trio = snapshot.trio
    if trio is None or trio.attempt.state not in LIVE or not _as_seen(snapshot, command):
        return None
    if snapshot.report is not None and snapshot.report.all_zero:
        return None
    return _end(trio, Outcome.INTERRUPTED, f"interrupted by {command.by or 'a command'}", snapshot, policy)


def _set_priority(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    job = snapshot.job
    if job is None or job.is_terminal:
        return None
    priority = Priority[str(command.args["priority"]).upper()]
    if priority is job.priority:
        return None
    reason = f"priority {job.priority.label} -> {priority.label}"
    job = restamped(replace(job, priority=priority), snapshot.fleet)
    return Step(writes=(job,), notes=(job_note(job, "job.priority", reason),), reason=reason)


def restamped(job: Job, fleet: Fleet, *, longest: bool = False) -> Job:
    """The job with the rank that it has now. `longest`: it waited so long that it counts as most constrained."""
    width = 0 if longest else len(accepting_pools(fleet, job.accepts))
    return replace(job, rank=rank(job.priority, width, job.submitted_at, job.id))


def _retry(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    """A new job that continues a failed or cancelled one with the same checkpoints, in the region that has them."""
    job, spec = snapshot.job, snapshot.spec
    if job is None or spec is None or snapshot.successor is not None:
        return None
    if job.state not in (JobState.FAILED, JobState.CANCELLED) or command.args.get("as") is None:
        return None
    id = str(command.args["as"])
    fresh_spec = replace(spec, id=id, checkpoints_of=spec.checkpoints_of or job.id, version="")
    fresh = Job(
        id=id,
        name=job.name,
        since=snapshot.now,
        priority=job.priority,
        submitted_at=snapshot.now,
        accepts=job.accepts,
        unpinned=job.accepts if job.region_started else job.unpinned,
        buckets=job.buckets,
        caches=job.caches,
        region=job.region if job.region_started else "",
        region_started=job.region_started,
        queue_deadline_at=snapshot.now + spec.queue_deadline if spec.queue_deadline else 0.0,
        cause=f"retry of {job.id}",
        submission=command.id,
        correlation_id=job.correlation_id,
    )
    fresh = restamped(fresh, snapshot.fleet)
    old = replace(job, retries=job.retries + 1)
    note = job_note(fresh, "job.submitted", f"continues {job.id} with its checkpoints")
    return Step(writes=(fresh, fresh_spec, old), notes=(note,), reason=note.reason)


def _hold(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    slot = snapshot.slot
    if slot is None or slot.hold or not _as_seen(snapshot, command):
        return None
    slot = replace(slot, hold=command.by or "somebody")
    note = slot_note(slot, "slot.held", f"held by {slot.hold}")
    return Step(writes=(slot,), notes=(note,), reason=note.reason)


def _release(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    slot = snapshot.slot
    if slot is None or not slot.hold:
        return None
    note = slot_note(slot, "slot.released", f"{slot.hold} gave it back to the jobs")
    idle_since = snapshot.now if slot.idle_since else 0.0
    return Step(writes=(replace(slot, hold="", idle_since=idle_since),), notes=(note,), reason=note.reason)


def _delete(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    slot = snapshot.slot
    if slot is None or not slot.allows(SlotEvent.RELEASE) or slot.lease is not None or not _as_seen(snapshot, command):
        return None
    return released(slot, f"deleted by {command.by or 'a command'}", now=snapshot.now)


def _as_seen(snapshot: ControlSnapshot, command: Command) -> bool:
    """Whether the slot still holds the generation and the attempt that the person saw, where the command names them."""
    slot, seen = snapshot.slot, command.args
    if slot is None:
        return False
    same_generation = seen.get("generation") in (None, slot.generation)
    attempt = slot.lease.attempt if slot.lease else ""
    return same_generation and seen.get("attempt") in (None, attempt)


_Verb = Callable[[ControlSnapshot, Command, Policy], Step | None]
_VERBS: Mapping[str, _Verb] = {
    "cancel": _cancel,
    "interrupt": _interrupt,
    "set-priority": _set_priority,
    "retry": _retry,
    "hold": _hold,
    "release": _release,
    "delete": _delete,
}
