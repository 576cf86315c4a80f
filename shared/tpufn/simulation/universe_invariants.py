"""What must hold in a universe after every step, whatever goes wrong.

Each rule looks at the whole and yields what is wrong, in words. The store is compared with itself, with the cloud, and
with what really ran on the workers.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tpufn.decide.autoscale import stray_entity
from tpufn.decide.decision import Decision
from tpufn.domain.accelerators import accelerator
from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.cloud import LABEL_NONCE, LABEL_SLOT
from tpufn.domain.events import Event
from tpufn.domain.fleet import slot_key
from tpufn.domain.job import DEMAND, Job, JobState
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotState
from tpufn.runner import Function
from tpufn.simulation.life import Phase
from tpufn.simulation.resource import Resource
from tpufn.simulation.scripted_life import Run
from tpufn.simulation.universe import NONCE, Universe

_EVERY_STATE = tuple(JobState)
_MANY = 100_000


@dataclass(frozen=True, kw_only=True)
class View:
    """One moment."""

    now: float
    jobs: Mapping[str, Job]
    attempts: Mapping[str, Sequence[Attempt]]  # by job
    slots: Mapping[str, Slot]
    limits: Mapping[str, int]  # chip limits by scope
    ceilings: Mapping[str, int]  # by pool
    wanted: frozenset[str]  # slots that the deployment file has
    sweeps: frozenset[str]  # entities with an open sweep
    findable: frozenset[str]  # jobs that the queue's index knows
    resources: Sequence[Resource]
    runs: Sequence[Run]
    living: Sequence[tuple[str, int, str]]

    @property
    def open_attempts(self) -> Iterator[Attempt]:
        return (a for each in self.attempts.values() for a in each if a.state is not AttemptState.CLOSED)


@dataclass
class Memory:
    """What earlier moments have shown."""

    ended: dict[str, JobState] = field(default_factory=dict)
    pinned: dict[str, str] = field(default_factory=dict)
    unowned_since: dict[str, float] = field(default_factory=dict)
    releasing: set[tuple[str, int]] = field(default_factory=set)  # slots with their generations
    judged: set[str] = field(default_factory=set)  # attempts whose end was checked


class Violation(AssertionError):
    """An invariant does not hold."""


class Invariants:
    """Call it after each step. `stray_limit`: for how long a cloud resource of ours may belong to nobody (seconds)."""

    def __init__(self, universe: Universe, *, stray_limit: float = float("inf")) -> None:
        self.universe, self.stray_limit = universe, stray_limit
        self.memory = Memory()
        self._seen = (-1, -1)

    def __call__(self) -> None:
        if not self._is_news():
            return
        view = look(self.universe)
        wrong = [text for rule in _RULES for text in rule(view, self.memory)]
        wrong += self._strays(view) + list(self._ends(view))
        wrong += [f"two handlers at once: {what}" for what in self.universe.gate.overlaps]
        if wrong:
            raise Violation("\n".join([*wrong, "", self.universe.story()]))

    def expect_order(self, *, within: float) -> None:
        """From now on no stray is left alone for longer than this (seconds)."""
        self.stray_limit, self.memory.unowned_since = within, {}

    def watching(self, function: Function) -> Function:
        """The function with its plans checked against the whole queue; put it into `Universe.watched`."""
        if function.name != "assign":
            return function

        def decide(snapshot: Any, event: Event, policy: Policy) -> Decision:
            decision = function.decide(snapshot, event, policy)
            unfair = list(passed_over(self.universe, decision))
            if unfair:
                raise Violation("\n".join([*unfair, "", self.universe.story()]))
            return decision

        return replace(function, decide=decide)

    def _is_news(self) -> bool:
        seen = (self.universe.commits, self.universe.moments)
        before, self._seen = self._seen, seen
        return seen != before

    def _strays(self, view: View) -> list[str]:
        """Every resource of ours is held by a slot or will be deleted, soon after it appeared."""
        lost = {r.name for r in view.resources if _is_ours(r) and not _is_owned(r, view)}
        since = self.memory.unowned_since
        self.memory.unowned_since = {name: since.get(name, view.now) for name in lost}
        late = {n: view.now - at for n, at in self.memory.unowned_since.items() if view.now - at > self.stray_limit}
        return [f"{name} belongs to nobody since {age:.0f} s" for name, age in late.items()]

    def _ends(self, view: View) -> Iterator[str]:
        """All zeros, none after a TERM of ours, is success, unless a cancel came first."""
        closed = (a for each in view.attempts.values() for a in each if a.state is AttemptState.CLOSED)
        for attempt in closed:
            if attempt.id in self.memory.judged:
                continue
            self.memory.judged.add(attempt.id)
            zeros = all(self._is_zero(attempt, i) for i in range(len(attempt.workers)))
            if zeros and attempt.outcome not in (Outcome.SUCCEEDED, Outcome.CANCELLED):
                yield f"{attempt.id} has zeros from every worker and ended {attempt.outcome}"
            if attempt.outcome is Outcome.SUCCEEDED and not zeros:
                yield f"{attempt.id} succeeded without zeros from every worker"

    def _is_zero(self, attempt: Attempt, worker: int) -> bool:
        data = self.universe.blobs.peek(attempt.bucket, f"{attempt.prefix}/status/worker-{worker}.exited.json")
        end = msgspec.json.decode(data) if data else {}
        return end.get("code") == 0 and not end.get("ours") and end.get("phase") == "command"


def look(universe: Universe) -> View:
    with universe.store.cut() as cut:
        jobs = {j.id: j for j in cut.jobs_in(_EVERY_STATE, limit=_MANY)}
        fleet = cut.fleet()
        wanting = [j for j in jobs.values() if j.state in DEMAND]
        keys = {key for j in wanting for key in j.accepts}
        return View(
            now=cut.now,
            jobs=jobs,
            attempts={id: cut.attempts(id) for id, job in jobs.items() if job.attempt},
            slots={s.name: s for s in cut.slots()},
            limits={p.scope: p.chip_limit for p in fleet.pools if p.chip_limit} if fleet else {},
            ceilings={p.id: len(p.slots) for p in fleet.pools} if fleet else {},
            wanted=frozenset(name for name, _ in fleet.slots()) if fleet else frozenset(),
            sweeps=frozenset(row.entity for row in cut.rows(limit=_MANY)),
            findable=frozenset(j.id for j in cut.jobs_wanting(keys, states=tuple(DEMAND), limit=_MANY)),
            resources=universe.cloud.snapshot().resources,
            runs=universe.workers.runs(),
            living=universe.workers.living(),
        )


def passed_over(universe: Universe, decision: Decision) -> Iterator[str]:
    """No job starts on a slot that a pending one of a better rank could have had in the same plan. (A decision is made
    at the moment of its snapshot: the store is what it saw.)"""
    documents = [d for step in decision.steps for d in step.writes]
    placed = {d.job: d.slot for d in documents if isinstance(d, Attempt)}
    if not placed:
        return
    with universe.store.cut() as cut:
        fleet, slots = cut.fleet(), {s.name: s for s in cut.slots()}
        waiting = [j for j in cut.jobs_in((JobState.PENDING,), limit=_MANY) if j.id not in placed]
        starting = [j for id in placed if (j := cut.job(id)) is not None]
    for job, other in ((j, o) for j in starting for o in waiting if o.rank < j.rank):
        slot = slots[placed[job.id]]
        pool = fleet.pool(slot.pool) if fleet else None
        if pool is not None and set(other.accepts) & (pool.keys | {slot_key(slot.name)}):
            yield f"{job.id} was to start on {slot.name}, which {other.id} of a better rank accepts"


def leases(view: View, memory: Memory) -> Iterator[str]:
    """A slot's lease and an unclosed attempt are the two ends of one relation: none has two, none is alone."""
    by_slot: dict[str, Attempt] = {}
    for attempt in view.open_attempts:
        slot = view.slots.get(attempt.slot)
        if slot is None or slot.lease != attempt.lease:
            yield f"{attempt.id} is {attempt.state} and {attempt.slot} has the lease {slot and slot.lease}"
        if attempt.slot in by_slot:
            yield f"{attempt.slot} has two live attempts, {attempt.id} and {by_slot[attempt.slot].id}"
        by_slot[attempt.slot] = attempt
    for slot in view.slots.values():
        if slot.lease is not None and slot.name not in by_slot:
            yield f"{slot.name} is leased to {slot.lease.attempt}, which is closed or missing"
        if (slot.state in (SlotState.BUSY, SlotState.CLEANING)) > (slot.lease is not None):
            yield f"{slot.name} is {slot.state} without a lease"


