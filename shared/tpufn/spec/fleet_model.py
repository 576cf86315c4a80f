"""The keys of deployment.yaml, as pydantic models. It takes tpu-runner's files unchanged, and more."""

import re
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from tpufn.domain.accelerators import Accelerator, accelerator, api_type
from tpufn.spec import scalars
from tpufn.spec.checked import Keys
from tpufn.spec.fields import (
    BucketUri,
    Count,
    DeploymentName,
    Flag,
    ModelName,
    ModeName,
    Positive,
    Region,
    SecretName,
    Text,
    TransportName,
    Word,
    Zone,
)
from tpufn.spec.problems import shown

_NODE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_ZONE_CODE = re.compile(r"[a-z0-9]{2,10}")
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*/")
_PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")

UNUSED = ("controller_timeout", "controller_memory", "controller_max_retries")
"""Keys that tpu-runner needs and that have no meaning here."""


def tpu_type(value: object) -> str:
    return accelerator(api_type(scalars.word(value))).type


def node_name(value: object) -> str:
    found = scalars.word(value)
    if not _NODE.fullmatch(found):
        raise ValueError(f"is not the name of a TPU: {shown(found)!r}; names are lowercase letters, digits and hyphens")
    return found


def zone_code(value: object) -> str:
    found = scalars.word(value)
    if not _ZONE_CODE.fullmatch(found):
        raise ValueError("must be 2 to 10 lowercase letters and digits, such as ew4a")
    return found


def prefix(value: object) -> str:
    found = scalars.word(value).rstrip("/") + "/"
    if not _PREFIX.fullmatch(found) or ".." in found.split("/"):
        raise ValueError(f"must be a path in a bucket, such as results/, not {shown(found)!r}")
    return found


def project_id(value: object) -> str:
    found = scalars.word(value)
    if not _PROJECT.fullmatch(found):
        raise ValueError(f"is not a project's id: {shown(found)!r}; `gcloud projects list` shows yours")
    return found


def listed_buckets(value: object) -> object:
    """A list of buckets is the same as a mapping without regions."""
    given = scalars.as_list(value)
    return {scalars.text(item): None for item in given} if isinstance(given, list | tuple) else given


def poll_seconds(value: object) -> float:
    """A duration; a bare number is in seconds."""
    number = scalars.text(value) if not isinstance(value, str) else value
    try:
        found = float(number)
    except ValueError:
        return scalars.seconds(value)
    if not 0 < found <= 86400:
        raise ValueError("must be longer than 0 and at most a day")
    return found


_STRING = WithJsonSchema({"type": "string"})
_LINES = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
_BUCKETS = WithJsonSchema(
    {
        "anyOf": [
            {"type": "array", "items": {"type": "string"}},
            {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        ]
    }
)

TpuType = Annotated[str, BeforeValidator(tpu_type), _STRING]
NodeName = Annotated[str, BeforeValidator(node_name), _STRING]
ZoneCode = Annotated[str, BeforeValidator(zone_code), _STRING]
Prefix = Annotated[str, BeforeValidator(prefix), _STRING]
ProjectId = Annotated[str, BeforeValidator(project_id), _STRING]
Scripts = Annotated[tuple[Word, ...], BeforeValidator(scalars.as_list), _LINES]
Buckets = Annotated[dict[BucketUri, Region | None], BeforeValidator(listed_buckets), _BUCKETS]
PollInterval = Annotated[
    float, BeforeValidator(poll_seconds), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]})
]


class TpuKeys(Keys):
    """One entry of `tpus`: TPUs that may be made, or one that exists."""

    empty_is_absent: ClassVar[frozenset[str]] = frozenset({"id", "existing", "runtime"})

    type: TpuType = Field(
        description="The TPU type. v2, v3, v4 and v5p names count TensorCores, two a chip.", examples=["v6e-64"]
    )
    zone: Zone | None = Field(default=None, description="The zone. Give this or `zones`.", examples=["europe-west4-a"])
    zones: tuple[Zone, ...] = Field(
        default=(), description="Several zones: one pool in each.", examples=["[us-east1-d, europe-west4-a]"]
    )
    count: Count | None = Field(
        default=None,
        description="How many TPUs there may be at most, in each zone. Nothing is made until a job wants it.",
        examples=["1"],
    )
    provisioning_model: ModelName = Field(
        default="spot", description="How capacity is bought; `reserved` needs a `reservation`."
    )
    runtime: Text | None = Field(
        default=None,
        description="The TPU software version; the family's usual one by default.",
        examples=["v2-alpha-tpuv6e"],
    )
    allow_runtime: Flag = Field(
        default=False, description="Take `runtime` as it is, even when it looks like another generation's."
    )
    chip_limit: Positive | None = Field(
        default=None,
        description=(
            "Chips that the quota allows in this (provisioning model, family, zone); all entries there must agree. "
            "Counts may add up to more: then the limit binds while jobs run."
        ),
        examples=["128"],
    )
    keep_warm_count: Count = Field(default=0, description="TPUs that are kept when idle, up to `count`.")
    reservation: Text = Field(default="", description="The reservation's name or full resource name.")
    existing: NodeName | None = Field(
        default=None,
        description=(
            "The name of a TPU that is there already: it is used, and never made or deleted. "
            "Its metadata lets the runner in."
        ),
        examples=["my-tpu"],
    )
    id: Text | None = Field(
        default=None,
        description="The pool's id and the stem of its slots' names. `spot-v6e64-ew4a` and the like by default.",
    )
    bootstrap: Scripts = Field(
        default=(), description="Scripts that set a TPU up for a person, instead of the deployment's."
    )

    @property
    def accelerator(self) -> Accelerator:
        return accelerator(self.type)

    @property
    def all_zones(self) -> tuple[str, ...]:
        return self.zones or ((self.zone,) if self.zone else ())


