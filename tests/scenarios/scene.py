"""A universe with a small fleet, scripts by job, and the invariants on: what the named scenarios play on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpufn.adapters.memory import MemoryStore
from tpufn.adapters.sqlite import SqliteStore
from tpufn.domain.attempt import Attempt, AttemptState
from tpufn.domain.cloud import LABEL_NONCE
from tpufn.domain.fleet import Fleet, Model, Pool, pool_id
from tpufn.domain.job import JobState
from tpufn.domain.slot import Slot, SlotState
from tpufn.simulation.resource import Resource
from tpufn.simulation.scripted_script import HostScript, Script
from tpufn.simulation.universe import NONCE, Universe, job_body
from tpufn.simulation.universe_invariants import Invariants

AT_REST = (SlotState.FREE, SlotState.RETIRED)
V4, V6A, V6B = ("v4-8", "us-central2-b"), ("v6e-8", "us-east5-a"), ("v6e-8", "us-east5-b")
"""Single-host types in three zones of two regions."""
WIDE = ("v6e-16", "us-east5-b")
"""Four workers."""


def pool(type: str, zone: str, count: int = 1, *, code: str = "", **changes: Any) -> Pool:
    id = pool_id(Model.SPOT, type, zone, code=code)
    return Pool(id=id, type=type, zone=zone, count=count, runtime="any", **changes)


class Scene(Universe):
    """`scripts`: by job, or by (job, attempt number), or by (job, attempt number, worker); the narrowest counts.
    `host_scripts`: by TPU, or by (TPU, worker)."""

    def __init__(self, *pools: Pool, on_disk: Path | None = None, idle: float = 600.0, **how: Any) -> None:
        self.scripts: dict[Any, Script] = {}
        self.host_scripts: dict[Any, HostScript] = {}
        self.struck = False
        super().__init__(
            Fleet(name="lab", pools=pools, idle_timeout=idle),
            store=_on_disk(on_disk) if on_disk else _in_memory,
            script=self._script,
            host=self._host,
            **how,
        )
        self.invariants = Invariants(self, stray_limit=self.policy.idle_sweep + 2 * self.policy.tick)
        self.after_step = self.invariants
        self.fleet = Fleet(name="lab", pools=pools, idle_timeout=idle)

    def start(self, id: str, *types: str, regions: tuple[str, ...] = (), **keys: Any) -> None:
        """Submit one job: any of the fleet's types in any of its regions, unless told otherwise."""
        kinds = types or tuple(dict.fromkeys(p.type for p in self.fleet.pools))
        self.submit(job_body(id, kinds, regions or self.fleet.regions, **keys))

    def change(self, *pools: Pool, **changes: Any) -> None:
        """A new deployment file."""
        self.fleet = replace(self.fleet, pools=pools, **changes)
        self.declare(self.fleet)

    # Waiting

    def until_state(self, id: str, *states: JobState, limit: float = 86_400.0) -> None:
        self.run_until(lambda: self._state(id) in states, limit=limit)

    def until_ended(self, *ids: str, limit: float = 3 * 86_400.0) -> None:
        self.run_until(lambda: all((s := self._state(id)) is not None and _is_end(s) for id in ids), limit=limit)

    def until_attempt(self, id: str, state: AttemptState, number: int = 1, limit: float = 86_400.0) -> None:
        self.run_until(lambda: [a.state for a in self.attempts(id)][number - 1 : number] == [state], limit=limit)

    def until_running(self, id: str, number: int = 1) -> None:
        self.run_until(lambda: any(r.attempt == f"{id}.{number}" and not r.ended for r in self.workers.runs()))

    def until_event(self, event: str, *, limit: float = 86_400.0) -> None:
        """Until it happens once more."""
        before = self.events().count(event)
        self.run_until(lambda: self.events().count(event) > before, limit=limit)

    def until_slot(self, state: SlotState, name: str = "", limit: float = 86_400.0) -> None:
        """Until the slot, or any, is in that state."""
        self.run_until(
            lambda: any(s.state is state and name in ("", s.name) for s in self.slots().values()), limit=limit
        )

    def until_empty(self, *, limit: float = 86_400.0) -> None:
        """Nothing of ours in the cloud, every slot at rest; and it stays so over two full sweeps."""
        self.run_until(self.is_empty, limit=limit)
        self.run_for(2 * self.policy.idle_sweep + self.policy.tick)
        assert self.is_empty(), self.story()

    # Looking

    def ours(self) -> list[Resource]:
        return [r for r in self.cloud.snapshot().resources if r.order.labels.get(LABEL_NONCE) == NONCE]

    def is_empty(self) -> bool:
        return not self.ours() and all(slot.state in AT_REST for slot in self.slots().values())

    def slot(self, name: str = "") -> Slot:
        """The slot of that name, or the only one."""
        slots = self.slots()
        return slots[name] if name else next(iter(slots.values()))

    def attempt(self, id: str, number: int = 1) -> Attempt:
        return self.attempts(id)[number - 1]

    def outcomes(self, id: str) -> list[str]:
        return [str(a.outcome) for a in self.attempts(id)]

    def creates(self) -> dict[str, int]:
        """How often each name was really created."""
        names = [moment.name for moment in self.cloud.timeline() if moment.event == "appear"]
        return {name: names.count(name) for name in names}

    def reason(self, event: str) -> str:
        """The reason of the last such note."""
        return [note.reason for note in self.notes if note.event == event][-1]

    def _state(self, id: str) -> JobState | None:
        with self.store.cut() as cut:
            job = cut.job(id)
        return job.state if job else None

    def _host(self, tpu: str, worker: int) -> HostScript:
        return self.host_scripts.get((tpu, worker)) or self.host_scripts.get(tpu, HostScript())

    def _script(self, job: str, number: int, worker: int) -> Script:
        keys = ((job, number, worker), (job, number), job)
        return next((self.scripts[key] for key in keys if key in self.scripts), Script())


def _is_end(state: JobState) -> bool:
    return state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.REJECTED)


def _in_memory(clock: Any, listener: Callable[..., None]) -> MemoryStore:
    return MemoryStore(clock, on_commit=listener)


def _on_disk(path: Path) -> Callable[..., SqliteStore]:
    return lambda clock, listener: SqliteStore(path / "state.sqlite", clock, on_commit=listener)
