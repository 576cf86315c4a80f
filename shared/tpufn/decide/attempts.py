"""The steps of an attempt's life, each one commit over job, slot and attempt together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tpufn.decide.assign import assigned_note, leased, unpinned
from tpufn.decide.decision import Step
from tpufn.decide.ranking import restamped
from tpufn.decide.release import released, slot_note
from tpufn.decide.retry import Again, Enough, after
from tpufn.decide.verdict import Doubt, Sight, Verdict, first_failure, workers
from tpufn.domain.attempt import RETRIED, Attempt, AttemptEvent, Outcome
from tpufn.domain.effects import Effect, Kind, attempt_entity, job_entity
from tpufn.domain.fleet import Fleet, Pool
from tpufn.domain.job import Job, JobEvent, JobSpec, JobState
from tpufn.domain.notes import Note
from tpufn.domain.orders import WorkerReport
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotEvent, SlotState

_QUARANTINE = 2
_NOT_RUN = (126, 127)
"""What a shell answers for a command that it cannot run, or not find."""
"""Quick failures on one TPU that condemn it."""
_TAIL = 2000
"""Characters of a failed worker's last output that its attempt's document keeps."""


@dataclass(frozen=True, kw_only=True)
class Trio:
    """An attempt with its job and its slot. `slot` is None when the slot holds another generation or is gone."""

    job: Job
    spec: JobSpec
    attempt: Attempt
    slot: Slot | None
    pool: Pool | None
    fleet: Fleet | None = None


def launch(trio: Trio, *, now: float, policy: Policy) -> Step:
    attempt = trio.attempt.on(AttemptEvent.LAUNCH, now=now, due_at=now + policy.launch_budget, due="launch")
    effect = Effect(kind=Kind.LAUNCH, entity=attempt_entity(attempt.id), generation=attempt.lease.generation)
    count, hosts = len(attempt.workers), trio.pool.accelerator.hosts if trio.pool else 0
    capped = f", which stand for the {hosts} of a real {trio.pool.type}" if trio.pool and count < hosts else ""
    reason = f"on {'the worker' if count == 1 else f'{count} workers'} of {attempt.slot}{capped}"
    note = attempt_note(attempt, "attempt.launching", reason, workers=count)
    return Step(writes=(attempt,), effects=(effect,), notes=(note,), reason=note.reason)


def go(trio: Trio, *, now: float) -> Step:
    """Every worker is prepared: the command may start. From here on the region is the job's for good."""
    attempt = trio.attempt.on(AttemptEvent.GO, now=now, started_at=now, due_at=0.0, due="", accepted=True)
    effect = Effect(kind=Kind.GO, entity=attempt_entity(attempt.id), generation=attempt.lease.generation)
    job = replace(trio.job, region_started=True, unfit=0)
    count = len(attempt.workers)
    prepared = f"{workers(count)} {'is' if count == 1 else 'are'} prepared"
    note = attempt_note(attempt, "attempt.running", prepared, tpu=attempt.tpu)
    return Step(writes=(job, attempt), effects=(effect,), notes=(note,), reason=note.reason)


def doubt(trio: Trio, doubt: Doubt, *, now: float) -> Step:
    attempt = trio.attempt.on(AttemptEvent.DOUBT, now=now, due_at=doubt.until, due="settle", cause=doubt.cause)
    reason = f"{doubt.cause}; waiting up to {doubt.until - now:.0f} s for evidence"
    note = attempt_note(attempt, "attempt.settling", reason)
    return Step(writes=(attempt,), notes=(note,), reason=reason)


def revive(trio: Trio, *, now: float) -> Step:
    attempt = trio.attempt.on(AttemptEvent.REVIVE, now=now, due_at=0.0, due="", cause="")
    note = attempt_note(attempt, "attempt.revived", "every worker is heard again")
    return Step(writes=(attempt,), notes=(note,), reason=note.reason)


def conclude(trio: Trio, verdict: Verdict, report: WorkerReport, *, now: float, policy: Policy) -> Step:
    """The verdict: the outcome is recorded, the workers are told to stop, the TPU waits for the proof.

    Success ends the job here. Every other end waits for the stop proof, because zeros may still come to light.
    """
    attempt = trio.attempt.on(
        AttemptEvent.DECIDE,
        now=now,
        outcome=verdict.outcome,
        cause=verdict.cause,
        evidence=verdict.evidence,
        release=trio.attempt.release or verdict.release,
        failed_worker=verdict.failed_worker,
        tail=_tail(report, verdict.failed_worker),
        exit_codes=codes(report),
        ended_at=now,
        due_at=now + policy.stop_budget,
        due="stop",
    )
    job, notes = _job_at_verdict(trio.job, attempt, now=now)
    slot = trio.slot
    settled = slot is not None and slot.state is SlotState.BUSY
    writes = (attempt, *((job,) if job is not trio.job else ()))
    if slot is not None and settled:
        writes += (slot.on(SlotEvent.SETTLED, now=now, cause=f"after {attempt.id}: {verdict.outcome}"),)
    note = attempt_note(
        attempt, "attempt.stopping", verdict.cause, outcome=verdict.outcome.value, worker=verdict.failed_worker
    )
    reason = f"{verdict.outcome}: {verdict.cause}"
    return Step(writes=writes, effects=(_stop(attempt),), notes=(note, *notes), reason=reason)


