"""Faults, injected by name. `FAULTS` says what each does and where it strikes; a `Rule` is one injected fault.

A rule strikes whatever matches its filters, `times` times (None: until it is cleared). Filters that are empty match
everything; a filter on the type or the TPU never matches a listing, which is about a whole zone.
"""

import difflib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from tpufn.domain.cloud import NodeState
from tpufn.domain.errors import InputError
from tpufn.simulation.journal import Table
from tpufn.simulation.life import Event


class Stage(StrEnum):
    """Where a fault strikes."""

    DOOR = "door"  # any call, before anything is done
    CREATE = "create"  # a create that is valid in itself
    DELETE = "delete"  # a delete of something that exists
    AFTER = "after"  # a create or delete that has been applied
    LIST = "list"  # the entries of a listing
    LIFE = "life"  # on the way from accepted to healthy
    LIVE = "live"  # a READY node, as soon as there is one


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One kind of fault. `seconds` is the delay that belongs to it, unless the rule names another."""

    about: str
    stage: Stage
    calls: frozenset[str] = frozenset()  # for faults of calls
    event: Event | None = None  # for faults of the life: what it happens instead of
    seconds: float = 0.0


_ANY = frozenset({"create", "get", "list", "delete"})
_READS, _WRITES = frozenset({"get", "list"}), frozenset({"create", "delete"})
_CREATE, _DELETE = frozenset({"create"}), frozenset({"delete"})


def _door(about: str, calls: frozenset[str] = _ANY) -> Fault:
    return Fault(about=about, stage=Stage.DOOR, calls=calls)


def _create(about: str, *, seconds: float = 0.0) -> Fault:
    return Fault(about=about, stage=Stage.CREATE, calls=_CREATE, seconds=seconds)


def _after(about: str, calls: frozenset[str]) -> Fault:
    return Fault(about=about, stage=Stage.AFTER, calls=calls)


def _delete(about: str, *, seconds: float = 0.0) -> Fault:
    return Fault(about=about, stage=Stage.DELETE, calls=_DELETE, seconds=seconds)


def _life(event: Event, about: str, *, seconds: float = 0.0) -> Fault:
    return Fault(about=about, stage=Stage.LIFE, event=event, seconds=seconds)


def _live(about: str, *, seconds: float = 0.0) -> Fault:
    return Fault(about=about, stage=Stage.LIVE, seconds=seconds)


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "zone-dead": _door("every call in the zone ends without an answer; nothing is applied"),
        "zone-forbidden": _door("every call in the zone is refused: 403, location policy"),
        "permission": _door("get and list are refused: 403, missing permission (never a proof of absence)", _READS),
        "rate-limit": _door("the call is refused: 429 without a quota metric"),
        "timeout-lost": _door("create or delete times out and was not applied", _WRITES),
        "stockout": _create("create is refused: no more capacity in the zone (code 8)"),
        "reserved-stockout": _create("create is refused: insufficient reserved capacity (code 9; code=8 is seen too)"),
        "quota-zero": _create("create is refused: 429, quota limit 0"),
        "quota-zero-operation": _create("create is refused: quota limit 0 in the operation's wording (code 8)"),
        "quota-full": _create("create is refused: quota exhausted in the operation's wording (code 8)"),
        "quota-full-http": _create("create is refused: 429, quota limit above 0 exceeded"),
        "quota-address-create": _create("create is refused: 403, external address quota"),
        "structural-type": _create("create is refused: the type does not exist in the zone (code 3)"),
        "structural-location": _create("create is refused: 403, location policy"),
        "timeout-late": _create("create times out and takes effect later, unseen until then", seconds=120.0),
        "timeout-applied": _after("create or delete times out although it was applied", _WRITES),
        "empty-operation": _after("create was applied, its operation has neither response nor error", _CREATE),
        "delete-refused": _delete("delete is refused in the present state (code 9)"),
        "delete-late": _delete("delete is accepted and takes long", seconds=600.0),
        "list-omits": Fault(
            about="a listing misses a resource that get finds", stage=Stage.LIST, calls=frozenset({"list"})
        ),
        "stockout-late": _life(Event.GRANT, "the queued resource ends FAILED: no more capacity in the zone (code 8)"),
        "quota-address": _life(Event.GRANT, "the queued resource ends FAILED: external address quota (code 8)"),
        "husk": _life(Event.GRANT, "the queued resource ends SUSPENDED without a node and holds its quota"),
        "late-grant": _life(Event.QUEUE, "granted only long after one gave up waiting", seconds=4500.0),
        "preempt-while-creating": _life(Event.READY, "reclaimed while the node is being built: FAILED (code 3)"),
        "create-late": _life(
            Event.READY, "the node is READY while the queued resource stays PROVISIONING for long", seconds=2400.0
        ),
        "ready-no-endpoints": _life(Event.ENDPOINTS, "READY without endpoints for long", seconds=180.0),
        "partial-endpoints": _life(Event.ENDPOINTS, "READY and HEALTHY with one worker missing"),
        "missing-health": _life(Event.HEALTH, "READY whose health is never reported"),
        "ready-unhealthy": _live("READY with UNHEALTHY_MAINTENANCE (for `seconds`, or until deleted)"),
        "node-lost": _live("the node is lost (`end_state`) while the queued resource still says ACTIVE"),
        "preempt": _live("a Spot preemption with `seconds` of notice (0: none)", seconds=30.0),
        "api-lags": _live("the hosts die while the API says READY and HEALTHY for long", seconds=60.0),
    }
)


class Target(NamedTuple):
    """What a fault may strike."""

    zone: str
    name: str = ""
    type: str = ""
    model: str = ""
    call: str = ""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One injected fault. `seconds` are the clock's; None stands for the fault's own delay, divided by `speed`."""

    id: int
    fault: str
    zone: str = ""
    type: str = ""
    tpu: str = ""
    model: str = ""
    call: str = ""
    times: int | None = 1
    seconds: float | None = None
    end_state: NodeState = NodeState.PREEMPTED
    code: int = 0

    def matches(self, target: Target) -> bool:
        wanted = (self.zone, self.tpu, self.type, self.model, self.call)
        return all(want in {"", have} for want, have in zip(wanted, target, strict=True))


