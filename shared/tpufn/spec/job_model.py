"""The keys of one job, as pydantic models. The file and the submission message share them.

`JobKeys` is what both have. `JobFile` adds what only a file has: its buckets as a list and its bundle as a path.
"""

from collections.abc import Iterator
from itertools import permutations
from pathlib import PurePosixPath
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from tpufn.domain.job import Cache, Priority, Retries
from tpufn.spec.checked import Keys
from tpufn.spec.fields import (
    BucketUri,
    Count,
    Duration,
    Flag,
    JobId,
    ModelName,
    PriorityName,
    SecretReference,
    Text,
    Zone,
)
from tpufn.spec.job_values import (
    BundleSource,
    CacheKey,
    CachePath,
    Command,
    DisplayName,
    Env,
    EnvName,
    ExitCode,
    InfrastructureLimit,
    Labels,
    PreemptionLimit,
    TpuTypes,
)
from tpufn.spec.problems import Loc, raise_faults

MAX_JOBS = 500
"""In one file, and in one message."""


class CacheKeys(Keys):
    """A directory that survives on a worker from one job to the next."""

    key: CacheKey = Field(
        description="Jobs that name the same key share the directory. One path component.", examples=["pip"]
    )
    path: CachePath = Field(
        description=(
            "Where the job sees it, below JOB_DIR. It is kept only once the job has put a file `.ready` into it; "
            "it is gone with the TPU."
        ),
        examples=[".cache/pip"],
    )