def stop_again(trio: Trio, *, now: float, policy: Policy) -> Step:
    """The workers of somebody else's TPU are told once more: it is not ours to delete, and its owner may have made it
    anew under the same name, where nobody knows of the attempt."""
    attempt = replace(trio.attempt, due_at=now + policy.stop_budget)
    return Step(writes=(attempt,), effects=(_stop(attempt),), reason=f"no stop proof from {attempt.id} yet")


def _stop(attempt: Attempt) -> Effect:
    return Effect(
        kind=Kind.STOP,
        entity=attempt_entity(attempt.id),
        generation=attempt.lease.generation,
        reason=str(attempt.outcome),
    )


def _tail(report: WorkerReport, worker: int | None) -> str:
    return report.exited[worker].tail[-_TAIL:] if worker is not None and worker in report.exited else ""


def _job_at_verdict(job: Job, attempt: Attempt, *, now: float) -> tuple[Job, tuple[Note, ...]]:
    assert attempt.outcome is not None
    if job.state is not JobState.ACTIVE:
        return job, ()
    if attempt.outcome is Outcome.SUCCEEDED:
        job = job.on(JobEvent.SUCCEED, now=now, cause=attempt.cause)
        return job, (job_note(job, "job.succeeded", attempt.cause),)
    if attempt.outcome in RETRIED:
        job = job.on(JobEvent.DETACH, now=now, cause=f"{attempt.outcome}: waiting for proof that {attempt.id} stopped")
        return job, (job_note(job, "job.waiting", job.cause),)
    return job, ()


def close(trio: Trio, sight: Sight, proof: str, *, policy: Policy) -> Step:
    """The stop proof is in: end the lease, decide what follows, give the TPU to the next or away."""
    now, report = sight.now, sight.report
    attempt = _amended(trio.attempt, report).on(
        AttemptEvent.CLOSE, now=now, exit_codes=codes(report), due_at=0.0, due="", ended_at=_death(trio.attempt, report)
    )
    note = attempt_note(attempt, "attempt.closed", proof, outcome=str(attempt.outcome))
    step = Step(writes=(attempt,), notes=(note,), closes=(attempt_entity(attempt.id),), reason=proof)
    job, job_notes = _job_at_close(trio, attempt, now=now, policy=policy)
    slot_step = _slot_at_close(trio, attempt, sight, policy=policy)
    again = _lease_again(trio, job, slot_step, now=now)
    if again is not None:
        return step + again
    writes = (job,) if job is not trio.job else ()
    return step + Step(writes=writes, notes=job_notes) + slot_step


def _amended(attempt: Attempt, report: WorkerReport) -> Attempt:
    """All zeros before any TERM of ours that came to light after the verdict: it was a success."""
    if report.all_zero and attempt.outcome not in (Outcome.CANCELLED, Outcome.SUCCEEDED):
        cause = f"exit 0 from every worker, seen after the verdict {attempt.outcome}"
        return replace(attempt, outcome=Outcome.SUCCEEDED, cause=cause)
    return attempt


def _job_at_close(trio: Trio, attempt: Attempt, *, now: float, policy: Policy) -> tuple[Job, tuple[Note, ...]]:
    job = replace(trio.job, slot="") if not trio.job.is_terminal else trio.job
    if job.is_terminal:
        return trio.job, ()
    if job.state is JobState.CANCELLING:
        job = job.on(JobEvent.STOPPED, now=now, cause="cancelled; nothing of it runs any more")
        return job, (job_note(job, "job.cancelled", job.cause),)
    if attempt.outcome is Outcome.SUCCEEDED:
        job = job.on(JobEvent.SUCCEED, now=now, cause=attempt.cause)
        return job, (job_note(job, "job.succeeded", attempt.cause),)
    match after(job, trio.spec, attempt, policy=policy):
        case Enough(job=job, cause=cause):
            job = unpinned(job).on(JobEvent.FAIL, now=now, cause=cause)
            return job, (job_note(job, "job.failed", cause, attempt=attempt.id, worker=attempt.failed_worker),)
        case Again(job=job, pause=pause):
            return _again(unpinned(job), attempt, pause, trio.fleet, now=now)


