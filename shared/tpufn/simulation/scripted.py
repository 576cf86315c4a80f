"""Workers without processes: the port `Workers` and the simulated cloud's hosts, by scripts on a virtual clock.

What each worker of an attempt does is a `Script`; the objects that it leaves in the bucket are those of the real agent
(`domain/orders.py`), written at the moments that the script says. Nothing runs by itself: every call, every look into
the bucket and `advance` first bring the workers to the clock's now, one planned step after the other.
"""

import re
from collections.abc import Callable, Mapping

from tpufn.domain.attempt import split_attempt_id
from tpufn.domain.cloud import Tpu
from tpufn.domain.orders import LaunchOrder, StopOrder
from tpufn.domain.slot import Worker
from tpufn.ports import Clock
from tpufn.simulation.hosts import addresses
from tpufn.simulation.scripted_blobs import MemoryBlobs
from tpufn.simulation.scripted_host import Agent, Host, Stage
from tpufn.simulation.scripted_life import Lives, Publish, Run
from tpufn.simulation.scripted_script import HostScript, Script

ScriptOf = Callable[[str, int, int], Script]
"""(job, attempt number, worker) -> what it does."""
_GENERATION = re.compile(r"-g(\d+)$")
_AWAY = "no such host, or it does not answer"


class ScriptedWorkers:
    """`script` and `host` say what happens; messages go to `publish`."""

    def __init__(
        self,
        clock: Clock,
        blobs: MemoryBlobs,
        *,
        publish: Publish = lambda topic, body: None,
        script: ScriptOf = lambda job, number, worker: Script(),
        host: Callable[[str, int], HostScript] = lambda tpu, worker: HostScript(),
    ) -> None:
        self._clock, self._blobs = clock, blobs
        self._script, self._host_script = script, host
        self._lives = Lives(clock, blobs, publish)

    # The cloud's hosts

    def provision(self, name: str, zone: str, count: int) -> tuple[Worker, ...]:
        self.advance()
        here = self._lives.hosts.setdefault(name, {})
        for index in range(count):
            if index not in here or not here[index].is_on:
                here[index] = self._new_host(name, index)
        return addresses(f"{zone}/{name}", count)

    def notice(self, name: str) -> None:
        self.advance()
        for host in self.hosts(name):
            host.is_noticed = True
            for agent in host.agents.values():
                self._lives.noticed(agent, self._clock.now())

    def kill(self, name: str) -> None:
        self.advance()
        for host in self.hosts(name):
            self._lives.lose_host(host, self._clock.now())

    def destroy(self, name: str) -> None:
        self.kill(name)
        self._lives.hosts.pop(name, None)

    # The port

    def usable(self, tpu: Tpu) -> frozenset[int]:
        self.advance()
        return frozenset(i for i in range(len(tpu.workers)) if self._answering(tpu.name, i))

    def launch(self, order: LaunchOrder) -> Mapping[int, str]:
        self.advance()
        waiting = (i for i in range(len(order.workers)) if not self._has_accepted(order, i))
        causes = {i: self._launch(order, i) for i in waiting}
        return {i: cause for i, cause in causes.items() if cause}

    def stop(self, order: StopOrder) -> Mapping[int, str]:
        self.advance()
        causes = {i: self._stop(order, i) for i in range(len(order.workers))}
        return {i: cause for i, cause in causes.items() if cause}

    def introduce(self, tpu: str, worker: int, host_key: str) -> None:
        """Nobody has a host key here."""

    def alive(self, tpu: Tpu, attempt: str) -> Mapping[int, bool]:
        self.advance()
        hosts = {i: self._answering(tpu.name, i) for i in range(len(tpu.workers))}
        return {i: attempt in h.agents and h.agents[attempt].is_live for i, h in hosts.items() if h}

    # Time

    def advance(self) -> None:
        """Let everything happen that is due by now."""
        self._lives.advance()

    def next_event_at(self) -> float | None:
        """When the next planned step is due (Unix seconds); None: never by itself."""
        return self._lives.next_event_at()

    # What invariants and tests ask

    def runs(self) -> tuple[Run, ...]:
        """Every command that ever started, in that order."""
        return tuple(self._lives.runs.values())

    def living(self) -> tuple[tuple[str, int, str], ...]:
        """(TPU, worker, attempt) of everything that is not closed and not gone."""
        hosts = (h for here in self._lives.hosts.values() for h in here.values())
        return tuple((h.tpu, h.index, a.attempt) for h in hosts for a in h.agents.values() if a.is_live)

    def hosts(self, tpu: str) -> tuple[Host, ...]:
        return tuple(self._lives.hosts.get(tpu, {}).values())

    # One host

    def _launch(self, order: LaunchOrder, index: int) -> str:
        """Empty when the host has it, else why not."""
        host = self._answering(order.tpu, index)
        if host is None:
            return _AWAY
        host.launches += 1
        if host.launches <= host.script.lost_launches:
            self._lives.delay(self._agent(order, host), self._clock.now())
            return "ssh: connect to host: Connection refused"
        cause = host.admit(order.attempt, order.lease)
        if not cause and order.attempt not in host.agents:
            self._lives.begin(self._agent(order, host), self._clock.now())
        return cause

    def _agent(self, order: LaunchOrder, host: Host) -> Agent:
        return Agent(
            host=host,
            script=self._script(order.job, order.number, host.index),
            attempt=order.attempt,
            job=order.job,
            lease=order.lease,
            bucket=order.bucket,
            prefix=order.prefix,
            checkpoints=order.checkpoints,
            grace=order.grace,
            heartbeat=order.heartbeat,
            launched_at=self._clock.now(),
        )

    def _stop(self, order: StopOrder, index: int) -> str:
        host, now = self._answering(order.tpu, index), self._clock.now()
        if host is None:
            return _AWAY
        cause = host.bury(order)
        if cause:
            return cause
        agent = host.agents.get(order.attempt)
        if agent is None:
            self._lives.stand_in(self._stranger(order, host), now)
        elif agent.stage is Stage.DEAD:
            self._lives.bury_orphan(agent, order.reason, now)
        elif agent.is_live:
            self._lives.term(agent, now, grace=order.grace, reason=order.reason)
        return ""

    def _stranger(self, order: StopOrder, host: Host) -> Agent:
        """What closes an attempt that never arrived here."""
        return Agent(
            host=host,
            script=Script(),
            attempt=order.attempt,
            job=split_attempt_id(order.attempt)[0],
            lease=order.lease,
            bucket=order.bucket,
            prefix=order.prefix,
            checkpoints="",
            grace=order.grace,
            heartbeat=30.0,
            launched_at=self._clock.now(),
        )

    def _has_accepted(self, order: LaunchOrder, index: int) -> bool:
        return self._blobs.exists(order.bucket, f"{order.prefix}/status/worker-{index}.accepted.json")

    def _answering(self, tpu: str, index: int) -> Host | None:
        host = self._lives.hosts.get(tpu, {}).get(index)
        return host if host is not None and host.answers(self._clock.now()) else None

    def _new_host(self, name: str, index: int) -> Host:
        found = _GENERATION.search(name)
        script = self._host_script(name, index)
        generation = int(found[1]) if found else 0
        return Host(tpu=name, index=index, generation=generation, script=script, up_at=self._clock.now())
