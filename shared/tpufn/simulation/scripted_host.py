"""One scripted host and the agents on it: the worker's side of the launch protocol, as far as the bucket shows it.

    arriving > setup > ready > command > ending > closed        (or dead: nothing of it writes any more)

The rules are the real agent's (`tpufn.worker`): admission by generation, tombstone and fence; an open attempt keeps
every other out until it closed and left nothing; write-once results before the message that only wakes.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from tpufn.domain.orders import Phase, StopOrder
from tpufn.domain.slot import Lease
from tpufn.simulation.scripted_script import HostScript, Script


class Stage(StrEnum):
    ARRIVING = "arriving"
    SETUP = "setup"
    READY = "ready"
    COMMAND = "command"
    ENDING = "ending"
    CLOSED = "closed"
    DEAD = "dead"


PHASES = {Stage.ARRIVING: Phase.DEVICE, Stage.SETUP: Phase.SETUP, Stage.READY: Phase.SETUP}
"""What `exited` says of an end before the command."""
LIVE = frozenset({Stage.ARRIVING, Stage.SETUP, Stage.READY, Stage.COMMAND, Stage.ENDING})


@dataclass
class Agent:
    """One attempt on one host."""

    host: "Host"
    script: Script
    attempt: str
    job: str
    lease: Lease
    bucket: str
    prefix: str
    checkpoints: str
    grace: float
    heartbeat: float
    launched_at: float
    stage: Stage = Stage.ARRIVING
    began: float = 0.0  # of the command
    done_before: float = 0.0  # what earlier attempts had done of the job
    ours: bool = False
    preempted: bool = False
    reason: str = ""
    exit_code: int | None = None
    mute_at: float = inf
    beaten_at: float = 0.0  # the last heartbeat
    kept: list[tuple[str, dict[str, object]]] = field(default_factory=list)  # results that no bucket took yet

    @property
    def is_live(self) -> bool:
        return self.stage in LIVE

    @property
    def worker(self) -> int:
        return self.host.index

    def progress(self, at: float) -> float:
        """Seconds of the job's work that are done by then."""
        return self.done_before + (at - self.began if self.stage is Stage.COMMAND else 0.0)

    def key(self, what: str) -> str:
        return f"{self.prefix}/status/worker-{self.worker}.{what}.json"


@dataclass
class Host:
    """One machine. `generation` is the TPU's, from its name; 0 where the name has none."""

    tpu: str
    index: int
    generation: int
    script: HostScript
    up_at: float
    is_on: bool = True
    is_noticed: bool = False
    silent_until: float = 0.0
    launches: int = 0
    fence_generation: int = 0
    tombstone: int = 0
    newest: tuple[str, int] = ("", 0)  # attempt and fence
    is_open: bool = False  # whether the newest attempt has not closed yet
    agents: dict[str, Agent] = field(default_factory=dict)

    def answers(self, at: float) -> bool:
        return self.is_on and not self.script.is_deaf and self.hears(at) and at >= self.up_at + self.script.boot

    def hears(self, at: float) -> bool:
        """Whether its network works."""
        return at >= self.silent_until

    def knows(self, attempt: str, lease: Lease) -> bool:
        """Whether it has admitted this attempt already."""
        return self.newest == (attempt, lease.fence)

    def admit(self, attempt: str, lease: Lease) -> str:
        """Empty if the attempt may start or has started already, else why not. As `worker.fence.admit`."""
        cause = self._wrong_generation(lease)
        if cause:
            return cause
        same = self.fence_generation == lease.generation
        if same and lease.fence <= self.tombstone:
            return f"fence {lease.fence} was stopped (tombstone {self.tombstone})"
        if self.knows(attempt, lease):
            return ""
        if self.is_open:
            return f"attempt {self.newest[0]} is not closed on this worker"
        if same and lease.fence <= self.newest[1]:
            return f"fence {lease.fence} is older than fence {self.newest[1]}"
        self.tombstone = self.tombstone if same else 0
        self.fence_generation, self.newest, self.is_open = lease.generation, (attempt, lease.fence), True
        return ""

    def bury(self, order: StopOrder) -> str:
        """Write the tombstone. Empty, or why the lease is not of this host. As `worker.fence.bury`."""
        lease = order.lease
        cause = self._wrong_generation(lease)
        if cause:
            return cause
        if self.fence_generation == lease.generation:
            self.tombstone = max(self.tombstone, lease.fence)
        else:
            self.fence_generation, self.tombstone, self.newest = lease.generation, lease.fence, (self.newest[0], 0)
        return ""

    def release(self, attempt: str) -> None:
        """The attempt left nothing behind: the next one may start."""
        if self.newest[0] == attempt:
            self.is_open = False

    def _wrong_generation(self, lease: Lease) -> str:
        if self.generation and self.generation != lease.generation:
            return f"this host is of generation {self.generation}, the lease is of {lease.generation}"
        if self.fence_generation > lease.generation:
            return f"generation {lease.generation} is older than generation {self.fence_generation}"
        return ""
