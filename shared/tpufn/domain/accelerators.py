"""The accelerator catalogue: types, sizes, hosts, zones, runtimes and list prices, as data with source and date.

Names are the Cloud TPU API's. v2, v3, v4 and v5p names count TensorCores (two a chip), v5litepod and v6e count chips.
The catalogue is a hint for people and for estimates; the live API's answer wins, and so does the deployment file.

Sources, read 2026-11-30: cloud.google.com/tpu/docs/{v4,v5e,v5p,v6e,runtimes} (sizes, zones, runtimes); the
skypilot-catalog v8 gcp price table at revision 006059e0, divided by chips (USD per chip-hour).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class Family:
    """One hardware generation. `sizes` are the numbers that its type names may carry."""

    name: str
    prefix: str
    cores_per_chip: int
    sizes: tuple[int, ...]
    single_host: int  # the largest number of chips that one host serves
    chips_per_host: int  # in slices of several hosts
    zones: tuple[str, ...]
    runtimes: tuple[str, ...]  # the first is the default
    on_demand: Mapping[str, float]  # region -> USD per chip-hour; "" for every other region
    spot: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One type, e.g. `v6e-16`: 16 chips on 4 hosts."""

    type: str
    family: str
    chips: int
    hosts: int


_POWERS = tuple(2**i for i in range(3, 13))
_V4_ZONES = ("us-central2-b",)
_V5E_ZONES = (
    "us-central1-a",
    "us-south1-a",
    "us-west1-c",
    "us-west4-a",
    "us-east5-a",
    "us-east5-b",
    "us-east5-c",
    "europe-west4-a",
    "europe-west4-b",
)
_V5P_ZONES = ("us-central1-a", "us-east5-a", "us-east5-b", "us-east5-c", "us-south1-a", "europe-west4-b")
_V6E_ZONES = (
    "us-central1-b",
    "us-east1-d",
    "us-east4-a",
    "us-east4-b",
    "us-east5-a",
    "us-east5-b",
    "us-west1-c",
    "europe-west4-a",
    "asia-northeast1-b",
)

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        f.name: f
        for f in (
            Family(
                name="v2",
                prefix="v2",
                cores_per_chip=2,
                sizes=(8, 32, 128, 256, 512),
                single_host=4,
                chips_per_host=4,
                zones=("us-central1-a", "us-central1-b", "us-central1-c", "europe-west4-a", "asia-east1-c"),
                runtimes=("tpu-ubuntu2204-base",),
                on_demand={"us-central1": 1.125, "europe-west4": 1.24, "asia-east1": 1.305, "": 1.50},
                spot={"us-central1": 0.338, "europe-west4": 0.316, "asia-east1": 0.392, "": 0.383},
            ),
            Family(
                name="v3",
                prefix="v3",
                cores_per_chip=2,
                sizes=(8, 32, 64, 128, 256, 512, 1024, 2048),
                single_host=4,
                chips_per_host=4,
                zones=("us-central1-a", "us-central1-b", "us-east1-d", "europe-west4-a"),
                runtimes=("tpu-ubuntu2204-base",),
                on_demand={"europe-west4": 2.20, "": 2.00},
                spot={"us-central1": 0.51, "us-east1": 0.60, "europe-west4": 0.66, "": 0.60},
            ),
            Family(
                name="v4",
                prefix="v4",
                cores_per_chip=2,
                sizes=_POWERS,
                single_host=4,
                chips_per_host=4,
                zones=_V4_ZONES,
                runtimes=("tpu-ubuntu2204-base", "tpu-vm-v4-base", "tpu-vm-v4-pt-2.0"),
                on_demand={"": 3.22},
                spot={"": 0.922},
            ),
            Family(
                name="v5e",
                prefix="v5litepod",
                cores_per_chip=1,
                sizes=(1, 4, 8, 16, 32, 64, 128, 256),
                single_host=8,
                chips_per_host=4,
                zones=_V5E_ZONES,
                runtimes=("v2-alpha-tpuv5-lite", "tpu-ubuntu2204-base"),
                on_demand={"us-south1": 1.416, "europe-west4": 1.56, "europe-west1": 1.32, "": 1.20},
                spot={
                    "us-central1": 0.245,
                    "us-east1": 0.245,
                    "us-west1": 0.245,
                    "us-west4": 0.48,
                    "us-east5": 0.60,
                    "us-south1": 0.566,
                    "europe-west4": 0.445,
                    "": 0.60,
                },
            ),
            Family(
                name="v5p",
                prefix="v5p",
                cores_per_chip=2,
                sizes=(*_POWERS, 8192, 12288),
                single_host=4,
                chips_per_host=4,
                zones=_V5P_ZONES,
                runtimes=("v2-alpha-tpuv5", "tpu-ubuntu2204-base"),
                on_demand={"us-south1": 4.779, "europe-west4": 4.2525, "": 4.20},
                spot={"us-central1": 0.836, "us-east5": 1.68, "us-south1": 1.316, "europe-west4": 1.348, "": 1.68},
            ),
            Family(
                name="v6e",
                prefix="v6e",
                cores_per_chip=1,
                sizes=(1, 4, 8, 16, 32, 64, 128, 256),
                single_host=8,
                chips_per_host=4,
                zones=_V6E_ZONES,
                runtimes=("v2-alpha-tpuv6e",),
                on_demand={"europe-west4": 2.97, "asia-northeast1": 3.24, "": 2.70},
                spot={
                    "us-central1": 0.544,
                    "us-east1": 0.544,
                    "us-west1": 0.544,
                    "us-east4": 0.578,
                    "us-east5": 1.215,
                    "europe-west4": 1.037,
                    "asia-northeast1": 0.944,
                    "": 1.215,
                },
            ),
        )
    }
)

