"""What must hold between the keys of a deployment file, and what is worth a warning."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tpufn.domain.accelerators import FAMILIES
from tpufn.domain.fleet import zone_code
from tpufn.domain.slot import cloud_name
from tpufn.spec.fleet_model import TpuKeys
from tpufn.spec.pools import Declared, PlacedPool, default_runtime, scope
from tpufn.spec.problems import Loc, did_you_mean
from tpufn.spec.scalars import slugified

Fault = tuple[Loc, str]

MAX_NAME = 63
MANY_GENERATIONS = 99_999
ADDRESSES = 8  # the usual quota of external addresses in a region
MAX_SLOTS = 10_000


def problems(declared: Declared, pools: Sequence[PlacedPool]) -> Iterator[Fault]:
    """Everything that makes the file unusable."""
    for index, entry in declared.entries.items():
        for rule in (_place, _amount, _reservation, _size, _runtime, _entry_id):
            yield from ((("tpus", index, *loc), text) for loc, text in rule(entry))
    yield from _limits(declared)
    yield from _names(declared, pools)
    yield from _codes(declared)
    if declared.keys.writable_prefixes and not declared.keys.buckets:
        yield ("writable_prefixes",), "needs `buckets`: list the buckets that it is about"


def advice(declared: Declared, pools: Sequence[PlacedPool]) -> Iterator[Fault]:
    """Everything that will probably not work as it stands."""
    keys = declared.keys
    for index, entry in declared.entries.items():
        yield from ((("tpus", index, *loc), text) for loc, text in (*_odd_zones(entry), *_odd_runtime(entry)))
    if keys.ssh_transport == "direct":
        yield from _addresses(pools)
    if keys.ntfy_topic and keys.ntfy_server == "https://ntfy.sh":
        yield ("ntfy_topic",), "whoever guesses this name can read the notices; make it long, or use an own ntfy_server"


def _place(entry: TpuKeys) -> Iterator[Fault]:
    if entry.zone and entry.zones:
        yield ("zones",), "stands beside `zone`; keep one of them"
    elif not entry.all_zones:
        yield ("zone",), "is missing; write, for example, `zone: us-central2-b`, or `zones:` with a list"
    for index, zone in enumerate(entry.zones):
        if zone in entry.zones[:index]:
            yield ("zones", index), f"{zone} is listed twice; keep one"
    if entry.existing and len(entry.all_zones) > 1:
        yield ("zones",), f"{entry.existing} is in one zone; write `zone:` with it"


def _amount(entry: TpuKeys) -> Iterator[Fault]:
    if entry.existing:
        if entry.keep_warm_count:
            yield ("keep_warm_count",), "has no meaning for an `existing` TPU, which is never deleted; drop it"
    elif entry.count is None:
        yield ("count",), "is missing; write, for example, `count: 1`, the most TPUs there may be"
    elif entry.keep_warm_count > entry.count:
        yield ("keep_warm_count",), f"is {entry.keep_warm_count}, more than count {entry.count}; raise `count`"
    elif entry.count > MAX_SLOTS:
        yield ("count",), f"is over {MAX_SLOTS}; the slots of a fleet are a fixed table"


def _reservation(entry: TpuKeys) -> Iterator[Fault]:
    if entry.provisioning_model == "reserved" and not entry.reservation and not entry.existing:
        yield ("reservation",), "is missing; `provisioning_model: reserved` needs the reservation's name"
    if entry.reservation and entry.provisioning_model != "reserved":
        yield ("reservation",), f"is for `provisioning_model: reserved`, not {entry.provisioning_model}; drop one"


def _size(entry: TpuKeys) -> Iterator[Fault]:
    chips = entry.accelerator.chips
    if entry.chip_limit and chips > entry.chip_limit:
        text = f"one {entry.type} has {chips} chips, more than the limit of {entry.chip_limit}"
        yield ("chip_limit",), f"{text}; raise the limit, or take a smaller type"


def _runtime(entry: TpuKeys) -> Iterator[Fault]:
    family = FAMILIES[entry.accelerator.family]
    if entry.runtime is None or entry.allow_runtime or entry.runtime in family.runtimes:
        return
    others = [f.name for f in FAMILIES.values() if entry.runtime in f.runtimes]
    if others:
        right = " or ".join(family.runtimes)
        text = f"{entry.runtime} is for {', '.join(others)}, not for {family.name}; write {right}"
        yield ("runtime",), f"{text}, or add `allow_runtime: true`"


def _entry_id(entry: TpuKeys) -> Iterator[Fault]:
    if entry.id is not None and not slugified(entry.id):
        yield ("id",), "must have lowercase letters or digits"


def _limits(declared: Declared) -> Iterator[Fault]:
    first: dict[tuple[str, str, str], tuple[int, int]] = {}
    for index, entry in declared.entries.items():
        for zone in entry.all_zones if entry.chip_limit else ():
            model, family, _ = place = scope(entry, zone)
            other, limit = first.setdefault(place, (index, entry.chip_limit or 0))
            if limit != entry.chip_limit:
                where = f"{model} {family} in {zone}"
                text = f"{entry.chip_limit} disagrees with tpus[{other}], which says {limit} for {where}"
                yield ("tpus", index, "chip_limit"), f"{text}; they share one quota, so write the same number"
                break


def _names(declared: Declared, pools: Sequence[PlacedPool]) -> Iterator[Fault]:
    """Ids and slot names must be unique, and cloud names short enough."""
    ids: dict[str, int] = {}
    slots: dict[str, int] = {}
    for index, pool in pools:
        at: Loc = ("tpus", index, "existing" if pool.existing else "id" if declared.entries[index].id else "type")
        if ids.setdefault(pool.id, index) != index:
            yield at, f"{pool.id} is declared by tpus[{ids[pool.id]}] too; raise its `count`, or give this one an `id`"
            continue
        taken = next((name for name in pool.slots if slots.setdefault(name, index) != index), "")
        if taken:
            yield at, f"{taken} is a slot of tpus[{slots[taken]}] too; give one of them another `id`"
        longest = cloud_name(declared.keys.name, f"{pool.id}-{max(pool.count, 1)}", MANY_GENERATIONS)
        if not pool.existing and len(longest) > MAX_NAME:
            excess = len(longest) - MAX_NAME
            yield (
                at,
                f"makes TPU names such as {longest}, {excess} over {MAX_NAME}; shorten `id` or `name`",
            )


def _codes(declared: Declared) -> Iterator[Fault]:
    codes = declared.keys.zone_codes
    for zone, code in codes.items():
        others = [z for entry in declared.entries.values() for z in entry.all_zones if z != zone]
        clash = next((z for z in others if codes.get(z, zone_code(z)) == code), None)
        if clash:
            yield ("zone_codes", zone), f"{code} is the code of {clash} too; choose another"


def _odd_zones(entry: TpuKeys) -> Iterator[Fault]:
    family = FAMILIES[entry.accelerator.family]
    for index, zone in enumerate(entry.all_zones):
        if zone not in family.zones:
            loc: Loc = ("zones", index) if entry.zones else ("zone",)
            near = did_you_mean(zone, family.zones) or f"; it is in {', '.join(family.zones)}"
            yield loc, f"{family.name} is not known to be in {zone}{near}"


def _odd_runtime(entry: TpuKeys) -> Iterator[Fault]:
    known = {runtime for family in FAMILIES.values() for runtime in family.runtimes}
    if entry.runtime and not entry.allow_runtime and entry.runtime not in known:
        right = default_runtime(entry.type)
        yield ("runtime",), f"{entry.runtime} is not a known runtime; {right} is usual for {entry.accelerator.family}"


def _addresses(pools: Sequence[PlacedPool]) -> Iterator[Fault]:
    """External addresses are scarce: each host of a public TPU takes one."""
    hosts: Counter[str] = Counter()
    for _, pool in pools:
        hosts[pool.region] += pool.accelerator.hosts * pool.count
    many = [f"{number} in {region}" for region, number in hosts.items() if number > ADDRESSES]
    if many:
        text = f"each host needs a public address ({', '.join(many)}); the quota IN_USE_ADDRESSES is often {ADDRESSES}"
        yield ("ssh_transport",), f"{text}. Raise it, or write `ssh_transport: iap`"
