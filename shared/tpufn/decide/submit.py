"""A submission becomes jobs, all or nothing; an invalid one becomes a rejected job with the reason."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tpufn.decide.attempts import job_note
from tpufn.decide.decision import NOTHING, Decision, Document, Step
from tpufn.domain.events import Submission
from tpufn.domain.fleet import Fleet, accepting_pools, job_keys
from tpufn.domain.job import Job, JobSpec, JobState, rank
from tpufn.domain.notes import Note


@dataclass(frozen=True, kw_only=True)
class SubmitSnapshot:
    """`specs` or `problems`; `digest` is of the body; `existing` are the jobs that have one of the ids already."""

    now: float
    fleet: Fleet
    digest: str
    specs: Sequence[JobSpec] = ()
    problems: Sequence[str] = ()
    existing: Sequence[Job] = ()


def decide(snapshot: SubmitSnapshot, event: Submission) -> Decision:
    """The same submission again is nothing; another body under the same id is refused."""
    if snapshot.problems:
        return _rejected(snapshot, event, snapshot.problems)
    if snapshot.existing:
        return _again(snapshot, event)
    writes: list[Document] = []
    notes: list[Note] = []
    for spec in snapshot.specs:
        job = admitted(spec, snapshot, event)
        writes += [job, spec]
        notes += _admission_notes(job, snapshot.fleet)
    step = Step(writes=tuple(writes), notes=tuple(notes), reason=f"{len(snapshot.specs)} jobs accepted")
    return Decision(steps=(step,), reason=step.reason)


def admitted(spec: JobSpec, snapshot: SubmitSnapshot, event: Submission) -> Job:
    """The scheduling half of a specification, with its rank stamped."""
    regions = tuple(spec.buckets)
    accepts = job_keys(spec.tpu, regions, zone=spec.zone, slot=spec.tpu_name, model=spec.provisioning_model)
    pools = accepting_pools(snapshot.fleet, accepts)
    return Job(
        id=spec.id,
        name=spec.name,
        since=snapshot.now,
        priority=spec.priority,
        submitted_at=snapshot.now,
        rank=rank(spec.priority, len(pools), snapshot.now, spec.id),
        accepts=accepts,
        unpinned=accepts,
        buckets=spec.buckets,
        caches=tuple(c.key for c in spec.caches),
        queue_deadline_at=snapshot.now + spec.queue_deadline if spec.queue_deadline else 0.0,
        cause="waiting for a TPU",
        unschedulable="" if pools else _impossible(spec),
        submission=event.id,
        digest=snapshot.digest,
        correlation_id=event.correlation_id,
    )


def _admission_notes(job: Job, fleet: Fleet) -> list[Note]:
    pools = accepting_pools(fleet, job.accepts)
    names = ", ".join(p.id for p in pools)
    submitted = job_note(job, "job.submitted", f"priority {job.priority.label}; can run in {names or 'no pool'}")
    if not job.unschedulable:
        return [submitted]
    return [submitted, job_note(job, "job.unschedulable", job.unschedulable)]


def _impossible(spec: JobSpec) -> str:
    where = spec.tpu_name or spec.zone or ", ".join(spec.buckets) or "any region"
    return f"no pool of the fleet offers {' or '.join(spec.tpu)} in {where}"


def _again(snapshot: SubmitSnapshot, event: Submission) -> Decision:
    others = [j.id for j in snapshot.existing if not is_of(j, event.id, snapshot.digest)]
    return _rejected(snapshot, event, [taken(others)]) if others else NOTHING


def _rejected(snapshot: SubmitSnapshot, event: Submission, problems: Sequence[str]) -> Decision:
    """Recorded under an id of its own, so that it never covers a real job, nor another refusal."""
    id = rejected_id(event.id, snapshot.digest)
    if any(j.id == id for j in snapshot.existing):
        return NOTHING
    cause = "\n".join(problems)[:4000]
    job = Job(
        id=id,
        state=JobState.REJECTED,
        since=snapshot.now,
        submitted_at=snapshot.now,
        rank=id,
        cause=cause,
        submission=event.id,
        digest=snapshot.digest,
        correlation_id=event.correlation_id,
    )
    return Decision(steps=(Step(writes=(job,), notes=(job_note(job, "job.rejected", cause),), reason=cause),))


def taken(ids: Iterable[str]) -> str:
    """Why a submission is refused whose ids belong to other jobs."""
    return f"job id {', '.join(ids)} is {TAKEN}; choose another id"


TAKEN = "taken by another job"


def is_of(job: Job, submission: str, digest: str) -> bool:
    """Whether the job came from this very submission: the same id with another content is another one."""
    return (job.submission, job.digest) == (submission, digest)


def rejected_id(submission: str, digest: str) -> str:
    """Short enough for a table: the same for the same submission and content."""
    return f"rejected-{hashlib.sha256(f'{submission}/{digest}'.encode()).hexdigest()[:10]}"
