"""A slot: one reservable place of a pool. It holds at most one TPU; each TPU it holds has a new generation.

The lease (slot, generation, fence, attempt) lives in the slot's document and never expires: only a closed attempt ends
it. `fence` grows with every lease of a generation, so that a worker can tell a late launch from a current one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from tpufn.domain.machine import allows, step


class SlotState(StrEnum):
    FREE = "free"
    REQUESTING = "requesting"
    WAITING = "waiting"
    PROVISIONING = "provisioning"
    BOOTING = "booting"
    IDLE = "idle"
    BUSY = "busy"
    CLEANING = "cleaning"
    RELEASING = "releasing"
    RETIRED = "retired"


class SlotEvent(StrEnum):
    REQUEST = "request"  # capacity is asked for: a new generation
    QUEUED = "queued"  # the cloud accepted the queued resource
    GRANTED = "granted"  # the cloud is building the TPU: the race is won here
    STARTED = "started"  # the node says READY
    USABLE = "usable"  # READY, HEALTHY, every worker answers
    LEASE = "lease"  # an attempt takes the TPU
    SETTLED = "settled"  # the attempt's verdict is in, its stop proof is not
    VACATE = "vacate"  # the attempt is closed and left the TPU clean
    RELEASE = "release"  # delete the TPU
    GONE = "gone"  # the cloud says not found, for queued resource and node
    ADOPT = "adopt"  # a late grant of ours is taken after all
    APPEAR = "appear"  # an `existing` TPU is there
    VANISH = "vanish"  # an `existing` TPU is not there any more
    RETIRE = "retire"  # the pool left the deployment file
    RESTORE = "restore"  # ... and came back


_S, _E = SlotState, SlotEvent
SLOT_TABLE: Mapping[SlotState, Mapping[SlotEvent, SlotState]] = MappingProxyType(
    {
        _S.FREE: {
            _E.REQUEST: _S.REQUESTING,
            _E.ADOPT: _S.REQUESTING,
            _E.APPEAR: _S.BOOTING,
            _E.RETIRE: _S.RETIRED,
        },
        _S.REQUESTING: {
            _E.QUEUED: _S.WAITING,
            _E.GRANTED: _S.PROVISIONING,
            _E.RELEASE: _S.RELEASING,
        },
        _S.WAITING: {_E.GRANTED: _S.PROVISIONING, _E.RELEASE: _S.RELEASING},
        _S.PROVISIONING: {_E.STARTED: _S.BOOTING, _E.RELEASE: _S.RELEASING},
        _S.BOOTING: {_E.USABLE: _S.IDLE, _E.RELEASE: _S.RELEASING, _E.VANISH: _S.FREE},
        _S.IDLE: {_E.LEASE: _S.BUSY, _E.RELEASE: _S.RELEASING, _E.VANISH: _S.FREE},
        _S.BUSY: {_E.SETTLED: _S.CLEANING},
        _S.CLEANING: {
            _E.VACATE: _S.IDLE,
            _E.RELEASE: _S.RELEASING,
            _E.VANISH: _S.FREE,
        },
        _S.RELEASING: {_E.GONE: _S.FREE},
        _S.RETIRED: {_E.RESTORE: _S.FREE},
    }
)

LEGS = frozenset({_S.REQUESTING, _S.WAITING, _S.PROVISIONING, _S.BOOTING})
"""The states of a leg of a race: asked for, not yet usable."""
THERE = frozenset({_S.IDLE, _S.BUSY, _S.CLEANING})
"""The states in which a TPU is there and counts towards a warm floor."""
HOLDING_CHIPS = LEGS | {_S.IDLE, _S.BUSY, _S.CLEANING, _S.RELEASING}
"""The states whose chips count against a chip limit."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The ownership of a slot by an attempt. Workers refuse a launch at or below a fence that they have seen ended."""

    slot: str
    generation: int
    fence: int
    attempt: str


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One host of a node: its address as the job's siblings see it, and where we reach it (host or host:port)."""

    address: str
    reach: str = ""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The document `slots/{name}`. Times are Unix seconds; `version` is the store's and "" means not stored yet."""

    name: str
    pool: str
    zone: str = ""
    type: str = ""
    scope: str = ""  # the chip scope; kept here for the time after its pool has left the file
    adopted: bool = False  # an `existing` TPU: used like the rest, never created or deleted
    state: SlotState = SlotState.FREE
    since: float = 0.0
    generation: int = 0
    fence: int = 0
    tpu: str = ""  # the cloud name of queued resource and node
    requested_at: float = 0.0
    create_settled: bool = True  # whether the outcome of this generation's create is known
    deadline: float = 0.0  # when the present leg state is overdue
    workers: tuple[Worker, ...] = ()
    lease: Lease | None = None
    hold: str = ""  # who holds it for themselves; "" for nobody
    group: str = ""  # the race of people's slots that it takes part in: won at the first grant
    idle_since: float = 0.0
    caches: tuple[str, ...] = ()  # keys of the caches that its workers have ready
    last_job: str = ""
    cause: str = ""  # why it is in its state, in words
    quick_failures: tuple[str, ...] = ()  # jobs that died here soon after their start
    deletes: int = 0  # how often this generation was to be deleted; above 0 it is never adopted
    version: str = ""

    def on(self, event: SlotEvent, *, now: float, **changes: Any) -> Self:
        """This slot after `event`. Raises IllegalTransition; `since` moves only with the state."""
        state = step(SLOT_TABLE, self.state, event)
        since = self.since if state is self.state else now
        return replace(self, state=state, since=since, **changes)

    def allows(self, event: SlotEvent) -> bool:
        return allows(SLOT_TABLE, self.state, event)

    @property
    def is_leg(self) -> bool:
        return self.state in LEGS

    @property
    def holds_chips(self) -> bool:
        return self.state in HOLDING_CHIPS


def cloud_name(deployment: str, slot: str, generation: int) -> str:
    """The cloud name of a slot's generation. Valid as a node id: lowercase letters, digits, hyphens."""
    return f"tpufn-{deployment}-{slot}-g{generation}"