def jobs(view: View, memory: Memory) -> Iterator[str]:
    """No job has two live attempts, and none is lost: something that is there leads on to its end."""
    live = Counter(a.job for a in view.open_attempts)
    for job in view.jobs.values():
        if live[job.id] > 1:
            yield f"{job.id} has {live[job.id]} live attempts"
        if job.state in (JobState.ACTIVE, JobState.CANCELLING) and not live[job.id]:
            yield f"{job.id} is {job.state} without a live attempt"
        if job.state is JobState.PENDING and live[job.id]:
            yield f"{job.id} is pending while an attempt of it is not closed"
        if job.state is JobState.WAITING and not live[job.id] and not job.due_at:
            yield f"{job.id} is waiting for nothing"
        if job.state in DEMAND and job.id not in view.findable:
            yield f"{job.id} is {job.state} and the queue does not find it"


def ends(view: View, memory: Memory) -> Iterator[str]:
    """A terminal state never changes, and no job that ended is forgotten."""
    for id, state in memory.ended.items():
        if id not in view.jobs or view.jobs[id].state is not state:
            yield f"{id} had {state} and is {view.jobs[id].state if id in view.jobs else 'gone'}"
    memory.ended |= {id: job.state for id, job in view.jobs.items() if job.is_terminal}


def regions(view: View, memory: Memory) -> Iterator[str]:
    """Once a worker has started, the region is for good."""
    for id, job in view.jobs.items():
        if job.region_started:
            pin = memory.pinned.setdefault(id, job.region)
            later = [a for a in view.attempts.get(id, ()) if a.number == job.attempt]
            wrong = {job.region, *(a.region for a in later)} - {pin}
            if wrong:
                yield f"{id} started in {pin} and is in {', '.join(sorted(wrong))}"


