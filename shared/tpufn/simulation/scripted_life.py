"""What happens on scripted hosts by itself: the steps of every agent, at their moments, and what they write.

One agenda for all of them; a step that its agent's stage no longer allows does nothing.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tpufn.domain.orders import Phase
from tpufn.ports import Clock
from tpufn.simulation.scripted_blobs import MemoryBlobs
from tpufn.simulation.scripted_host import PHASES, Agent, Host, Stage
from tpufn.simulation.scripted_script import KILLED

NOTICE_GRACE = 20.0
"""Seconds from TERM to KILL after a preemption notice: it leaves about 30."""
SIBLING_TAIL = "F0000 RPC: /tensorflow.CoordinationService/PollForError"

Publish = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One command that started on one worker: what really happened, whatever anybody believes. `ended` 0: it runs."""

    job: str
    attempt: str
    worker: int
    tpu: str
    began: float
    ended: float = 0.0
    code: int | None = None  # None: nobody was left to see its end
    ours: bool = False


class Lives:
    """Every host by its TPU, the agenda of their agents, and the record of every command that ran."""

    def __init__(self, clock: Clock, blobs: MemoryBlobs, publish: Publish) -> None:
        self._clock, self._blobs, self._publish = clock, blobs, publish
        self.hosts: dict[str, dict[int, Host]] = {}
        self.runs: dict[tuple[str, int], Run] = {}
        self._agenda: list[tuple[float, int, str, Agent]] = []
        self._numbers = itertools.count()
        blobs.catch_up, blobs.on_put = self.advance, self._went

    def advance(self) -> None:
        """Let everything happen that is due by now."""
        now = self._clock.now()
        while self._agenda and self._agenda[0][0] <= now:
            at, _, what, agent = heapq.heappop(self._agenda)
            _HAPPENS[what](self, agent, at)
        self._beat(now)

    def next_event_at(self) -> float | None:
        """When the next planned step is due; None: never by itself. Heartbeats are no steps."""
        return self._agenda[0][0] if self._agenda else None

    # What the cloud and the core do to agents

    def begin(self, agent: Agent, at: float) -> None:
        """A launch has arrived."""
        agent.host.agents[agent.attempt] = agent
        self._plan(at + agent.script.accept, "accept", agent)
        if agent.host.is_noticed:
            self.noticed(agent, at)

    def delay(self, agent: Agent, at: float) -> None:
        """A launch hangs, and arrives when nobody waits for it any more."""
        if agent.host.script.late_launch:
            self._plan(at + agent.host.script.late_launch, "arrive", agent)

    def stand_in(self, agent: Agent, at: float) -> None:
        """An attempt that never arrived here is proved to be closed."""
        agent.host.agents[agent.attempt] = agent
        agent.stage = Stage.ENDING
        self._plan(at + agent.script.closing, "close", agent)

    def bury_orphan(self, agent: Agent, reason: str, at: float) -> None:
        """Stop an attempt whose agent died: what it left is ended, and its end is told as ours."""
        agent.stage = Stage.ENDING
        agent.ours, agent.reason = True, f"the worker's agent died, then: {reason}"
        self._say_exited(agent, at, phase=Phase.COMMAND if agent.began else Phase.SETUP)
        self._plan(at + agent.script.closing, "close", agent)

    def noticed(self, agent: Agent, at: float) -> None:
        if not agent.is_live or not agent.script.hears_notice or agent.stage is Stage.ENDING:
            return
        agent.preempted = True
        if agent.host.hears(at):
            whose = {"slot": agent.lease.slot, "generation": agent.lease.generation, "attempt": agent.attempt}
            self._publish("preemptions", {**whose, "found": "notice"})
        self.term(agent, at, grace=min(agent.grace, NOTICE_GRACE), reason="preemption notice")

    def term(self, agent: Agent, at: float, *, grace: float, reason: str) -> None:
        """Ours from here on. Before the command there is nothing to wait for."""
        if agent.stage is Stage.ENDING:
            return
        agent.ours, agent.reason, agent.grace = True, agent.reason or reason, grace
        if agent.stage is Stage.COMMAND:
            self._plan(at + min(agent.script.on_term, grace), "terminate", agent)
        else:
            self._end(agent, at, phase=PHASES[agent.stage], code=None)

    def lose_host(self, host: Host, at: float) -> None:
        host.is_on = False
        for agent in host.agents.values():
            self._lose(agent, at)

    def _lose(self, agent: Agent, at: float) -> None:
        """Gone without a word."""
        if agent.is_live:
            self._record(agent, at, None)
            agent.stage = Stage.DEAD

    def _tell_siblings(self, agent: Agent, at: float) -> None:
        for host in self.hosts.get(agent.host.tpu, {}).values():
            other = host.agents.get(agent.attempt)
            if other is not None and other is not agent and other.stage is Stage.COMMAND:
                self._plan(at + other.script.sibling_death, "follow", other)

    # The steps of an agent

    def _arrive(self, agent: Agent, at: float) -> None:
        host = agent.host
        if (
            host.answers(at)
            and not host.knows(agent.attempt, agent.lease)
            and not host.admit(agent.attempt, agent.lease)
        ):
            self.begin(agent, at)

    def _accept(self, agent: Agent, at: float) -> None:
        if agent.stage is Stage.ARRIVING:
            agent.stage = Stage.SETUP
            self._say(agent, "accepted", {}, at)
            self._plan(at + agent.script.prepare, "prepare", agent)

    def _prepare(self, agent: Agent, at: float) -> None:
        if agent.stage is not Stage.SETUP:
            return
        if agent.script.fails_in is not None:
            agent.reason = agent.script.reason or f"the {agent.script.fails_in} failed"
            self._end(agent, at, phase=agent.script.fails_in, code=None, signature=agent.script.signature)
            return
        agent.stage = Stage.READY
        self._say(agent, "prepared", {"caches": list(agent.script.caches)}, at)
        self._look_for_go(agent, at)

    def _look_for_go(self, agent: Agent, at: float) -> None:
        if (
            agent.stage is Stage.READY
            and agent.host.hears(at)
            and self._blobs.exists(agent.bucket, f"{agent.prefix}/go")
        ):
            self._begin(agent, at)

    def _begin(self, agent: Agent, at: float) -> None:
        """The command starts where the last checkpoint is."""
        script = agent.script
        agent.stage, agent.began, agent.done_before = Stage.COMMAND, at, self._saved(agent)
        agent.mute_at = at + script.mute_at
        key = (agent.attempt, agent.worker)
        self.runs[key] = Run(job=agent.job, attempt=agent.attempt, worker=agent.worker, tpu=agent.host.tpu, began=at)
        self._plan(at + max(0.0, script.run - agent.done_before), "exit", agent)
        self._plan(at + script.dies_at, "die", agent)
        self._plan(at + script.vanishes_at, "vanish", agent)
        self._plan(at + script.silent_at, "silence", agent)
        if script.checkpoint and agent.worker == 0:
            self._plan(at + script.checkpoint, "save", agent)

    def _save(self, agent: Agent, at: float) -> None:
        if agent.stage is Stage.COMMAND:
            self._keep(agent, at)
            self._plan(at + agent.script.checkpoint, "save", agent)

    def _exit(self, agent: Agent, at: float) -> None:
        """The command ends by itself."""
        if agent.stage is Stage.COMMAND:
            script = agent.script
            agent.reason = agent.reason or script.reason
            self._end(agent, at, phase=Phase.COMMAND, code=script.code, signature=script.signature)

    def _terminate(self, agent: Agent, at: float) -> None:
        """TERM, or KILL at the end of the grace, has worked."""
        if agent.stage is Stage.COMMAND:
            script = agent.script
            obeys = script.on_term <= agent.grace
            if obeys and script.checkpoint and agent.worker == 0:
                self._keep(agent, at)
            self._end(agent, at, phase=Phase.COMMAND, code=script.term_code if obeys else KILLED)

    def _follow_sibling(self, agent: Agent, at: float) -> None:
        if agent.stage is Stage.COMMAND:
            code, signature = agent.script.sibling_code, agent.script.sibling_signature
            self._end(agent, at, phase=Phase.COMMAND, code=code, signature=signature, tail=SIBLING_TAIL)

    def _end(
        self, agent: Agent, at: float, *, phase: Phase, code: int | None, signature: str = "", tail: str = ""
    ) -> None:
        self._record(agent, at, code)
        agent.stage, agent.exit_code = Stage.ENDING, code
        self._say_exited(agent, at, phase=phase, code=code, signature=signature, tail=tail)
        if code != 0 and not agent.ours:
            self._tell_siblings(agent, at)
        self._plan(at + agent.script.closing, "close", agent)

    def _close(self, agent: Agent, at: float) -> None:
        if agent.stage is Stage.ENDING:
            agent.stage = Stage.CLOSED
            if agent.script.clean:
                agent.host.release(agent.attempt)
            self._say(agent, "closed", {"clean": agent.script.clean, "caches": list(agent.script.caches)}, at)

    def _die(self, agent: Agent, at: float) -> None:
        if agent.stage is Stage.COMMAND:
            self._lose(agent, at)
            self._tell_siblings(agent, at)

    def _vanish(self, agent: Agent, at: float) -> None:
        if agent.stage is Stage.COMMAND:
            self.lose_host(agent.host, at)
            self._tell_siblings(agent, at)

    def _fall_silent(self, agent: Agent, at: float) -> None:
        if agent.is_live:
            self._beat_one(agent, at)
            agent.host.silent_until = at + agent.script.silent_for
            self._plan(agent.host.silent_until, "speak", agent)

    def _speak(self, agent: Agent, at: float) -> None:
        """The network is back: what was kept is told, in order."""
        kept, agent.kept = agent.kept, []
        for what, body in kept:
            self._say(agent, what, body, at)
        self._look_for_go(agent, at)

    # The bucket

    def _say(self, agent: Agent, what: str, body: dict[str, object], at: float) -> None:
        """The object once, then its message. Without a network it is kept for later."""
        if not agent.host.hears(at):
            agent.kept.append((what, body))
            return
        full = {"attempt": agent.attempt, "worker": agent.worker, **body}
        self._blobs.put(agent.bucket, agent.key(what), msgspec.json.encode(full), once=True, at=at)
        self._publish("worker-events", {"attempt": agent.attempt, "worker": agent.worker, "what": what})

    def _say_exited(
        self, agent: Agent, at: float, *, phase: Phase, code: int | None = None, signature: str = "", tail: str = ""
    ) -> None:
        body: dict[str, object] = {
            "phase": phase.value,
            "code": code,
            "ours": agent.ours,
            "preempted": agent.preempted,
            "reason": agent.reason,
            "signature": signature,
            "tail": tail,
            "runtime": round(at - agent.began, 3) if agent.began else 0.0,
        }
        self._say(agent, "exited", body, at)

    def _beat(self, now: float) -> None:
        for host in self._all():
            for agent in host.agents.values():
                self._beat_one(agent, now)

    def _beat_one(self, agent: Agent, now: float) -> None:
        """The last of the beats that were due by now: they start with the attempt, one every `heartbeat` seconds."""
        if not agent.is_live or agent.host.silent_until > now:
            return
        last = agent.launched_at + (min(now, agent.mute_at) - agent.launched_at) // agent.heartbeat * agent.heartbeat
        if last > agent.beaten_at:
            agent.beaten_at = last
            self._blobs.put(agent.bucket, agent.key("heartbeat"), b"{}", at=last)

    def _saved(self, agent: Agent) -> float:
        found = self._blobs.peek(agent.bucket, f"{agent.checkpoints}/progress.json")
        return float(msgspec.json.decode(found)) if found and agent.script.checkpoint else 0.0

    def _keep(self, agent: Agent, at: float) -> None:
        data = msgspec.json.encode(agent.progress(at))
        self._blobs.put(agent.bucket, f"{agent.checkpoints}/progress.json", data, at=at)

    # Small things

    def _went(self, bucket: str, key: str) -> None:
        """A `go` was written: whoever is ready and hears it begins."""
        if not key.endswith("/go"):
            return
        for agent in [a for h in self._all() for a in h.agents.values() if f"{a.prefix}/go" == key]:
            self._look_for_go(agent, self._clock.now())

    def _record(self, agent: Agent, at: float, code: int | None) -> None:
        key = (agent.attempt, agent.worker)
        if agent.stage is Stage.COMMAND:
            self.runs[key] = replace(self.runs[key], ended=at, code=code, ours=agent.ours)

    def _all(self) -> Iterator[Host]:
        return (host for hosts in self.hosts.values() for host in hosts.values())

    def _plan(self, at: float, what: str, agent: Agent) -> None:
        if at != float("inf"):
            heapq.heappush(self._agenda, (at, next(self._numbers), what, agent))


_HAPPENS: Mapping[str, Callable[[Lives, Agent, float], None]] = {
    "arrive": Lives._arrive,
    "accept": Lives._accept,
    "prepare": Lives._prepare,
    "exit": Lives._exit,
    "save": Lives._save,
    "terminate": Lives._terminate,
    "follow": Lives._follow_sibling,
    "close": Lives._close,
    "die": Lives._die,
    "vanish": Lives._vanish,
    "silence": Lives._fall_silent,
    "speak": Lives._speak,
}
"""The planned steps of an agent, by name."""
