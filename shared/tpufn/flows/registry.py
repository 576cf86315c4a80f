"""Which function is woken by what: the one table that the embedded engine and the deployed functions share."""

import functools
from collections.abc import Mapping
from importlib import import_module

from tpufn.domain.events import Command as CommandEvent
from tpufn.domain.events import (
    Event,
    Notice,
    PreemptionNotice,
    Submission,
    Tick,
    Wake,
    WorkerEvent,
    WorkerReady,
    Written,
)
from tpufn.runner import Function

_HOMES: Mapping[str, str] = {
    "submit": "submission",
    "capacity_race": "placement",
    "assign": "placement",
    "execute": "attempts",
    "preemption": "attempts",
    "control": "attempts",
    "autoscale": "sweep",
    "idle_teardown": "placement",
    "notify": "notices",
}
"""The module of each function, which has it under its name in capitals."""


@functools.cache
def function(name: str) -> Function:
    """By its name. Imported when it is asked for: what is deployed is one function and does not wait for the others."""
    found: Function = getattr(import_module(f"tpufn.flows.{_HOMES[name]}"), name.upper())
    return found


def woken_by(event: Event) -> tuple[Function, ...]:
    """The functions that an event wakes, in the order in which an embedded engine runs them."""
    return tuple(map(function, names(event)))


def names(event: Event) -> tuple[str, ...]:
    """The same by name."""
    match event:
        case Submission():
            return ("submit",)
        case CommandEvent():
            return ("control",)
        case WorkerEvent() | Written(kind="attempt"):
            return ("execute",)
        case PreemptionNotice():
            return ("preemption",)
        case WorkerReady():
            return ("autoscale",)
        case Notice():
            return ("notify",)
        case Tick():
            return ("autoscale", "idle_teardown")
        case Written(kind="job") | Written(kind="slot"):
            return ("assign", "capacity_race")
        case Wake(entity=entity):
            return ("execute",) if entity.startswith("attempt:") else _placement(entity)
        case _:
            return ()


def cares(function: str, event: Event) -> bool:
    """Whether the event is one of those that wake the function: subscriptions may deliver more."""
    return function in names(event)


def _placement(entity: str) -> tuple[str, ...]:
    return ("assign", "capacity_race") if entity.startswith("placement:") else ("capacity_race",)