def _again(
    job: Job, attempt: Attempt, pause: float, fleet: Fleet | None, *, now: float
) -> tuple[Job, tuple[Note, ...]]:
    if job.state is JobState.ACTIVE:
        job = job.on(JobEvent.DETACH, now=now)
    if pause:
        job = replace(job, due_at=now + pause, cause=f"{attempt.outcome}: next try in {pause:.0f} s")
        return job, (job_note(job, "job.waiting", job.cause, pause=pause),)
    where = f", in {job.region}" if job.region else ""
    job = job.on(JobEvent.REQUEUE, now=now, cause=f"retry after attempt {attempt.number}: {attempt.outcome}{where}")
    job = restamped(job, fleet) if fleet else job
    return job, (job_note(job, "job.pending", job.cause, region=job.region),)


def _death(attempt: Attempt, report: WorkerReport) -> float:
    """When it ended by itself: a verdict may come long after. The verdict's time where nothing failed."""
    failed = first_failure(report)
    return min(attempt.ended_at, failed.at) if failed is not None and failed.at else attempt.ended_at


def _slot_at_close(trio: Trio, attempt: Attempt, sight: Sight, *, policy: Policy) -> Step:
    slot, now, report = trio.slot, sight.now, sight.report
    if slot is None:
        return Step()
    slot = replace(slot, lease=None, quick_failures=_quick(slot, attempt, trio.spec, policy))
    if slot.state is not SlotState.CLEANING:
        return Step(writes=(slot,))
    reason = _unclean(slot, attempt, sight)
    if reason:
        return released(slot, reason, now=now)
    caches = tuple(sorted({key for c in report.closed.values() for key in c.caches}))
    slot = slot.on(SlotEvent.VACATE, now=now, idle_since=now, caches=caches, cause=f"after {attempt.id}")
    return Step(writes=(slot,), notes=(slot_note(slot, "slot.idle", slot.cause),))


def _unclean(slot: Slot, attempt: Attempt, sight: Sight) -> str:
    """Why this TPU must not be used again; "" when it may."""
    report = sight.report
    if attempt.release:
        return attempt.cause
    if not sight.blind and (sight.tpu is None or sight.tpu.is_dead):
        return "the cloud has taken it back"
    if not report.all_closed:
        return "not every worker proved that it is clean"
    if not all(c.clean for c in report.closed.values()):
        dirty = [str(i) for i, c in sorted(report.closed.items()) if not c.clean]
        return f"processes or device holders were left on workers {', '.join(dirty)}"
    if len(slot.quick_failures) >= _QUARANTINE:
        return f"quarantine: quick failures by {', '.join(slot.quick_failures)}"
    return ""


def _quick(slot: Slot, attempt: Attempt, spec: JobSpec, policy: Policy) -> tuple[str, ...]:
    """The slot's quick failures with this attempt counted in; a success clears them. A code that says by itself that
    the program is to blame says nothing about the machine."""
    if attempt.outcome is Outcome.SUCCEEDED:
        return ()
    failed = attempt.outcome in (Outcome.FAILED, Outcome.INFRASTRUCTURE) and attempt.started_at
    codes = {attempt.exit_codes[attempt.failed_worker]} if attempt.failed_worker is not None else set()
    own = codes & {*_NOT_RUN, *spec.retries.application_exit_codes}
    if failed and not own and attempt.ended_at - attempt.started_at < policy.quick_failure:
        return (*slot.quick_failures, attempt.job)
    return slot.quick_failures


def _lease_again(trio: Trio, job: Job, slot_step: Step, *, now: float) -> Step | None:
    """A retry keeps its clean TPU: leased again in the commit that ends the old attempt."""
    slot = next((w for w in slot_step.writes if isinstance(w, Slot)), None)
    if slot is None or slot.state is not SlotState.IDLE or job.state is not JobState.PENDING or trio.pool is None:
        return None
    if slot.hold:
        return None
    job, slot, attempt = leased(job, slot, trio.pool, now=now)
    return Step(writes=(job, slot, attempt), notes=(assigned_note(attempt, trio.pool, again=True),))


def codes(report: WorkerReport) -> tuple[int | None, ...]:
    return tuple(report.exited[i].code if i in report.exited else None for i in range(report.count))


def attempt_note(attempt: Attempt, event: str, reason: str, **data: str | int | float | bool | None) -> Note:
    shared: Mapping[str, str | int] = {"number": attempt.number, "region": attempt.region}
    return Note(
        event=event,
        subject=attempt_entity(attempt.id),
        job=attempt.job,
        attempt=attempt.id,
        slot=attempt.slot,
        correlation_id=attempt.correlation_id,
        reason=reason,
        data={**shared, **data},
    )


def job_note(job: Job, event: str, reason: str, *, attempt: str = "", **data: str | int | float | bool | None) -> Note:
    return Note(
        event=event,
        subject=job_entity(job.id),
        job=job.id,
        attempt=attempt,
        slot=job.slot,
        correlation_id=job.correlation_id,
        reason=reason,
        data=data,
    )
