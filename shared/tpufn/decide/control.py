"""Commands of people. Each names what the person saw and is a no-op when that has changed since."""

from collections.abc import Mapping
from dataclasses import replace

from tpufn.decide import attempts, people
from tpufn.decide.attempts import Trio, job_note
from tpufn.decide.decision import NOTHING, Decision, Step
from tpufn.decide.people import ControlSnapshot, as_seen
from tpufn.decide.ranking import restamped
from tpufn.decide.verdict import LIVE, Verdict, workers
from tpufn.domain.attempt import Outcome, attempt_id
from tpufn.domain.events import Command
from tpufn.domain.job import Job, JobEvent, JobState, Priority
from tpufn.domain.orders import WorkerReport
from tpufn.domain.policy import Policy


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
    if command.args.get("attempt") not in (None, attempt_id(job.id, job.attempt)):
        return None
    if snapshot.trio and snapshot.report and snapshot.report.all_zero and snapshot.trio.attempt.state in LIVE:
        return _done(snapshot.trio, snapshot.report, snapshot, policy)
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


def _done(trio: Trio, report: WorkerReport, snapshot: ControlSnapshot, policy: Policy) -> Step:
    """The zeros were in before the wish came."""
    verdict = Verdict(outcome=Outcome.SUCCEEDED, cause=f"exit 0 from {workers(report.count)}")
    return attempts.conclude(trio, verdict, report, now=snapshot.now, policy=policy)


def _end(trio: Trio, outcome: Outcome, cause: str, snapshot: ControlSnapshot, policy: Policy) -> Step:
    report = snapshot.report or WorkerReport(count=len(trio.attempt.workers))
    verdict = Verdict(outcome=outcome, cause=cause, release=outcome is Outcome.INTERRUPTED)
    return attempts.conclude(trio, verdict, report, now=snapshot.now, policy=policy)


def _interrupt(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    """Give a busy TPU up; the job retries elsewhere or on the slot's next TPU."""
    trio = snapshot.trio
    if trio is None or trio.attempt.state not in LIVE or not as_seen(snapshot.slot, command):
        return None
    if snapshot.report is not None and snapshot.report.all_zero:
        return None
    return _end(trio, Outcome.INTERRUPTED, f"interrupted by {command.by or 'a command'}", snapshot, policy)


def _set_priority(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    job = snapshot.job
    if job is None or job.is_terminal:
        return None
    wanted = str(command.args.get("priority", "")).upper()
    if wanted not in Priority.__members__ or Priority[wanted] is job.priority:
        return None
    priority = Priority[wanted]
    reason = f"priority {job.priority.label} -> {priority.label}"
    job = restamped(replace(job, priority=priority), snapshot.fleet)
    return Step(writes=(job,), notes=(job_note(job, "job.priority", reason),), reason=reason)


def _retry(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    """A new job that continues a failed or cancelled one with the same checkpoints, in the region that has them."""
    job, spec = snapshot.job, snapshot.spec
    if job is None or spec is None or snapshot.successor is not None:
        return None
    if job.state not in (JobState.FAILED, JobState.CANCELLED) or command.args.get("as") is None:
        return None
    id = str(command.args["as"])
    kept = job.accepts if job.region_started else job.unpinned
    fresh_spec = replace(spec, id=id, checkpoints_of=spec.checkpoints_of or job.id, version="")
    fresh = Job(
        id=id,
        name=job.name,
        since=snapshot.now,
        priority=job.priority,
        submitted_at=snapshot.now,
        accepts=kept,
        unpinned=kept,
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


_VERBS: Mapping[str, people.Verb] = {
    "cancel": _cancel,
    "interrupt": _interrupt,
    "set-priority": _set_priority,
    "retry": _retry,
    **people.VERBS,
}
