"""The submission: one JSON message with compiled jobs, as a client or any other service publishes it.

A compiled job has its buckets by region and its bundle by content (or by a gs:// address), and needs no file. What
arrives is not trusted: it goes through the same models as a job file.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Bundle, JobSpec
from tpufn.spec import scalars
from tpufn.spec.checked import Keys, check
from tpufn.spec.fields import BucketUri, Count, JobId, Region, Text
from tpufn.spec.fitting import misfits
from tpufn.spec.job_model import MAX_JOBS, JobFile, JobKeys, secret_clashes
from tpufn.spec.job_values import bundle_source
from tpufn.spec.literals import literal_faults
from tpufn.spec.problems import Loc, Report, raise_faults
from tpufn.spec.scalars import slugified, text

VERSION = 1
MAX_SPEC = 512 * 1024
"""Bytes of one job's specification."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


def _sha256(value: object) -> str:
    found = text(value)
    if found and not _SHA256.fullmatch(found):
        raise ValueError("must be 64 hexadecimal digits in lower case")
    return found


def _archive(value: object) -> str:
    found = text(value)
    if found and not found.startswith("gs://"):
        raise ValueError("must be the gs:// address of an archive; local files stay on the client")
    return bundle_source(found) if found else ""


def _one_source(value: "BundleKeys") -> "BundleKeys":
    if value.sha256 and value.uri:
        raise ValueError("has both `sha256` and `uri`; keep one of them")
    return value


def _some_bucket(value: dict[str, str]) -> dict[str, str]:
    if not value:
        raise ValueError("is empty; name one bucket in each region that the job may run in")
    uris = list(value.values())
    raise_faults(((region,), f"{uri} is in one region only") for region, uri in value.items() if uris.count(uri) > 1)
    return value


def _some_jobs(value: "tuple[SubmittedJob, ...]") -> "tuple[SubmittedJob, ...]":
    if not 1 <= len(value) <= MAX_JOBS:
        raise ValueError(f"has {len(value)} jobs; send 1 to {MAX_JOBS} in one message")
    return value


class BundleKeys(Keys):
    """The source tree as an archive."""

    sha256: Annotated[str, BeforeValidator(_sha256), WithJsonSchema({"type": "string"})] = Field(
        default="", description="The archive's hash; it is `bundles/SHA256.tar.gz` in every bucket of the job."
    )
    size: Count = Field(default=0, description="The archive's size in bytes.")
    files: Count = Field(default=0, description="The number of files in it.")
    uri: Annotated[str, BeforeValidator(_archive), WithJsonSchema({"type": "string"})] = Field(
        default="", description="The gs:// address of an archive, instead of `sha256`."
    )


class SubmittedJob(JobKeys):
    """One compiled job."""

    buckets: Annotated[dict[Region, BucketUri], AfterValidator(_some_bucket)] = Field(
        description="The bucket of each region that the job may run in.",
        examples=['{"us-east1": "gs://my-training-us-east1"}'],
    )
    bundle: Annotated[BundleKeys, AfterValidator(_one_source)] = Field(
        default_factory=BundleKeys, description="The source tree; none by default."
    )
    checkpoints_of: JobId | None = Field(
        default=None, description="The id of the job whose checkpoints this one continues."
    )

    empty_is_absent: ClassVar[frozenset[str]] = JobKeys.empty_is_absent | {"bundle"}


class Submission(Keys):
    """The body of a message on the topic `submissions`. All of its jobs are accepted, or none."""

    v: Literal[1] = Field(description="The version of this format.", examples=["1"])
    submission_id: Text = Field(
        default="",
        max_length=200,
        description=(
            "Chosen by the client: the same id with the same jobs is one submission, with other jobs a conflict. "
            "The message's id by default."
        ),
    )
    correlation_id: Text = Field(
        default="", max_length=200, description="Comes back in every event of these jobs; for the submitter's own use."
    )
    jobs: Annotated[tuple[SubmittedJob, ...], AfterValidator(_some_jobs)] = Field(
        description="The jobs.", examples=["[...]"]
    )


def check_job_id(id: str, jobs: Sequence[JobFile]) -> None:
    """Whether the job of a file can be named from outside. Raises InputError."""
    if id and len(jobs) != 1:
        raise InputError(f"--job-id: there are {len(jobs)} jobs in the file; write an `id` into each of them instead")
    try:
        scalars.job_id(id or "none")
    except ValueError as error:
        raise InputError(f"--job-id: {id!r} {error}") from None


