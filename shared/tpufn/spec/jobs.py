"""job.yaml: one file of jobs, all or nothing. No cloud is asked."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from tpufn.domain.fleet import Fleet
from tpufn.spec.checked import Keys, check
from tpufn.spec.fitting import misfits, unlikely
from tpufn.spec.job_model import MAX_JOBS, JobFile, secret_clashes
from tpufn.spec.literals import several_regions
from tpufn.spec.problems import Loc, Report, did_you_mean
from tpufn.spec.scalars import kind_of
from tpufn.spec.yaml_source import Source, load


@dataclass(frozen=True)
class LoadedJobs:
    """A valid job file. `base_dir` is where its bundles are looked for; `normalised` is JSON-ready."""

    jobs: tuple[JobFile, ...]
    base_dir: Path
    source: Source
    warnings: tuple[str, ...] = ()
    normalised: dict[str, Any] = field(default_factory=dict)


def load_jobs(path: str | PathLike[str], *, fleet: Fleet | None = None) -> LoadedJobs:
    """Read and validate a job file. Raises InputError with every problem.

    With a fleet, names of secrets, TPUs and buckets are checked against it, and jobs that cannot run now give warnings.
    """
    source = load(path)
    report = source.report()
    base = Path(path).absolute().parent
    jobs = _jobs(source, report)
    warnings: list[str] = []
    for index, job in jobs.items():
        at: Loc = ("jobs", index)
        for loc, text in (
            *secret_clashes(job),
            *_bundle_problems(job, base),
            *misfits(job, fleet),
            *several_regions(job),
        ):
            report.add((*at, *loc), text)
        warnings += [f"{report.where((*at, *loc))}: {text}" for loc, text in (*_overruled(job), *unlikely(job, fleet))]
    for index, text in _repeated_ids(jobs):
        report.add(("jobs", index, "id"), text)
    report.close()
    found = tuple(jobs.values())
    return LoadedJobs(found, base, source, tuple(warnings), {"jobs": [normal_form(job) for job in found]})


def normal_form(job: Keys) -> dict[str, Any]:
    """A job with every default written out, JSON-ready."""
    return job.model_dump(mode="json")


def _jobs(source: Source, report: Report) -> dict[int, JobFile]:
    """The jobs that are valid each by themselves, by their place in the file."""
    for key in source.data.keys() - {"jobs"}:
        hint = did_you_mean(key, ["jobs"]) or '; everything belongs below "jobs:"'
        report.add((key,), f"unknown key{hint}")
    listed = source.data.get("jobs", [])
    if not isinstance(listed, list) or not listed:
        cause = "is missing" if "jobs" not in source.data else "is empty" if listed == [] else f"is {kind_of(listed)}"
        report.add(("jobs",), f"{cause}; write a list of jobs, each beginning with `- tpu: ...`")
        return {}
    if len(listed) > MAX_JOBS:
        report.add(("jobs",), f"has {len(listed)} jobs; split the file, {MAX_JOBS} is the limit")
        return {}
    checked = ((index, check(JobFile, item, report, ("jobs", index))) for index, item in enumerate(listed))
    return {index: job for index, job in checked if job}


def _repeated_ids(jobs: dict[int, JobFile]) -> Iterator[tuple[int, str]]:
    first: dict[str, int] = {}
    for index, job in jobs.items():
        if job.id and first.setdefault(job.id, index) != index:
            yield index, f"{job.id} is the id of jobs[{first[job.id]}] too; give each job its own"


def _bundle_problems(job: JobFile, base: Path) -> Iterator[tuple[Loc, str]]:
    if job.bundle.startswith("gs://"):
        return
    path = base / job.bundle
    try:
        usable = path.is_dir() or path.is_file()
    except OSError:
        usable = False
    if not usable:
        cause = "is neither a directory nor a file" if path.exists() else f"there is no {path}"
        yield ("bundle",), f"{cause}; name a directory or a tar archive, relative to this file"


def _overruled(job: JobFile) -> Iterator[tuple[Loc, str]]:
    given = {"preemption", "infrastructure"} & job.retries.model_fields_set
    if given and not job.retry_on_infrastructure_failure:
        names = " and ".join(f"`retries.{name}`" for name in sorted(given))
        yield ("retry_on_infrastructure_failure",), f"`false` overrules {names}; drop one of them"
