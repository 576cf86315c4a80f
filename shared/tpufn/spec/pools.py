"""From the entries of `tpus` to pools: one for each zone of an entry, with readable ids."""

from collections.abc import Mapping
from dataclasses import dataclass

from tpufn.domain.accelerators import FAMILIES, accelerator
from tpufn.domain.fleet import Model, Pool, pool_id, zone_code
from tpufn.spec.fleet_model import DeploymentKeys, TpuKeys
from tpufn.spec.scalars import slugified


@dataclass(frozen=True)
class Declared:
    """The keys of a file with its valid entries, by their place in it."""

    keys: DeploymentKeys
    entries: Mapping[int, TpuKeys]


PlacedPool = tuple[int, Pool]
"""A pool and the index of the entry that declares it."""


def make_pools(declared: Declared) -> tuple[PlacedPool, ...]:
    """Every pool of the file, in its order."""
    limits = chip_limits(declared)
    return tuple(
        (index, _pool(declared.keys, entry, zone, limits))
        for index, entry in declared.entries.items()
        for zone in entry.all_zones
    )


def chip_limits(declared: Declared) -> dict[tuple[str, str, str], int]:
    """The chip limit of each (provisioning model, family, zone) that has one: the first that is given."""
    limits: dict[tuple[str, str, str], int] = {}
    for entry in declared.entries.values():
        for zone in entry.all_zones:
            if entry.chip_limit:
                limits.setdefault(scope(entry, zone), entry.chip_limit)
    return limits


def scope(entry: TpuKeys, zone: str) -> tuple[str, str, str]:
    """What a chip limit covers."""
    return entry.provisioning_model, entry.accelerator.family, zone


def default_runtime(type: str) -> str:
    """The usual runtime of a type's family."""
    return FAMILIES[accelerator(type).family].runtimes[0]


def _pool(keys: DeploymentKeys, entry: TpuKeys, zone: str, limits: dict[tuple[str, str, str], int]) -> Pool:
    return Pool(
        id=_id(keys, entry, zone),
        type=entry.type,
        zone=zone,
        model=Model(entry.provisioning_model),
        count=0 if entry.existing else entry.count or 0,
        runtime="" if entry.existing else entry.runtime or default_runtime(entry.type),
        chip_limit=limits.get(scope(entry, zone), 0),
        keep_warm=entry.keep_warm_count,
        reservation=entry.reservation,
        existing=entry.existing or "",
        subnetwork=keys.subnets.get(zone, keys.subnetwork),
        bootstrap=entry.bootstrap or keys.bootstrap,
    )


def _id(keys: DeploymentKeys, entry: TpuKeys, zone: str) -> str:
    code = keys.zone_codes.get(zone) or zone_code(zone)
    if entry.id:
        stem = slugified(entry.id)
        return f"{stem}-{code}" if len(entry.all_zones) > 1 else stem
    if entry.existing:
        return f"existing-{entry.existing}"
    return pool_id(Model(entry.provisioning_model), entry.type, zone, code=code)