def write_submission(
    jobs: Sequence[JobFile],
    *,
    buckets: Sequence[Mapping[str, str]],
    bundles: Sequence[Bundle],
    submission_id: str,
    correlation_id: str = "",
    job_id: str = "",
) -> dict[str, Any]:
    """The message for these jobs: for each its {region: bucket} and its bundle, in the same order.

    `job_id` names the job of a file with a single one: see `check_job_id`. Raises InputError.
    """
    ids = [job_id or job.id or make_id(job.name, submission_id, index) for index, job in enumerate(jobs)]
    body = {
        "v": VERSION,
        "submission_id": submission_id,
        "correlation_id": correlation_id,
        "jobs": [_compiled(*parts) for parts in zip(jobs, ids, buckets, bundles, strict=True)],
    }
    _read(body, Report("submission"))
    return body


def read_submission(
    body: Mapping[str, Any], fleet: Fleet | None = None, *, submission_id: str = ""
) -> tuple[JobSpec, ...]:
    """The jobs of a message that anybody may have sent. `submission_id` is used where the body has none.

    Raises InputError with every problem. With a fleet, names of secrets, TPUs and buckets are checked against it.
    """
    report = Report("submission")
    found = _read(body, report, fleet)
    origin = found.submission_id or submission_id
    specs = tuple(to_spec(job, make_id(job.name, origin, index)) for index, job in enumerate(found.jobs))
    for index, spec in enumerate(specs):
        if spec.id in {other.id for other in specs[:index]}:
            report.add(("jobs", index, "id"), f"{spec.id} is the id of another job of this submission")
    report.close()
    return specs


def compile_specs(
    jobs: Sequence[JobFile],
    *,
    buckets: Sequence[Mapping[str, str]],
    bundles: Sequence[Bundle],
    submission_id: str,
    job_id: str = "",
) -> tuple[JobSpec, ...]:
    """What `submit` makes of a file: `write_submission`, read back."""
    body = write_submission(jobs, buckets=buckets, bundles=bundles, submission_id=submission_id, job_id=job_id)
    return read_submission(body)


def digest(body: Mapping[str, Any]) -> str:
    """The hash of what a submission asks for: the same for the same jobs, whatever the order of their keys."""
    content = {"v": body.get("v"), "jobs": body.get("jobs")}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def make_id(name: str, submission_id: str, index: int) -> str:
    """`<name or job>-<6 hex digits>`: the same for the same submission and place in it."""
    mark = hashlib.sha256(f"{submission_id}/{index}".encode()).hexdigest()[:6]
    return f"{slugified(name)[:60].strip('-') or 'job'}-{mark}"


def to_spec(job: SubmittedJob, fallback_id: str) -> JobSpec:
    """The domain's value of a compiled job."""
    return JobSpec(
        id=job.id or fallback_id,
        name=job.name,
        command=job.command,
        tpu=job.tpu,
        zone=job.zone or "",
        tpu_name=job.tpu_name,
        provisioning_model=job.provisioning_model or "",
        buckets={region: uri.removeprefix("gs://") for region, uri in job.buckets.items()},
        bundle=Bundle(**job.bundle.model_dump()),
        priority=job.priority,
        caches=job.domain_caches(),
        env=job.env,
        secrets=job.secrets,
        labels=job.labels,
        retries=job.domain_retries(),
        max_runtime=job.max_runtime,
        queue_deadline=job.queue_deadline,
        finish_timeout=job.finish_timeout,
        checkpoints_of=job.checkpoints_of or "",
    )


def _compiled(job: JobFile, id: str, buckets: Mapping[str, str], bundle: Bundle) -> dict[str, Any]:
    archive = BundleKeys(sha256=bundle.sha256, size=bundle.size, files=bundle.files, uri=bundle.uri)
    return {
        **job.model_dump(mode="json", exclude={"buckets", "bundle"}),
        "id": id,
        "buckets": {region: f"gs://{name}" for region, name in buckets.items()},
        "bundle": archive.model_dump(mode="json"),
    }


def _read(body: Mapping[str, Any], report: Report, fleet: Fleet | None = None) -> Submission:
    found = check(Submission, dict(body), report)
    for index, job in enumerate(found.jobs if found else ()):
        for loc, problem in _job_problems(job, fleet):
            report.add(("jobs", index, *loc), problem)
    report.close()
    assert found is not None, "a failed check has problems"
    return found


def _job_problems(job: SubmittedJob, fleet: Fleet | None) -> Iterator[tuple[Loc, str]]:
    yield from secret_clashes(job)
    yield from misfits(job, fleet)
    known = fleet.buckets if fleet else {}
    regions = {region: uri.removeprefix("gs://") for region, uri in job.buckets.items()}
    yield from literal_faults(job, regions, lambda name: known.get(name, ""), bundle=job.bundle.uri)
    size = len(json.dumps(job.model_dump(mode="json")).encode())
    if size > MAX_SPEC:
        yield (), f"is {size} bytes long, over 512 KiB; put the longest values into files of the bundle"
