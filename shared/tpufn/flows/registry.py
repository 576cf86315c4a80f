"""Which function is woken by what: the one table that the embedded engine and the deployed functions share."""

from collections.abc import Mapping

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
from tpufn.flows.attempts import CONTROL, EXECUTE, PREEMPTION
from tpufn.flows.notices import NOTIFY
from tpufn.flows.placement import ASSIGN, CAPACITY_RACE, IDLE_TEARDOWN
from tpufn.flows.submission import SUBMIT
from tpufn.flows.sweep import AUTOSCALE
from tpufn.runner import Function

FUNCTIONS: Mapping[str, Function] = {
    f.name: f for f in (SUBMIT, CAPACITY_RACE, ASSIGN, EXECUTE, PREEMPTION, CONTROL, AUTOSCALE, IDLE_TEARDOWN, NOTIFY)
}


def woken_by(event: Event) -> tuple[Function, ...]:
    """The functions that an event wakes, in the order in which an embedded engine runs them."""
    match event:
        case Submission():
            return (SUBMIT,)
        case CommandEvent():
            return (CONTROL,)
        case WorkerEvent() | Written(kind="attempt"):
            return (EXECUTE,)
        case PreemptionNotice():
            return (PREEMPTION,)
        case WorkerReady():
            return (AUTOSCALE,)
        case Notice():
            return (NOTIFY,)
        case Tick():
            return (AUTOSCALE, IDLE_TEARDOWN)
        case Written(kind="job") | Written(kind="slot"):
            return (ASSIGN, CAPACITY_RACE)
        case Wake(entity=entity):
            return (EXECUTE,) if entity.startswith("attempt:") else _placement(entity)
        case _:
            return ()


def cares(function: Function, event: Event) -> bool:
    """Whether the event is one of those that wake the function: subscriptions may deliver more."""
    return function in woken_by(event)


def _placement(entity: str) -> tuple[Function, ...]:
    return (ASSIGN, CAPACITY_RACE) if entity.startswith("placement:") else (CAPACITY_RACE,)
