"""A job: what a user submits. `Job` holds what scheduling needs, `JobSpec` (write-once) all the rest."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, Self

from tpufn.domain.machine import allows, step


class JobState(StrEnum):
    PENDING = "pending"
    WAITING = "waiting"  # for a stop proof, or for a backoff to pass
    ACTIVE = "active"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


class JobEvent(StrEnum):
    ASSIGN = "assign"
    DETACH = "detach"  # its attempt has a verdict that asks for a retry
    REQUEUE = "requeue"  # stop proof and backoff are both behind it
    CANCEL = "cancel"
    STOPPED = "stopped"  # the cancel is verified
    SUCCEED = "succeed"
    FAIL = "fail"


_S, _E = JobState, JobEvent
JOB_TABLE: Mapping[JobState, Mapping[JobEvent, JobState]] = MappingProxyType(
    {
        _S.PENDING: {_E.ASSIGN: _S.ACTIVE, _E.CANCEL: _S.CANCELLED, _E.FAIL: _S.FAILED},
        _S.WAITING: {
            _E.REQUEUE: _S.PENDING,
            _E.CANCEL: _S.CANCELLING,
            _E.SUCCEED: _S.SUCCEEDED,
            _E.FAIL: _S.FAILED,
        },
        _S.ACTIVE: {
            _E.SUCCEED: _S.SUCCEEDED,
            _E.FAIL: _S.FAILED,
            _E.DETACH: _S.WAITING,
            _E.CANCEL: _S.CANCELLING,
        },
        _S.CANCELLING: {_E.STOPPED: _S.CANCELLED},
        _S.SUCCEEDED: {},
        _S.FAILED: {},
        _S.CANCELLED: {},
        _S.REJECTED: {},
    }
)

TERMINAL = frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED, _S.REJECTED})
DEMAND = frozenset({_S.PENDING, _S.WAITING})
"""The states in which a job wants capacity."""


class Priority(IntEnum):
    """Higher runs first. tpu-runner knows the same three names."""

    LOW = 0
    NORMAL = 1
    HIGH = 2

    @property
    def label(self) -> str:
        return self.name.lower()


def rank(priority: Priority, constrainedness: int, submitted_at: float, job: str) -> str:
    """A string that sorts jobs into the order of placement: first is served first.

    `constrainedness` is the number of pools that accept the job when it becomes pending; fewer goes first.
    """
    return f"{9 - priority}-{min(constrainedness, 9999):04d}-{int(submitted_at * 1000):014d}-{job}"


@dataclass(frozen=True, kw_only=True)
class Job:
    """The document `jobs/{id}`: scheduling fields only. Times are Unix seconds, 0 for "not set"."""

    id: str
    name: str = ""
    state: JobState = JobState.PENDING
    since: float = 0.0
    priority: Priority = Priority.NORMAL
    submitted_at: float = 0.0
    rank: str = ""
    accepts: tuple[str, ...] = ()  # keys of pools and slots that it can use now (see `placement keys`)
    unpinned: tuple[str, ...] = ()  # the same before a region was pinned
    buckets: Mapping[str, str] = field(default_factory=dict)  # region -> bucket name
    caches: tuple[str, ...] = ()
    region: str = ""  # the pin; "" while any candidate region will do
    region_started: bool = False  # whether a worker has started in that region: then the pin is for good
    attempt: int = 0  # the newest attempt's number
    slot: str = ""  # where its unclosed attempt is
    preemptions: int = 0
    infrastructure_failures: int = 0
    application_failures: int = 0
    unfit: int = 0  # TPUs in a row on which it could not even start
    quick_failures: int = 0  # infrastructure failures in a row soon after the start
    due_at: float = 0.0  # when a backoff ends
    queue_deadline_at: float = 0.0
    cause: str = ""  # why it is in its state, in words
    unschedulable: str = ""  # why nothing in the fleet can ever run it
    submission: str = ""
    digest: str = ""  # of the submission's body: the same id with another digest is a conflict
    correlation_id: str = ""
    retries: int = 0  # jobs made from this one by `tpufn retry`
    notes: int = 0  # history entries written
    version: str = ""

    def on(self, event: JobEvent, *, now: float, **changes: Any) -> Self:
        """This job after `event`. Raises IllegalTransition."""
        state = step(JOB_TABLE, self.state, event)
        return replace(self, state=state, since=now, **changes)

    def allows(self, event: JobEvent) -> bool:
        return allows(JOB_TABLE, self.state, event)

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def wants_capacity(self) -> bool:
        return self.state in DEMAND


@dataclass(frozen=True, kw_only=True)
class Cache:
    """A directory below JOB_DIR that survives on the worker from one job to the next once it holds `.ready`."""

    key: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often each kind of failure is tried again. None is unlimited."""

    preemption: int | None = None
    infrastructure: int | None = 10
    application: int = 0
    application_exit_codes: tuple[int, ...] = ()  # empty: any exit code


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The source tree as one archive. Content-addressed: `key` in every candidate bucket; or literally `uri`."""

    sha256: str = ""
    size: int = 0
    files: int = 0
    uri: str = ""

    @property
    def key(self) -> str:
        return f"bundles/{self.sha256}.tar.gz"


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """The document `specs/{job}`: write-once. Durations are seconds; None where the file set none."""

    id: str
    name: str = ""
    command: str = ""
    tpu: tuple[str, ...] = ()  # API type names, or ("any",)
    zone: str = ""
    tpu_name: str = ""
    provisioning_model: str = ""  # "" for any
    buckets: Mapping[str, str] = field(default_factory=dict)  # region -> bucket name
    bundle: Bundle = field(default_factory=Bundle)
    priority: Priority = Priority.NORMAL
    caches: tuple[Cache, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)  # ENV -> secret[@version]
    labels: Mapping[str, str] = field(default_factory=dict)
    retries: Retries = field(default_factory=Retries)
    max_runtime: float | None = None
    queue_deadline: float | None = None
    finish_timeout: float = 600.0
    checkpoints_of: str = ""  # the job whose checkpoints it continues; "" for its own
    version: str = ""

    @property
    def checkpoints(self) -> str:
        """The prefix of its checkpoints in its bucket."""
        return f"jobs/{self.checkpoints_of or self.id}/checkpoints"
