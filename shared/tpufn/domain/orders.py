"""What a worker is told and what it answers: the values of the launch protocol, JSON-ready.

The worker's agent (`tpufn.worker.agent`) reads the same shapes as plain dictionaries: it must run alone, on Python 3.8.
Objects of an attempt in the job's bucket, below its prefix `jobs/<job>/attempts/<n>`:

    go                                  written once when every worker is prepared; only then a command starts
    status/worker-<i>.accepted.json     write-once: the launch arrived
    status/worker-<i>.prepared.json     write-once: device check, workspace, caches and bundle are ready
    status/worker-<i>.exited.json       write-once: the command's end, or the preparation's failure
    status/worker-<i>.closed.json       write-once: nothing of the attempt runs on this worker any more
    status/worker-<i>.heartbeat.json    rewritten every `heartbeat` seconds while the attempt lives
    logs/worker-<i>/<nnnnnnnn>.log      append-only numbered pieces of the merged output, byte-exact
    diagnostics/worker-<i>.txt          disk, memory, processes, devices, kernel messages of a failed attempt
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tpufn.domain.job import Cache
from tpufn.domain.slot import Lease, Worker


class Phase(StrEnum):
    """How far a worker had come when it ended."""

    DEVICE = "device"  # the device check
    SETUP = "setup"  # workspace, caches, bundle, secrets
    COMMAND = "command"


@dataclass(frozen=True, kw_only=True)
class LaunchOrder:
    """One attempt's launch, for all of its workers. Nothing in it may appear in an argument list."""

    attempt: str
    job: str
    number: int
    name: str
    lease: Lease
    tpu: str
    type: str
    zone: str
    project: str
    workers: tuple[Worker, ...]
    bucket: str
    prefix: str
    checkpoints: str
    command: str
    bundle_key: str = ""  # object in the bucket; "" for no bundle
    bundle_uri: str = ""  # a literal gs:// object instead
    bundle_sha256: str = ""  # "" where unknown (a literal object)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    caches: tuple[Cache, ...] = ()
    grace: float = 30.0  # seconds between TERM and KILL
    heartbeat: float = 30.0


@dataclass(frozen=True, kw_only=True)
class StopOrder:
    """Stop one attempt on all of its workers: tombstone, TERM, grace, KILL, verify."""

    attempt: str
    lease: Lease
    tpu: str
    workers: tuple[Worker, ...]
    reason: str
    bucket: str = ""  # with `prefix`: where a worker that the launch never reached says that it is closed
    prefix: str = ""
    zone: str = ""
    grace: float = 30.0


@dataclass(frozen=True, kw_only=True)
class Exited:
    """`worker-<i>.exited.json`. `code` is as a shell reports it (128+signal); None where no command ran."""

    worker: int
    phase: Phase
    code: int | None = None
    ours: bool = False  # recorded after our own TERM
    preempted: bool = False  # the preemption notice was seen
    reason: str = ""
    signature: str = ""  # "device-busy", "sibling-death" or "" : what the output's end looks like
    tail: str = ""  # the last lines of the output, for people
    runtime: float = 0.0  # seconds, by the worker's own monotonic clock
    at: float = 0.0  # the object's update time (the bucket's clock)


@dataclass(frozen=True, kw_only=True)
class Closed:
    """`worker-<i>.closed.json`. `clean`: no process and no device holder was left when it looked again."""

    worker: int
    clean: bool = True
    caches: tuple[str, ...] = ()  # keys that are ready on this worker now
    at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class WorkerReport:
    """All that one attempt's bucket prefix says, listed once: the truth about the attempt."""

    count: int
    accepted: frozenset[int] = frozenset()
    prepared: frozenset[int] = frozenset()
    exited: Mapping[int, Exited] = field(default_factory=dict)
    closed: Mapping[int, Closed] = field(default_factory=dict)
    heartbeats: Mapping[int, float] = field(default_factory=dict)  # worker -> update time

    @property
    def zeros(self) -> frozenset[int]:
        """Workers whose command ended with zero before any TERM of ours."""
        return frozenset(i for i, e in self.exited.items() if e.code == 0 and not e.ours and e.phase is Phase.COMMAND)

    @property
    def all_zero(self) -> bool:
        return len(self.zeros) == self.count

    @property
    def all_prepared(self) -> bool:
        return len(self.prepared) == self.count

    @property
    def all_closed(self) -> bool:
        return len(self.closed) == self.count