def _distinct_buckets(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise ValueError("is empty; name one bucket in each region that the job may run in")
    raise_faults(((i,), f"{b} is listed twice; keep one") for i, b in enumerate(value) if b in value[:i])
    return value


def _apart(value: tuple[CacheKeys, ...]) -> tuple[CacheKeys, ...]:
    raise_faults(_cache_clashes(value))
    return value


def _cache_clashes(caches: tuple[CacheKeys, ...]) -> Iterator[tuple[Loc, str]]:
    for (i, one), (j, other) in permutations(enumerate(caches), 2):
        if i < j and one.key == other.key:
            yield (j, "key"), f"{one.key} is taken by caches[{i}]; give each cache its own key"
        if i < j and one.path == other.path:
            yield (j, "path"), f"{one.path} is taken by caches[{i}]; give each cache its own path"
        if PurePosixPath(one.path) in PurePosixPath(other.path).parents:
            yield (j, "path"), f"{other.path} lies inside caches[{i}]; put it beside {one.path}"


class ApplicationKeys(Keys):
    """When a command that failed by itself is tried again."""

    max: Count = Field(default=0, description="How many times.")
    exit_codes: tuple[ExitCode, ...] = Field(
        default=(), description="Only after these exit codes; empty for any other than 0.", examples=["[75]"]
    )


class RetryKeys(Keys):
    """The budgets of retries, one for each kind of failure."""

    preemption: PreemptionLimit = Field(
        default=None, description="After a preemption: a number, or `unlimited`.", examples=["unlimited"]
    )
    infrastructure: InfrastructureLimit = Field(
        default=10, description="After a lost, broken or unreachable TPU, with growing pauses."
    )
    application: ApplicationKeys = Field(
        default_factory=ApplicationKeys, description="After a failure of the command itself."
    )


class JobKeys(Keys):
    """What a job is, wherever it comes from."""

    empty_is_absent: ClassVar[frozenset[str]] = frozenset({"id", "env"})

    id: JobId | None = Field(
        default=None,
        description="The job's id; made from its name and the submission where it is not given.",
        examples=["train-7b"],
    )
    name: DisplayName = Field(default="", description="What people call it.", examples=["train 7b"])
    tpu: TpuTypes = Field(
        description="The TPU type, a list of types that will all do (they are raced), or `any`.",
        examples=["[v4-32, v6e-16]"],
    )
    command: Command = Field(
        description="What every worker runs, by `bash -lc` in JOB_DIR. It arrives byte for byte.",
        examples=["python3 train.py"],
    )
    zone: Zone | None = Field(default=None, description="Only in this zone.", examples=["us-central2-b"])
    tpu_name: Text = Field(
        default="", description="Only on this TPU: a slot's name, or an `existing` one.", examples=["spot-v6e64-ew4a-1"]
    )
    provisioning_model: ModelName | None = Field(
        default=None, description="Only on capacity that is bought like this; any by default."
    )
    priority: PriorityName = Field(
        default=Priority.NORMAL, description="Higher goes first; equal ones by their time of submission."
    )
    caches: Annotated[tuple[CacheKeys, ...], AfterValidator(_apart)] = Field(
        default=(), description="Directories that survive on the workers. Paths must not lie in one another."
    )
    env: Env = Field(
        default_factory=dict,
        description=(
            "Environment variables. Values are text; plain numbers keep their digits, everything else that YAML would "
            "change needs quotes. One at most 128 KiB, all at most 256 KiB."
        ),
        examples=['{WANDB_PROJECT: my-project, DEBUG: "yes"}'],
    )
    secrets: dict[EnvName, SecretReference] = Field(
        default_factory=dict,
        description=(
            "Environment variables whose values come from Secret Manager: `NAME: secret` or `NAME: secret@version`. "
            "The deployment's `worker_secrets` must list them."
        ),
        examples=["{WANDB_API_KEY: wandb-key}"],
    )
    labels: Labels = Field(
        default_factory=dict, description="Marks for people and other programs.", examples=["{team: vision}"]
    )
    retries: RetryKeys = Field(default_factory=RetryKeys, description="How often each kind of failure is tried again.")
    retry_on_infrastructure_failure: Flag = Field(
        default=True, description="`false` sets `retries.preemption` and `retries.infrastructure` to 0."
    )
    max_runtime: Duration | None = Field(
        default=None,
        description="The longest time of one attempt's command; then the job has failed.",
        examples=["12h"],
    )
    queue_deadline: Duration | None = Field(
        default=None, description="The longest wait for a first TPU; then the job has failed.", examples=["2d"]
    )
    finish_timeout: Duration = Field(
        default=600.0,
        description="After the first worker has finished with 0, how long the others may take.",
        examples=["10m"],
    )

    def domain_caches(self) -> tuple[Cache, ...]:
        return tuple(Cache(key=cache.key, path=cache.path) for cache in self.caches)

    def domain_retries(self) -> Retries:
        """The three budgets, with the effect of `retry_on_infrastructure_failure`."""
        again, rules = self.retry_on_infrastructure_failure, self.retries
        return Retries(
            preemption=rules.preemption if again else 0,
            infrastructure=rules.infrastructure if again else 0,
            application=rules.application.max,
            application_exit_codes=rules.application.exit_codes,
        )


class JobFile(JobKeys):
    """One job of a job file."""

    empty_is_absent: ClassVar[frozenset[str]] = JobKeys.empty_is_absent | {"caches"}

    buckets: Annotated[tuple[BucketUri, ...], AfterValidator(_distinct_buckets)] = Field(
        description=(
            "One bucket in each region that the job may run in, with the data at the same paths in each. The bucket of "
            "the region that wins becomes JOB_BUCKET."
        ),
        examples=["[gs://my-training-us-east1]"],
    )
    bundle: BundleSource = Field(
        default=".",
        description=(
            "The source tree: a directory or a tar archive, relative to the file, or the gs:// address of an archive. "
            "Ignore files (`.tpufnignore`, else `.tpu-runnerignore`, else `.gitignore`) work as in git."
        ),
    )


def secret_clashes(job: JobKeys) -> Iterator[tuple[Loc, str]]:
    """Names that are both in `env` and in `secrets`."""
    yield from ((("secrets", name), "is in env too; keep one") for name in job.secrets if name in job.env)
