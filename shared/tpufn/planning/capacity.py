"""What the cloud is believed to have: by default what users have seen, else what a file says or what was recorded.

A file names places as `MODEL:FAMILY:ZONE`, or `default`, with any of: chips, grant and lifetime as [least, most] in
seconds, stockout_rate. `tpufn simulate --capacity recorded` fits them from the outcomes of the deployment's requests.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

from tpufn.domain.capacity import Class, CreateOutcome
from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet, Model, Pool
from tpufn.simulation.capacity import FIELD_DELAYS, Capacity, Place, Spread, Supply
from tpufn.simulation.life import Event
from tpufn.spec.yaml_source import load

RECORDED = "recorded"
SPOT_LIFETIME = Spread(2 * 3600.0, 48 * 3600.0)
"""Between preemptions of a Spot TPU on an ordinary day."""
DEFAULT = Supply(delays={**FIELD_DELAYS, Event.GRANT: Spread(20.0, 2400.0)}, lifetime=SPOT_LIFETIME)
_KEYS = frozenset({"chips", "grant", "lifetime", "stockout_rate"})
_FEWEST = 3
"""Outcomes of a place from which on they are believed."""


def choose(
    given_as: str | None, fleet: Fleet, *, seed: int, history: Callable[[], Iterable[CreateOutcome]]
) -> Capacity:
    """As the command line says it: nothing, `recorded`, or a file. Raises InputError."""
    if given_as == RECORDED:
        return fitted(history(), fleet, seed=seed)
    return given(given_as, fleet, seed=seed) if given_as else usual(fleet, seed=seed)


def usual(fleet: Fleet, *, seed: int) -> Capacity:
    """Every place of the fleet has what its slots can hold, with the usual waits; only Spot is preempted."""
    return Capacity(seed=seed, default=DEFAULT, supply={place(p): _for(p, DEFAULT) for p in fleet.pools}, worker_cap=1)


def given(path: str | PathLike[str], fleet: Fleet, *, seed: int) -> Capacity:
    """Raises InputError."""
    data = load(path).data
    wrong = [name for name in data if name != "default" and name.count(":") != 2]
    if wrong:
        raise InputError(f"{path}: {wrong[0]}: not a place; write it as spot:v6e:us-east5-a, or `default`")
    base = _changed(DEFAULT, data.get("default", {}), f"{path}: default")
    capacity = usual(fleet, seed=seed)
    named = {
        Place(*name.split(":")): _changed(base, told, f"{path}: {name}")
        for name, told in data.items()
        if name != "default"
    }
    supply = {each: named.get(each, _bought(each, base)) for each in {*capacity.supply, *named}}
    return replace(capacity, default=base, supply=supply)


def fitted(outcomes: Iterable[CreateOutcome], fleet: Fleet, *, seed: int) -> Capacity:
    """From a deployment's own history: how long grants took, and how often there was a stockout."""
    by_place: dict[Place, list[CreateOutcome]] = {}
    for outcome in outcomes:
        if pool := fleet.pool(outcome.pool):
            by_place.setdefault(place(pool), []).append(outcome)
    capacity = usual(fleet, seed=seed)
    seen = {at: _fit(capacity.supply[at], found) for at, found in by_place.items() if len(found) >= _FEWEST}
    return replace(capacity, supply={**capacity.supply, **seen})


def place(pool: Pool) -> Place:
    return Place(pool.model.value, pool.accelerator.family, pool.zone)


def _fit(supply: Supply, outcomes: list[CreateOutcome]) -> Supply:
    waits = sorted(each.waited for each in outcomes if each.result == "granted")
    if waits:
        low, high = waits[len(waits) // 20], waits[-1 - len(waits) // 20]  # without the outermost twentieths
        supply = replace(supply, delays={**supply.delays, Event.GRANT: Spread(low, high)})
    refused = sum(each.result == Class.STOCKOUT for each in outcomes)
    return replace(supply, stockout_rate=refused / len(outcomes))


def _for(pool: Pool, supply: Supply) -> Supply:
    return _bought(place(pool), supply)


def _bought(at: Place, supply: Supply) -> Supply:
    return supply if at.model == Model.SPOT else replace(supply, lifetime=None)


def _changed(base: Supply, told: Mapping[str, Any], where: str) -> Supply:
    unknown = sorted(set(told) - _KEYS)
    if unknown:
        raise InputError(f"{where}: unknown key {unknown[0]!r}; there are {', '.join(sorted(_KEYS))}")
    try:
        changes: dict[str, Any] = {}
        if "chips" in told:
            changes["chips"] = int(str(told["chips"]))
        if "stockout_rate" in told:
            changes["stockout_rate"] = float(str(told["stockout_rate"]))
        if "lifetime" in told:
            changes["lifetime"] = _spread(told["lifetime"])
        if "grant" in told:
            changes["delays"] = {**base.delays, Event.GRANT: _spread(told["grant"])}
    except (TypeError, ValueError):
        raise InputError(
            f"{where}: numbers are needed: chips: 256, grant: [20, 2400], lifetime: [7200, 172800]"
        ) from None
    return replace(base, **changes)


def _spread(told: Any) -> Spread:
    low, high = (float(str(number)) for number in told)
    if not 0 <= low <= high:
        raise ValueError(told)
    return Spread(low, high)
