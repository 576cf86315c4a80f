"""The fleet: what deployment.yaml declares. Pools with ceilings, and the fixed table of slots that follows from them.

Placement keys connect jobs with pools without naming either in the other. A job's `accepts` holds keys made from the
job alone; a pool answers to every key in its `keys`. A key is `[MODEL:]TYPE@PLACE`, with TYPE `*` for any type and
PLACE a region or a zone, or `slot:NAME` for one slot.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from tpufn.domain.accelerators import Accelerator, accelerator, region_of


class Model(StrEnum):
    """How capacity is bought. Spot may be reclaimed at any time; reserved needs a reservation."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"
    RESERVED = "reserved"


class Mode(StrEnum):
    SANDBOX = "sandbox"
    LAPTOP = "laptop"
    CLOUD = "cloud"


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One (TPU type, zone, provisioning model) with a ceiling of `count` slots, or one `existing` TPU."""

    id: str
    type: str
    zone: str
    model: Model = Model.SPOT
    count: int = 0
    runtime: str = ""
    chip_limit: int = 0  # chips per (model, family, zone); 0 for none known
    keep_warm: int = 0
    reservation: str = ""
    existing: str = ""
    subnetwork: str = ""
    bootstrap: tuple[str, ...] = ()

    @cached_property
    def region(self) -> str:
        return region_of(self.zone)

    @cached_property
    def accelerator(self) -> Accelerator:
        return accelerator(self.type)

    @cached_property
    def chips(self) -> int:
        return self.accelerator.chips

    @cached_property
    def scope(self) -> str:
        """What a chip limit covers: (provisioning model, family, zone)."""
        return f"chips:{self.model}:{self.accelerator.family}:{self.zone}"

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Its slots' names, stable for as long as the pool is in the file."""
        return (self.existing,) if self.existing else tuple(f"{self.id}-{i}" for i in range(1, self.count + 1))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every placement key that it answers to (without those of its single slots)."""
        plain = [f"{kind}@{place}" for kind in (self.type, "*") for place in (self.region, self.zone)]
        return frozenset(plain) | {f"{self.model}:{key}" for key in plain}


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The document `fleet/current`. `settings` holds what only some parts need (network, secrets, topics)."""

    name: str
    project: str = ""
    mode: Mode = Mode.CLOUD
    pools: tuple[Pool, ...] = ()
    idle_timeout: float = 600.0
    buckets: Mapping[str, str] = field(default_factory=dict)  # bucket name -> region, where the file lists them
    worker_secrets: tuple[str, ...] = ()
    nonce: str = ""  # the deployment's own mark on every cloud resource
    settings: Mapping[str, str] = field(default_factory=dict)
    functions: str = ""  # the version of the functions that serve it, as they say themselves
    revision: int = 0
    version: str = ""

    def pool(self, id: str) -> Pool | None:
        return next((p for p in self.pools if p.id == id), None)

    def slots(self) -> Iterator[tuple[str, Pool]]:
        return ((name, pool) for pool in self.pools for name in pool.slots)

    @property
    def zones(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pool.zone for pool in self.pools))

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pool.region for pool in self.pools))


def own_bucket(fleet: Fleet) -> str:
    """The deployment's own bucket, which holds no job's data (terraform/main.tf makes it)."""
    named = fleet.settings.get("bucket", "").removeprefix("gs://")
    return named or f"{re.sub('[.:]', '-', fleet.project)}-tpufn-{fleet.name}"


NAMED = "named"
"""The key that every job with a `tpu_name` has besides its slot's: whether there are any costs one read."""


def slot_key(slot: str) -> str:
    return f"slot:{slot}"


def job_keys(
    types: tuple[str, ...], regions: tuple[str, ...], *, zone: str = "", slot: str = "", model: str = ""
) -> tuple[str, ...]:
    """The placement keys of a job: its types (or `any`) crossed with its zone or its candidate regions."""
    if slot:
        return (slot_key(slot), NAMED)
    prefix = f"{model}:" if model else ""
    kinds = ("*",) if types == ("any",) else types
    return tuple(f"{prefix}{kind}@{place}" for kind in kinds for place in ((zone,) if zone else regions))


def accepting_pools(fleet: Fleet, accepts: tuple[str, ...]) -> tuple[Pool, ...]:
    """The pools that answer to any of the keys; a key of a single slot counts its pool."""
    wanted = frozenset(accepts)
    return tuple(
        pool for pool in fleet.pools if wanted & pool.keys or any(slot_key(name) in wanted for name in pool.slots)
    )


def zone_code(zone: str) -> str:
    """Initials, digits, letter: `europe-west4-a` is `ew4a`, `us-central2-b` is `uc2b`.

    Compound directions keep both initials (`northamerica-northeast1-a` is `nne1a`, `asia-northeast1-b` is `ane1b`).
    """
    area, _, rest = zone.partition("-")
    place, _, letter = rest.rpartition("-")
    name, digits = place.rstrip("0123456789"), place[len(place.rstrip("0123456789")) :]
    return f"{_initials(area)}{_initials(name)}{digits}{letter}"


def _initials(word: str) -> str:
    for first in ("north", "south"):
        if word.startswith(first) and word != first and word[len(first) :] in {"east", "west"}:
            return first[0] + word[len(first)]
    return word[:1]


def pool_id(model: Model, type: str, zone: str, *, code: str = "") -> str:
    """The readable id of a pool, and the stem of its slots' names: `spot-v6e64-ew4a`."""
    family, _, size = type.partition("-")
    return f"{model.replace('-', '')}-{family.replace('v5litepod', 'v5e')}{size}-{code or zone_code(zone)}"
