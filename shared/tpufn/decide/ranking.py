"""The rank of a job that becomes pending."""

from dataclasses import replace

from tpufn.domain.fleet import Fleet, accepting_pools
from tpufn.domain.job import Job, rank


def restamped(job: Job, fleet: Fleet, *, longest: bool = False) -> Job:
    """The job with the rank that it has now. `longest`: it waited so long that it counts as most constrained."""
    width = 0 if longest else len(accepting_pools(fleet, job.accepts))
    return replace(job, rank=rank(job.priority, width, job.submitted_at, job.id))