class Faults:
    """The injected faults, oldest first. Each change is durable when the call returns."""

    def __init__(self, rules: Table[Rule], turn: Callable[[], AbstractContextManager[object]]) -> None:
        self._rules, self._turn = rules, turn

    def inject(
        self,
        fault: str,
        *,
        zone: str = "",
        type: str = "",
        tpu: str = "",
        model: str = "",
        call: str = "",
        times: int | None = 1,
        seconds: float | None = None,
        end_state: NodeState = NodeState.PREEMPTED,
        code: int = 0,
    ) -> None:
        """Arm a fault. Raises InputError on an unknown name, or on a call that this fault never strikes."""
        _check(fault, call)
        with self._turn():
            rule = Rule(
                id=1 + max((r.id for r in self._rules.values()), default=0),
                fault=fault,
                zone=zone,
                type=type,
                tpu=tpu,
                model=model,
                call=call,
                times=times,
                seconds=seconds,
                end_state=end_state,
                code=code,
            )
            self._rules[_key(rule)] = rule

    def clear(self, fault: str = "") -> None:
        """Disarm one kind of fault, or all."""
        with self._turn():
            for key in [key for key, rule in self._rules.items() if fault in {"", rule.fault}]:
                del self._rules[key]

    def armed(self) -> tuple[Rule, ...]:
        """The rules that can still strike, oldest first."""
        return tuple(self._rules[key] for key in sorted(self._rules))

    def take(self, fault: str, target: Target) -> Rule | None:
        """The oldest rule of this fault that matches, used up by one."""
        rule = next((r for r in self.armed() if r.fault == fault and r.matches(target)), None)
        if rule is None or rule.times is None:
            return rule
        if rule.times > 1:
            self._rules[_key(rule)] = replace(rule, times=rule.times - 1)
        else:
            del self._rules[_key(rule)]
        return rule

    def strike(self, stage: Stage, target: Target) -> Rule | None:
        """The first fault of a stage of calls, in the order of `FAULTS`, that strikes this call."""
        if not self._rules:
            return None
        names = (n for n, f in FAULTS.items() if f.stage is stage and target.call in f.calls)
        return next((rule for name in names if (rule := self.take(name, target))), None)


def _check(fault: str, call: str) -> None:
    if fault not in FAULTS:
        near = difflib.get_close_matches(fault, FAULTS, 1)
        raise InputError(f"there is no fault {fault!r}" + (f"; did you mean {near[0]}?" if near else ""))
    if call and call not in FAULTS[fault].calls:
        raise InputError(f"the fault {fault} never strikes the call {call!r}")


def _key(rule: Rule) -> str:
    return f"{rule.id:08d}"
