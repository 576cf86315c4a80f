"""Buckets and their regions: where a job may run, and what would cost money.

Reading a bucket from another region is slow, and each byte is paid for. So a job has one bucket in each region that it
may run in, runs only beside one of them, and names its data through JOB_BUCKET instead of by a literal address.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tpufn.domain.accelerators import region_of as zone_region
from tpufn.domain.fleet import Fleet
from tpufn.spec.fitting import candidate_pools, slot_pool
from tpufn.spec.job_model import JobFile, JobKeys
from tpufn.spec.jobs import LoadedJobs
from tpufn.spec.literals import COST, RegionOf, known_region, literal_faults
from tpufn.spec.problems import Loc, Report
from tpufn.spec.scalars import is_region


@dataclass(frozen=True)
class Resolved:
    """For each job of a file its {region: bucket}, in the order of the file."""

    buckets: tuple[dict[str, str], ...]
    warnings: tuple[str, ...] = ()


def resolve(job: JobFile, fleet: Fleet, region_of: RegionOf) -> dict[str, str]:
    """The job's bucket (its bare name) in each region that it may run in. Raises InputError with every problem."""
    report = Report("job")
    found = _resolve(job, fleet, region_of, report, ())
    report.close()
    return found


def resolve_file(loaded: LoadedJobs, fleet: Fleet, region_of: RegionOf) -> Resolved:
    """`resolve` for every job of a file, all or nothing. Adds the warnings that only the buckets' regions can tell."""
    report = loaded.source.report()
    found = tuple(_resolve(job, fleet, region_of, report, ("jobs", i)) for i, job in enumerate(loaded.jobs))
    report.close()
    warnings = (
        f"{report.where(('jobs', i, *loc))}: {text}"
        for i, (job, buckets) in enumerate(zip(loaded.jobs, found, strict=True))
        for loc, text in idle_buckets(job, fleet, buckets)
    )
    return Resolved(found, tuple(warning for warning in warnings if warning not in loaded.warnings))


def idle_buckets(job: JobFile, fleet: Fleet, buckets: Mapping[str, str]) -> Iterator[tuple[Loc, str]]:
    """Buckets in whose region no pool can run the job now, while another one can."""
    served = {pool.region for pool in candidate_pools(job, fleet, buckets)}
    for region, name in buckets.items() if served else ():
        if region not in served:
            at = ("buckets", job.buckets.index(f"gs://{name}"))
            yield at, f"gs://{name} is in {region}, where no pool can run this job; it is not used now"


def _resolve(job: JobFile, fleet: Fleet, region_of: RegionOf, report: Report, at: Loc) -> dict[str, str]:
    home = _home(job, fleet)
    found: dict[str, str] = {}
    wrong = False
    for index, uri in enumerate(job.buckets):
        name = uri.removeprefix("gs://")
        region = known_region(name, region_of)
        problem = _bucket_problem(uri, region, found)
        if problem:
            wrong = True
            report.add((*at, "buckets", index), problem)
        elif home in ("", region):
            found[region] = name
    if not found and not wrong:
        report.add((*at, "buckets"), f"the job runs only in {home}, where it has no bucket: {COST}; add one in {home}")
    for loc, text in literal_faults(job, found, region_of, bundle=job.bundle) if found else ():
        report.add((*at, *loc), text)
    return found


def _bucket_problem(uri: str, region: str, taken: Mapping[str, str]) -> str:
    if not region:
        return f"{uri} does not exist, or is not yours to read; make it in a region that has TPUs of yours"
    if not is_region(region):
        return f"{uri} is spread over {region}; use a bucket in a single region: {COST}"
    if region in taken:
        return f"{uri} is in {region}, and so is gs://{taken[region]}; keep one bucket for each region"
    return ""


def _home(job: JobKeys, fleet: Fleet) -> str:
    """The one region of a job that names a zone or a TPU; "" for any other."""
    if job.zone:
        return zone_region(job.zone)
    pool = slot_pool(fleet, job.tpu_name) if job.tpu_name else None
    return pool.region if pool else ""
