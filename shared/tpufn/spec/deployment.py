"""deployment.yaml: one file that declares the fleet. No cloud is asked.

Problems make the file unusable. Warnings say what will probably not work. Notes say what was filled in or not used.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from tpufn.domain.fleet import Fleet, Mode, Pool
from tpufn.spec.checked import check
from tpufn.spec.fleet_model import UNUSED, DeploymentKeys, TpuKeys
from tpufn.spec.fleet_rules import advice, problems
from tpufn.spec.pools import Declared, default_runtime, make_pools
from tpufn.spec.problems import Loc, Report
from tpufn.spec.yaml_source import Source, load, parse

MAX_SCRIPT = 128 * 1024
_UNNAMED = DeploymentKeys(name="x", project="unnamed", tpus=())
"""Stands in while a file without a usable top is searched for more problems."""


@dataclass(frozen=True)
class LoadedDeployment:
    """A valid deployment file. `normalised` is JSON-ready."""

    fleet: Fleet
    normalised: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def load_deployment(path: str | PathLike[str]) -> LoadedDeployment:
    """Read and validate a deployment file. Raises InputError with every problem."""
    return _loaded(load(path), Path(path).absolute().parent)


def parse_deployment(name: str, text: str, *, base: Path) -> LoadedDeployment:
    """The same for text that is no file yet."""
    return _loaded(parse(name, text.encode()), base)


def _loaded(source: Source, base: Path) -> LoadedDeployment:
    report = source.report()
    declared = _declared(source, report)
    script, problem = _script(declared.keys.startup_script, base)
    if problem:
        report.add(("startup_script",), problem)
    pools = make_pools(declared)
    for loc, text in problems(declared, pools):
        report.add(loc, text)
    report.close()
    fleet = _fleet(declared.keys, tuple(pool for _, pool in pools), script)
    return LoadedDeployment(
        fleet=fleet,
        normalised=_normal_form(declared.keys, fleet),
        warnings=tuple(_placed(report, advice(declared, pools))),
        notes=tuple(_placed(report, _notes(declared))),
    )


def _declared(source: Source, report: Report) -> Declared:
    """The file's keys and each entry by itself, so that one wrong key hides no other problem."""
    listed = source.data.get("tpus")
    items = listed if isinstance(listed, list) else []
    checked = ((index, check(TpuKeys, item, report, ("tpus", index))) for index, item in enumerate(items))
    entries = {index: entry for index, entry in checked if entry}
    if listed == []:
        report.add(("tpus",), "is empty; name one TPU at least, such as `- {type: v6e-8, zone: us-east1-d, count: 1}`")
    top = {**source.data, "tpus": []} if items else source.data
    return Declared(check(DeploymentKeys, top, report) or _UNNAMED, entries)


def _placed(report: Report, found: Iterator[tuple[Loc, str]]) -> Iterator[str]:
    return (f"{report.where(loc)}: {text}" for loc, text in found)


def _script(given: str, base: Path) -> tuple[str, str]:
    """(the script's text, what is wrong with it). Text of several lines, or with `#!`, stands for itself."""
    if not given or "\n" in given or given.startswith("#!"):
        text = given
    else:
        try:
            text = (base / given).read_text("utf-8")
        except (OSError, ValueError):
            return (
                "",
                f"there is no readable {base / given}; name a file relative to this one, or write the script here",
            )
    return text, "is over 128 KiB; keep it small and fetch the rest" if len(text.encode()) > MAX_SCRIPT else ""


def _fleet(keys: DeploymentKeys, pools: tuple[Pool, ...], script: str) -> Fleet:
    return Fleet(
        name=keys.name,
        project=keys.project,
        mode=Mode(keys.mode),
        pools=pools,
        idle_timeout=float(keys.idle_timeout_seconds),
        buckets={uri.removeprefix("gs://"): region or "" for uri, region in keys.buckets.items()},
        worker_secrets=keys.worker_secrets,
        settings={name: _as_text(value) for name, value in {**_settings(keys), "startup_script": script}.items()},
    )


def _settings(keys: DeploymentKeys) -> dict[str, Any]:
    """What only some parts need: every other key of the file that has a meaning."""
    elsewhere = {"name", "project", "mode", "tpus", "idle_timeout_seconds", "buckets", "worker_secrets", *UNUSED}
    return keys.model_dump(mode="json", exclude=elsewhere)


def _as_text(value: object) -> str:
    """Text as it is, nothing for None, all else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _notes(declared: Declared) -> Iterator[tuple[Loc, str]]:
    for name in UNUSED:
        if name in declared.keys.model_fields_set:
            yield (name,), "has no meaning here and is not used"
    for index, entry in declared.entries.items():
        at: Loc = ("tpus", index)
        if entry.existing and "count" in entry.model_fields_set:
            yield (*at, "count"), "is not used: there is one TPU of that name"
        if entry.existing is None and entry.runtime is None:
            yield (*at, "runtime"), f"is not given; {default_runtime(entry.type)} is used"


def _normal_form(keys: DeploymentKeys, fleet: Fleet) -> dict[str, Any]:
    """The file with every default written out, and one entry for each pool."""
    top = keys.model_dump(mode="json", exclude={"tpus", *UNUSED})
    return {**top, "tpus": [_pool_form(pool) for pool in fleet.pools]}


def _pool_form(pool: Pool) -> dict[str, Any]:
    kind = pool.accelerator
    return {
        "id": pool.id,
        "type": pool.type,
        "family": kind.family,
        "chips": kind.chips,
        "hosts": kind.hosts,
        "zone": pool.zone,
        "region": pool.region,
        "provisioning_model": str(pool.model),
        "count": pool.count,
        "runtime": pool.runtime,
        "chip_limit": pool.chip_limit or None,
        "keep_warm_count": pool.keep_warm,
        "reservation": pool.reservation or None,
        "existing": pool.existing or None,
        "slots": list(pool.slots),
    }
