"""The plan, played: the real functions and the real runner over simulated everything, as fast as the machine can.

Nothing goes wrong here but the cloud: no message is lost and no worker falls silent. So a tick is only needed when
something is due that no event tells of: an idle TPU, the end of a cool-down, the next try of a job.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush

from tpufn.adapters.memory import MemoryStore
from tpufn.domain.attempt import Attempt, AttemptState
from tpufn.domain.capacity import Scope
from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotState
from tpufn.planning.tally import Tally
from tpufn.planning.workload import Planned
from tpufn.ports import Clock, Commit, Store
from tpufn.simulation.capacity import Capacity
from tpufn.simulation.scripted_script import Script
from tpufn.simulation.universe import Universe, job_body

_DAY = 86400.0
_TICK = 3600.0
_GRID = 300.0
"""Seconds: what is due within so many of each other is looked at together."""
_NEVER = 1e8


def play(
    fleet: Fleet,
    jobs: tuple[Planned, ...],
    capacity: Capacity,
    *,
    days: float,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> Tally:
    """`progress` is told the share that is done, from 0 to 1. Raises InputError where no pool takes any of the jobs."""
    offered = {pool.type for pool in fleet.pools}
    if not any("any" in job.tpu or offered & set(job.tpu) for job in jobs):
        raise InputError(f"{fleet.name} has no pool for any of the {len(jobs)} jobs: their types are not in its `tpus`")
    universe = _Plan(fleet, jobs, capacity, days=days, seed=seed)
    universe.play(progress)
    return universe.tally


class _Plan(Universe):
    def __init__(self, fleet: Fleet, jobs: tuple[Planned, ...], capacity: Capacity, *, days: float, seed: int) -> None:
        self.jobs, self.regions, self.horizon = jobs, fleet.regions, days * _DAY
        self._scripts = {job.id: Script(run=job.duration, checkpoint=job.checkpoint) for job in jobs}
        self._due: list[float] = []
        self._idle = fleet.idle_timeout
        self.tally = Tally(fleet, jobs, horizon=self.horizon)
        super().__init__(
            fleet,
            store=_in_memory,
            seed=seed,
            capacity=capacity,
            policy=replace(Policy(), tick=_TICK, idle_sweep=6 * _TICK, heartbeat=_NEVER),
            script=lambda job, number, worker: self._scripts[job],
        )
        self.tally.began = self._shown = self.clock.now()

    def play(self, progress: Callable[[float], None]) -> None:
        for job in self.jobs:
            self._until(job.at, progress)
            self.submit(job_body(job.id, job.tpu, self.regions, priority=job.priority.label))
        self._until(self.horizon, progress)
        self.tally.close(self.clock.now())
        progress(1.0)

    def tick(self) -> None:
        super().tick()
        while self._due and self._due[0] <= self.clock.now():
            heappop(self._due)
        self._next_tick = min([self._next_tick, *self._due[:1]])

    def _expect(self, moment: float) -> None:
        """A tick when this is due, or soon after."""
        if self.clock.now() < moment < _NEVER + self.began:
            at = self.began + math.ceil((moment - self.began) / _GRID) * _GRID
            heappush(self._due, at)
            self._next_tick = min(self._next_tick, at)

    def _until(self, moment: float, progress: Callable[[float], None]) -> None:
        while (now := self.clock.now()) - self.began < moment:
            self.step()
            if now - self._shown > self.horizon / 200:
                self._shown = now
                progress((now - self.began) / self.horizon)

    def _committed(self, commit: Commit) -> None:
        super()._committed(commit)
        self.notes.clear()
        self.tally.saw(commit, self.clock.now())
        for document in commit.writes:
            match document:
                case Attempt(state=AttemptState.CLOSED):
                    self.blobs.forget(document.prefix)
                case Job(is_terminal=True):
                    self.blobs.forget(f"jobs/{document.id}/checkpoints/")
                case Job():
                    self._expect(document.due_at)
                case Slot(state=SlotState.IDLE):
                    self._expect(document.idle_since + self._idle)
                case Slot():
                    self._expect(document.deadline)
                case Scope():
                    self._expect(document.until)


def _in_memory(clock: Clock, listener: Callable[[Commit], None]) -> Store:
    return MemoryStore(clock, on_commit=listener)