class DeploymentKeys(Keys):
    """The top of deployment.yaml."""

    name: DeploymentName = Field(description="The deployment's name; part of every cloud name.", examples=["lab"])
    project: ProjectId = Field(description="The Google Cloud project's id.", examples=["my-project"])
    tpus: tuple[TpuKeys, ...] = Field(description="The TPUs that may be used.", examples=["[...]"])
    mode: ModeName = Field(
        default="cloud",
        description="`cloud`: functions that `tpufn deploy` makes. `laptop`: `tpufn up` on one machine.",
    )
    buckets: Buckets = Field(
        default_factory=dict,
        description=(
            "The buckets that workers may read, as a list or as `{gs://name: region}`. A job that names another one is "
            "refused. Without this key there is no such check."
        ),
        examples=["[gs://my-training-us-east1]"],
    )
    writable_prefixes: tuple[Prefix, ...] = Field(
        default=(), description="Where workers may write in these buckets, besides `jobs/`.", examples=["[results/]"]
    )
    worker_secrets: tuple[SecretName, ...] = Field(
        default=(), description="Secrets in Secret Manager that jobs may ask for.", examples=["[wandb-key]"]
    )
    idle_timeout_seconds: Count = Field(
        default=600, description="How long a TPU stays after its last job before it is given back."
    )
    ssh_transport: TransportName = Field(
        default="direct", description="`direct`: TPUs with public addresses. `iap`: private ones, reached through IAP."
    )
    network: Word = Field(default="default", description="The VPC network of the TPUs.")
    subnetwork: Word = Field(default="default", description="The subnetwork of the TPUs.")
    subnets: dict[Zone, Word] = Field(
        default_factory=dict,
        description="The subnetwork for single zones.",
        examples=["{europe-west4-a: tpu-europe-west4}"],
    )
    zone_codes: dict[Zone, ZoneCode] = Field(
        default_factory=dict,
        description="The short names of zones in slot names; initials, digits and letter by default.",
        examples=["{europe-west4-a: ew4a}"],
    )
    startup_script: Text = Field(
        default="",
        description="A script that root runs at each boot of a worker: its text, or a file relative to this one.",
        examples=["setup.sh"],
    )
    bootstrap: Scripts = Field(
        default=(),
        description="Scripts that a person's machine runs on a TPU over SSH, as that person, to make it comfortable.",
        examples=["[bootstrap.sh]"],
    )
    auto_setup: Flag = Field(default=False, description="Run `bootstrap` on each new TPU while a client is open.")
    tmux_sync: Flag = Field(default=False, description="Keep one tmux window for each TPU while a client is open.")
    ntfy_topic: Text = Field(
        default="",
        description="Send notices to this ntfy topic, off by default. Whoever guesses the name can read them.",
    )
    ntfy_server: Word = Field(default="https://ntfy.sh", description="The ntfy server.")
    poll_interval: PollInterval = Field(
        default=10.0, description="How often the engine of laptop mode looks at cloud and buckets.", examples=["60s"]
    )
    poll_concurrency: Positive = Field(default=8, description="How many zones they look at side by side.")
    controller_region: Region = Field(default="us-central1", description="The region of the functions.")
    firestore_location: Word = Field(default="nam5", description="The location of the database.")
    bucket: BucketUri | None = Field(
        default=None,
        description="The deployment's own bucket, for function archives and this file; made by `deploy` by default.",
    )
    controller_timeout: Text = Field(default="", description="Accepted for tpu-runner's sake; no meaning here.")
    controller_memory: Text = Field(default="", description="Accepted for tpu-runner's sake; no meaning here.")
    controller_max_retries: Count | None = Field(
        default=None, description="Accepted for tpu-runner's sake; no meaning here."
    )
