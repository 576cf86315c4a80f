"""What wakes a function. An event is only a hint: late, double, out of order, or lost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Written:
    """A document changed: `kind` is "job", "slot" or "attempt"."""

    kind: str
    id: str


@dataclass(frozen=True, kw_only=True)
class Wake:
    """A tick found something overdue that another function owns. `entity` as in the outbox."""

    entity: str


@dataclass(frozen=True, kw_only=True)
class Tick:
    """Compare what is with what should be. `full`: list the cloud even when every slot is free."""

    full: bool = False


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One job file that arrived on the topic `submissions`. `body` is the documented JSON."""

    id: str
    body: Mapping[str, Any]
    correlation_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One wish of a person, on the topic `commands`. It names what the person saw and is a no-op otherwise.

    verbs: cancel, set-priority, retry, interrupt (jobs); hold, queue, race, release, delete (slots of people)
    """

    verb: str
    target: str  # a job or a slot
    args: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkerEvent:
    """A worker's message: accepted, prepared, exited or closed. Only a hint: the bucket has the truth."""

    attempt: str
    worker: int
    what: str


@dataclass(frozen=True, kw_only=True)
class PreemptionNotice:
    """A worker's preemption notice, or the tick's finding that a node was reclaimed."""

    slot: str
    generation: int
    attempt: str = ""
    found: str = "notice"


@dataclass(frozen=True, kw_only=True)
class WorkerReady:
    """A worker finished booting. `startup` is how the deployment's own script ended: its exit code and last words."""

    slot: str
    generation: int
    worker: int = 0
    tpu: str = ""
    host_key: str = ""
    startup: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something happened, for people and for other services: a published note."""

    event: str
    subject: str
    reason: str = ""
    job: str = ""
    attempt: str = ""
    slot: str = ""
    correlation_id: str = ""
    at: float = 0.0
    id: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


Event = Written | Wake | Tick | Submission | Command | WorkerEvent | PreemptionNotice | WorkerReady | Notice