def success(view: View, memory: Memory) -> Iterator[str]:
    """A job that succeeded has a run with zero on every worker of one attempt."""
    zeros = Counter(run.attempt for run in view.runs if run.code == 0 and not run.ours)
    for id, job in view.jobs.items():
        if job.state is JobState.SUCCEEDED:
            done = [a for a in view.attempts[id] if zeros[a.id] == len(a.workers)]
            if not done:
                yield f"{id} succeeded without zeros from every worker"


def chips(view: View, memory: Memory) -> Iterator[str]:
    """No chip limit is exceeded by what the slots hold."""
    held: Counter[str] = Counter()
    for slot in view.slots.values():
        if slot.holds_chips:
            held[slot.scope] += accelerator(slot.type).chips
    for scope, limit in view.limits.items():
        if held[scope] > limit:
            yield f"{scope} holds {held[scope]} chips, its limit is {limit}"


def ceilings(view: View, memory: Memory) -> Iterator[str]:
    """No pool holds more than its ceiling, counting what the cloud has; strays and what is leaving aside."""
    held: Counter[str] = Counter()
    for resource in view.resources:
        slot = view.slots.get(resource.order.labels.get(LABEL_SLOT, ""))
        if slot is not None and _is_ours(resource) and slot.tpu == resource.name and slot.name in view.wanted:
            held[slot.pool] += 1
    for pool, count in held.items():
        if count > view.ceilings.get(pool, 0):
            yield f"{pool} holds {count} TPUs, its ceiling is {view.ceilings.get(pool, 0)}"


def releases(view: View, memory: Memory) -> Iterator[str]:
    """A slot is free again only when its TPU is gone."""
    there = {r.name for r in view.resources if r.is_visible}
    for name, generation in memory.releasing:
        slot = view.slots[name]
        if slot.state is SlotState.FREE and slot.generation == generation and slot.tpu in there and not slot.adopted:
            yield f"{name} is free, and {slot.tpu} is still there"
    memory.releasing = {(s.name, s.generation) for s in view.slots.values() if s.state is SlotState.RELEASING}


def hosts(view: View, memory: Memory) -> Iterator[str]:
    """What really runs: one attempt on a host, one attempt of a job anywhere, and nothing of a closed one."""
    on_host: dict[tuple[str, int], str] = {}
    closed = {a.id for each in view.attempts.values() for a in each if a.state is AttemptState.CLOSED}
    for tpu, worker, attempt in view.living:
        if attempt in closed:
            yield f"{attempt} is closed and lives on worker {worker} of {tpu}"
        other = on_host.setdefault((tpu, worker), attempt)
        if other != attempt:
            yield f"worker {worker} of {tpu} has both {other} and {attempt}"
    of_job: dict[str, str] = {}
    for run in view.runs:
        if not run.ended and of_job.setdefault(run.job, run.attempt) != run.attempt:
            yield f"{run.job} runs twice, as {of_job[run.job]} and {run.attempt}"


def _is_ours(resource: Resource) -> bool:
    return resource.is_visible and resource.order.labels.get(LABEL_NONCE) == NONCE


def _is_owned(resource: Resource, view: View) -> bool:
    slot = view.slots.get(resource.order.labels.get(LABEL_SLOT, ""))
    held = slot is not None and slot.tpu == resource.name and slot.state not in (SlotState.FREE, SlotState.RETIRED)
    return held or resource.phase is Phase.DELETING or stray_entity(resource.view()) in view.sweeps


Rule = Callable[[View, Memory], Iterator[str]]
_RULES: Sequence[Rule] = (leases, jobs, ends, regions, success, chips, ceilings, releases, hosts)