_BY_PREFIX = {f.prefix: f for f in FAMILIES.values()}
_ALIASES = {"v5e": "v5litepod", "v5lite": "v5litepod", "v5litepod": "v5litepod", "v6": "v6e"}
_TYPE = re.compile(r"([a-z][a-z0-9]*)-([1-9][0-9]*)")
_ZONE = re.compile(r"([a-z]+(?:-[a-z]+)*-[a-z]+[0-9]+)-(?:[a-z]|ai[0-9]+[a-z])")


def api_type(name: str) -> str:
    """The API's name of a type: `v5e-16` is `v5litepod-16`. Unknown names come back as they are."""
    prefix, dash, size = name.strip().lower().partition("-")
    return f"{_ALIASES.get(prefix, prefix)}{dash}{size}"


@cache
def accelerator(type: str) -> Accelerator:
    """The catalogue's entry for an API type. Raises ValueError, whose text names the nearest valid types."""
    match = _TYPE.fullmatch(type)
    family = _BY_PREFIX.get(match[1]) if match else None
    if match is None or family is None:
        known = ", ".join(f"{f.prefix}-{f.sizes[len(f.sizes) // 2]}" for f in FAMILIES.values())
        raise ValueError(f"unknown TPU type {type!r}; types look like {known}")
    size = int(match[2])
    if size not in family.sizes:
        raise ValueError(f"there is no {type}; the nearest sizes are {' and '.join(nearest_types(type))}")
    chips = size // family.cores_per_chip
    hosts = 1 if chips <= family.single_host else chips // family.chips_per_host
    return Accelerator(type=type, family=family.name, chips=chips, hosts=hosts)


def nearest_types(type: str) -> tuple[str, ...]:
    """The valid types just below and just above a type whose size does not exist."""
    prefix, _, number = type.partition("-")
    family, size = _BY_PREFIX[prefix], int(number)
    below = [s for s in family.sizes if s < size][-1:]
    above = [s for s in family.sizes if s > size][:1]
    return tuple(f"{prefix}-{s}" for s in (*below, *above))


def all_types() -> tuple[str, ...]:
    """Every API type of the catalogue."""
    return tuple(f"{f.prefix}-{size}" for f in FAMILIES.values() for size in f.sizes)


@cache
def region_of(zone: str) -> str:
    """`us-central2-b` is in `us-central2`. Raises ValueError on anything that is not a zone."""
    match = _ZONE.fullmatch(zone)
    if match is None:
        raise ValueError(f"not a zone: {zone!r}; zones look like us-central2-b")
    return match[1]


@cache
def price_per_hour(type: str, zone: str, *, spot: bool) -> float:
    """List price of a whole slice in USD per hour: an estimate, from the catalogue's date."""
    kind = accelerator(type)
    family = FAMILIES[kind.family]
    table = family.spot if spot else family.on_demand
    return kind.chips * table.get(region_of(zone), table[""])
