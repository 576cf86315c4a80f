"""An attempt: one try of one job on one slot's TPU. It is over only when it is closed, with an outcome and a proof."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from tpufn.domain.machine import allows, step
from tpufn.domain.slot import Lease, Worker


class AttemptState(StrEnum):
    ASSIGNED = "assigned"
    LAUNCHING = "launching"
    RUNNING = "running"
    SETTLING = "settling"
    STOPPING = "stopping"
    CLOSED = "closed"


class AttemptEvent(StrEnum):
    LAUNCH = "launch"  # the workers are being told
    GO = "go"  # all workers are prepared: the command may start
    DOUBT = "doubt"  # a non-zero exit or silence: wait for evidence
    REVIVE = "revive"  # the silence was a false alarm
    DECIDE = "decide"  # the verdict: an outcome is recorded, the workers are stopped
    CLOSE = "close"  # the stop proof: nothing of it runs any more


_S, _E = AttemptState, AttemptEvent
ATTEMPT_TABLE: Mapping[AttemptState, Mapping[AttemptEvent, AttemptState]] = MappingProxyType(
    {
        _S.ASSIGNED: {_E.LAUNCH: _S.LAUNCHING, _E.DECIDE: _S.STOPPING},
        _S.LAUNCHING: {_E.GO: _S.RUNNING, _E.DOUBT: _S.SETTLING, _E.DECIDE: _S.STOPPING},
        _S.RUNNING: {_E.DOUBT: _S.SETTLING, _E.DECIDE: _S.STOPPING},
        _S.SETTLING: {_E.REVIVE: _S.RUNNING, _E.DECIDE: _S.STOPPING},
        _S.STOPPING: {_E.CLOSE: _S.CLOSED},
        _S.CLOSED: {},
    }
)


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # the application's own failure, or its set-up's
    TIMED_OUT = "timed-out"  # max_runtime passed, or the workers did not finish together
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    INFRASTRUCTURE = "infrastructure"  # lost, unreachable, killed from outside
    UNFIT = "unfit"  # the TPU was not usable: replaced, and nothing counted against the job
    INTERRUPTED = "interrupted"  # a person gave the TPU up: the job retries


RETRIED = frozenset({Outcome.PREEMPTED, Outcome.INFRASTRUCTURE, Outcome.UNFIT, Outcome.INTERRUPTED})
"""The outcomes that are never the user's failure."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The document `jobs/{job}/attempts/{number}`. Times are Unix seconds, 0 for "not yet"."""

    job: str
    number: int
    lease: Lease
    tpu: str
    pool: str
    zone: str
    region: str
    bucket: str
    workers: tuple[Worker, ...]
    state: AttemptState = AttemptState.ASSIGNED
    since: float = 0.0
    created_at: float = 0.0
    accepted: bool = False  # the launch has reached every worker
    started_at: float = 0.0  # `go`: the command runs
    first_zero_at: float = 0.0
    ended_at: float = 0.0
    due_at: float = 0.0  # when the present state is overdue
    due: str = ""  # ... and what is overdue then
    outcome: Outcome | None = None
    cause: str = ""  # the verdict in words
    evidence: tuple[str, ...] = ()
    exit_codes: tuple[int | None, ...] = ()
    failed_worker: int | None = None
    tail: str = ""  # the last lines of the failed worker's output
    release: bool = False  # the TPU is given up when the attempt closes
    correlation_id: str = ""
    version: str = ""

    @property
    def id(self) -> str:
        return attempt_id(self.job, self.number)

    @property
    def slot(self) -> str:
        return self.lease.slot

    @property
    def prefix(self) -> str:
        """Where this attempt's objects live in the job's bucket."""
        return f"jobs/{self.job}/attempts/{self.number}"

    def on(self, event: AttemptEvent, *, now: float, **changes: Any) -> Self:
        """This attempt after `event`. Raises IllegalTransition."""
        state = step(ATTEMPT_TABLE, self.state, event)
        return replace(self, state=state, since=now, **changes)

    def allows(self, event: AttemptEvent) -> bool:
        return allows(ATTEMPT_TABLE, self.state, event)


def attempt_id(job: str, number: int) -> str:
    return f"{job}.{number}"


def split_attempt_id(attempt: str) -> tuple[str, int]:
    """(job, number). Raises ValueError on anything else."""
    job, dot, number = attempt.rpartition(".")
    if not dot or not number.isdecimal():
        raise ValueError(f"not an attempt id: {attempt!r}")
    return job, int(number)
