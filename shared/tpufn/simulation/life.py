"""The life of a queued resource and its node, as one table.

    creating > accepted > waiting > provisioning > building > active > (suspending > suspended) > deleting > gone

The queued resource's state follows from the phase, the node's from the last event (Cloud TPU API, queued resources:
WAITING_FOR_RESOURCES replaced ACCEPTED as the state of the queue, both occur; FAILED and SUSPENDED stay until deleted).
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from tpufn.domain.cloud import NodeState, QueuedResourceState


class Phase(StrEnum):
    UNSEEN = "unseen"  # the call that made it timed out and has not taken effect yet
    CREATING = "creating"
    ACCEPTED = "accepted"
    WAITING = "waiting"
    PROVISIONING = "provisioning"  # granted: it holds capacity from here on
    BUILDING = "building"
    LAGGING = "lagging"  # the node is READY, the queued resource still says PROVISIONING
    ACTIVE = "active"
    LOST = "lost"  # the node is lost, the queued resource still says ACTIVE
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    FAILED = "failed"
    DELETING = "deleting"
    GONE = "gone"


class Event(StrEnum):
    APPEAR = "appear"
    ACCEPT = "accept"
    QUEUE = "queue"
    GRANT = "grant"
    BUILD = "build"
    READY = "ready"
    LAG = "lag"  # READY, but the queued resource does not say so yet
    CONFIRM = "confirm"  # ... and now it does
    ENDPOINTS = "endpoints"
    HEALTH = "health"
    NOTICE = "notice"
    KILL = "kill"  # the hosts die while the API still says READY
    PREEMPT = "preempt"
    LOSE = "lose"
    SUSPEND = "suspend"
    FAIL = "fail"
    STARVE = "starve"  # waited too long for chips
    EXPIRE = "expire"  # past valid_until before it was granted
    DELETE = "delete"
    GONE = "gone"


_P, _E, _Q, _N = Phase, Event, QueuedResourceState, NodeState

_READY: Mapping[Event, Phase] = {
    _E.PREEMPT: _P.SUSPENDING,
    _E.LOSE: _P.LOST,
    _E.DELETE: _P.DELETING,
}
LIFE: Mapping[Phase, Mapping[Event, Phase]] = MappingProxyType(
    {
        _P.UNSEEN: {_E.APPEAR: _P.CREATING},
        _P.CREATING: {
            _E.ACCEPT: _P.ACCEPTED,
            _E.FAIL: _P.FAILED,
            _E.EXPIRE: _P.FAILED,
            _E.DELETE: _P.DELETING,
        },
        _P.ACCEPTED: {
            _E.QUEUE: _P.WAITING,
            _E.FAIL: _P.FAILED,
            _E.EXPIRE: _P.FAILED,
            _E.DELETE: _P.DELETING,
        },
        _P.WAITING: {
            _E.GRANT: _P.PROVISIONING,
            _E.SUSPEND: _P.SUSPENDED,
            _E.FAIL: _P.FAILED,
            _E.STARVE: _P.FAILED,
            _E.EXPIRE: _P.FAILED,
            _E.DELETE: _P.DELETING,
        },
        _P.PROVISIONING: {_E.BUILD: _P.BUILDING, _E.FAIL: _P.FAILED, _E.DELETE: _P.DELETING},
        _P.BUILDING: {
            _E.READY: _P.ACTIVE,
            _E.LAG: _P.LAGGING,
            _E.FAIL: _P.FAILED,
            _E.DELETE: _P.DELETING,
        },
        _P.LAGGING: {
            _E.CONFIRM: _P.ACTIVE,
            **dict.fromkeys((_E.ENDPOINTS, _E.HEALTH, _E.NOTICE, _E.KILL), _P.LAGGING),
            **_READY,
        },
        _P.ACTIVE: {
            **dict.fromkeys((_E.ENDPOINTS, _E.HEALTH, _E.NOTICE, _E.KILL), _P.ACTIVE),
            **_READY,
        },
        _P.LOST: {_E.DELETE: _P.DELETING},
        _P.SUSPENDING: {_E.SUSPEND: _P.SUSPENDED, _E.DELETE: _P.DELETING},
        _P.SUSPENDED: {_E.DELETE: _P.DELETING},
        _P.FAILED: {_E.DELETE: _P.DELETING},
        _P.DELETING: {_E.DELETE: _P.DELETING, _E.GONE: _P.GONE},
        _P.GONE: {},
    }
)

NEXT: Mapping[Event, tuple[Event, ...]] = MappingProxyType(
    {
        _E.APPEAR: (_E.ACCEPT,),
        _E.ACCEPT: (_E.QUEUE,),
        _E.QUEUE: (_E.GRANT,),
        _E.GRANT: (_E.BUILD,),
        _E.BUILD: (_E.READY,),
        _E.READY: (_E.ENDPOINTS,),
        _E.LAG: (_E.ENDPOINTS, _E.CONFIRM),
        _E.ENDPOINTS: (_E.HEALTH,),
        _E.PREEMPT: (_E.SUSPEND,),
        _E.DELETE: (_E.GONE,),
    }
)
"""What follows an event by itself, each after its own delay."""

SHOWN: Mapping[Phase, QueuedResourceState] = MappingProxyType(
    {
        _P.CREATING: _Q.CREATING,
        _P.ACCEPTED: _Q.ACCEPTED,
        _P.WAITING: _Q.WAITING_FOR_RESOURCES,
        _P.PROVISIONING: _Q.PROVISIONING,
        _P.BUILDING: _Q.PROVISIONING,
        _P.LAGGING: _Q.PROVISIONING,
        _P.ACTIVE: _Q.ACTIVE,
        _P.LOST: _Q.ACTIVE,
        _P.SUSPENDING: _Q.SUSPENDING,
        _P.SUSPENDED: _Q.SUSPENDED,
        _P.FAILED: _Q.FAILED,
        _P.DELETING: _Q.DELETING,
    }
)
"""The queued resource's state as the API shows it. Phases that are missing here show nothing at all."""

NODE_AFTER: Mapping[Event, NodeState] = MappingProxyType(
    {_E.BUILD: _N.CREATING, _E.READY: _N.READY, _E.LAG: _N.READY, _E.PREEMPT: _N.PREEMPTED, _E.LOSE: _N.UNKNOWN}
)
"""The node's state after an event, unless the event says otherwise."""

UNFORCED_DELETE = frozenset({_Q.ACCEPTED, _Q.WAITING_FOR_RESOURCES, _Q.SUSPENDED, _Q.FAILED})
"""The states in which the service never refuses a delete."""


@cache
def reachable(phase: Phase) -> frozenset[Event]:
    """Every event that can still happen to something in `phase`."""
    seen: set[Phase] = set()
    todo = [phase]
    while todo:
        here = todo.pop()
        if here not in seen:
            seen.add(here)
            todo.extend(LIFE[here].values())
    return frozenset(event for here in seen for event in LIFE[here])
