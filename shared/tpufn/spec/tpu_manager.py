"""A tpu-manager config.toml as a deployment file: the same slots under the same names.

There, every slot is written down, and `v6e_zones` times `v6e_counts` makes more of them: shapes that share one quota,
of which each count alone would use it up. So the chip limit of a scope is its largest alternative.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpufn.domain.accelerators import accelerator, api_type
from tpufn.domain.errors import InputError

PREFIX = "TPU_MANAGER_"
_KEPT = ("poll_interval", "poll_concurrency", "auto_setup", "tmux_sync")
"""Keys that mean the same here. TOML puts them into the last slot's table where they are written after it."""
_KNOWN = frozenset({"project", "network", "ntfy_topic", "subnets", "zone_codes", "slots", "v6e_zones", "v6e_counts"})
_NUMBERED = re.compile(r"(.+)-([1-9]\d*)")
_MODELS = {"on-demand": "on-demand", "ondemand": "on-demand", "spot": "spot", "preemptible": "spot"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of `tpus`: `count` slots `<id>-1` and so on."""

    id: str
    type: str
    zone: str
    model: str
    count: int = 1

    @property
    def scope(self) -> tuple[str, str, str]:
        return self.model, accelerator(self.type).family, self.zone

    @property
    def chips(self) -> int:
        return self.count * accelerator(self.type).chips


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The text of a deployment.yaml, and what could not be kept."""

    text: str
    notes: tuple[str, ...] = ()


def convert(toml: str, environment: Mapping[str, str], *, name: str) -> Imported:
    """`environment` may override keys as TPU_MANAGER_<KEY>. Raises InputError."""
    keys = _read(toml, environment)
    notes: list[str] = []
    entries = [*_slots(keys.get("slots") or (), notes), *_v6e(keys)]
    if not entries:
        raise InputError("there are no slots in it: no `[[slots]]`, and no `v6e_zones` with `v6e_counts`")
    notes += [f"`{key}` has no meaning here and is left out" for key in sorted(set(keys) - _KNOWN - set(_KEPT))]
    return Imported(text=_written(keys, entries, name), notes=tuple(notes))


def _read(toml: str, environment: Mapping[str, str]) -> dict[str, Any]:
    try:
        keys: dict[str, Any] = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}; is this tpu-manager's config.toml?") from None
    for slot in keys.get("slots") or ():
        moved = {key: slot.pop(key) for key in [*slot] if key in _KEPT or key in ("v6e_zones", "v6e_counts")}
        keys = {**moved, **keys}
    for variable, value in environment.items():
        if variable.startswith(PREFIX):
            keys[variable.removeprefix(PREFIX).lower()] = _value(value)
    return keys


def _value(text: str) -> Any:
    """As TOML would have it; bare words are text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _slots(slots: Sequence[Mapping[str, Any]], notes: list[str]) -> Iterator[Entry]:
    """Slots that differ in their last number alone are one entry."""
    made: dict[str, list[int]] = {}
    entries: dict[str, Entry] = {}
    for slot in slots:
        entry, number = _entry(slot, notes)
        there = entries.setdefault(entry.id, entry)
        if (there.type, there.zone, there.model) != (entry.type, entry.zone, entry.model):
            raise InputError(f"slots {entry.id}-…: the same name with another type, zone or mode; rename one of them")
        made.setdefault(entry.id, []).append(number)
    for id, numbers in made.items():
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            notes.append(f"slots {id}-…: numbers {sorted(numbers)} become 1 to {len(numbers)}")
        yield replace(entries[id], count=len(numbers))


def _entry(slot: Mapping[str, Any], notes: list[str]) -> tuple[Entry, int]:
    missing = [key for key in ("name", "zone", "accelerator") if not slot.get(key)]
    if missing:
        raise InputError(f"slot {slot.get('name', '?')}: {', '.join(missing)} missing")
    name = str(slot["name"])
    match = _NUMBERED.fullmatch(name)
    if match is None:
        notes.append(f"slot {name} becomes {name}-1: slots here end in a number")
    id, number = (match[1], int(match[2])) if match else (name, 1)
    model = _MODELS.get(str(slot.get("mode", "spot")).lower())
    if model is None:
        raise InputError(f"slot {name}: mode {slot['mode']!r} is neither on-demand nor spot")
    return Entry(id=id, type=_type(str(slot["accelerator"]), name), zone=str(slot["zone"]), model=model), number


def _type(given: str, where: str) -> str:
    type = api_type(given)
    try:
        accelerator(type)
    except ValueError as error:
        raise InputError(f"slot {where}: {error}") from None
    return type


def _v6e(keys: Mapping[str, Any]) -> Iterator[Entry]:
    """Spot slots `spot-<type>-<zone code>-<n>` in each of the zones."""
    for zone, code in keys.get("v6e_zones") or ():
        for given, count in keys.get("v6e_counts") or ():
            type = _type(str(given), "v6e_counts")
            yield Entry(id=f"spot-{type}-{code}", type=type, zone=str(zone), model="spot", count=int(count))


def _written(keys: Mapping[str, Any], entries: Sequence[Entry], name: str) -> str:
    limits: dict[tuple[str, str, str], int] = {}
    for entry in entries:
        limits[entry.scope] = max(limits.get(entry.scope, 0), entry.chips)
    top = {
        "name": name,
        "project": keys.get("project") or "your-project-id",
        "mode": "laptop",
        "network": keys.get("network"),
        "subnets": keys.get("subnets"),
        "zone_codes": {**dict(keys.get("v6e_zones") or ()), **(keys.get("zone_codes") or {})},
        "ntfy_topic": keys.get("ntfy_topic"),
        **{key: keys[key] for key in _KEPT if key in keys},
    }
    lines = ["# From tpu-manager's config.toml: the same slots. `tpufn validate-fleet` checks this file.", ""]
    lines += [f"{key}: {json.dumps(value)}" for key, value in top.items() if value not in (None, "", {})]
    lines += ["", "tpus:", *(_line(entry, limits[entry.scope]) for entry in entries)]
    return "\n".join(lines) + "\n"


def _line(entry: Entry, limit: int) -> str:
    where = f"id: {entry.id}, type: {entry.type}, zone: {entry.zone}, count: {entry.count}"
    return f"  - {{{where}, provisioning_model: {entry.model}, chip_limit: {limit}}}"
