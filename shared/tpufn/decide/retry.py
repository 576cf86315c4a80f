"""What follows an attempt: another one after a pause, or the job's end. Each kind of failure has its own budget."""

from dataclasses import dataclass, replace

from tpufn.domain.attempt import Attempt, Outcome
from tpufn.domain.job import Job, JobSpec
from tpufn.domain.policy import Policy


@dataclass(frozen=True, kw_only=True)
class Again:
    """Another attempt after `pause` seconds; `job` has the failure counted."""

    job: Job
    pause: float


@dataclass(frozen=True, kw_only=True)
class Enough:
    """No other attempt: the job fails, because of `cause`."""

    job: Job
    cause: str


def after(job: Job, spec: JobSpec, attempt: Attempt, *, policy: Policy) -> Again | Enough:
    """The consequence of an attempt that did not succeed and was not cancelled."""
    match attempt.outcome:
        case Outcome.PREEMPTED:
            return _preempted(job, spec, attempt)
        case Outcome.INFRASTRUCTURE:
            return _infrastructure(job, spec, attempt, policy)
        case Outcome.UNFIT:  # counted against nobody; from the third in a row it is tried more slowly
            return Again(job=replace(job, unfit=job.unfit + 1), pause=backoff(job.unfit, policy))
        case Outcome.INTERRUPTED:
            return Again(job=job, pause=0.0)
        case Outcome.FAILED:
            return _application(job, spec, attempt, policy)
        case _:
            return Enough(job=job, cause=attempt.cause)


def _preempted(job: Job, spec: JobSpec, attempt: Attempt) -> Again | Enough:
    job = replace(job, preemptions=job.preemptions + 1)
    limit = spec.retries.preemption
    if limit is not None and job.preemptions > limit:
        return Enough(job=job, cause=f"preempted {job.preemptions} times, retries.preemption allows {limit}")
    return Again(job=job, pause=0.0)


def _infrastructure(job: Job, spec: JobSpec, attempt: Attempt, policy: Policy) -> Again | Enough:
    quick = bool(attempt.started_at) and attempt.ended_at - attempt.started_at < policy.quick_failure
    job = replace(
        job,
        infrastructure_failures=job.infrastructure_failures + 1,
        quick_failures=job.quick_failures + 1 if quick else 0,
    )
    limit, count = spec.retries.infrastructure, job.infrastructure_failures
    if limit is not None and count > limit:
        return Enough(job=job, cause=f"{count} infrastructure failures, retries.infrastructure allows {limit}")
    if job.quick_failures >= policy.crash_loop:
        return Enough(job=job, cause=f"{job.quick_failures} quick failures in a row: {attempt.cause}")
    return Again(job=job, pause=backoff(count, policy))


def _application(job: Job, spec: JobSpec, attempt: Attempt, policy: Policy) -> Again | Enough:
    job = replace(job, application_failures=job.application_failures + 1)
    wanted = spec.retries.application_exit_codes
    code = attempt.exit_codes[attempt.failed_worker] if attempt.failed_worker is not None else None
    if job.application_failures > spec.retries.application or (wanted and code not in wanted):
        return Enough(job=job, cause=attempt.cause)
    return Again(job=job, pause=backoff(job.application_failures, policy))


def backoff(failures: int, policy: Policy) -> float:
    """Seconds before the next try: none after the first failure, then doubling."""
    if failures <= 1:
        return 0.0
    return float(min(policy.retry_backoff * 2 ** min(failures - 2, 16), policy.retry_backoff_max))
