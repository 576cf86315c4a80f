"""Builders of pools, fleets, slots, jobs and attempts, and a dictionary that commits as the store does."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from hypothesis import HealthCheck, settings

from tpufn.codec import reference
from tpufn.decide.assign import PlacementSnapshot, leased
from tpufn.decide.attempts import Trio
from tpufn.decide.decision import Decision, Step
from tpufn.decide.race import RaceSnapshot
from tpufn.decide.verdict import Sight
from tpufn.domain.attempt import AttemptState, Outcome
from tpufn.domain.capacity import Scope
from tpufn.domain.cloud import Health, NodeState, QueuedResourceState, Tpu, ownership_labels
from tpufn.domain.effects import Kind
from tpufn.domain.errors import Stale
from tpufn.domain.fleet import Fleet, Model, Pool, accepting_pools, job_keys, pool_id
from tpufn.domain.job import Job, JobSpec, JobState, Priority, rank
from tpufn.domain.notes import Note
from tpufn.domain.orders import Closed, Exited, Phase, WorkerReport
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Lease, Slot, SlotState, Worker, cloud_name

NOW = 1_000_000.0
POLICY = Policy()
quick = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For properties over whole fleets: a busy machine must not fail them."""
EAST, CENTRAL, EUROPE = "us-east1-d", "us-central2-b", "europe-west4-a"
BUCKETS = {"us-east1": "lab-us-east1", "us-central2": "lab-us-central2", "europe-west4": "lab-europe-west4"}


def pool(type: str = "v6e-16", zone: str = EAST, *, count: int = 2, model: Model = Model.SPOT, **changes: Any) -> Pool:
    id = changes.pop("id", pool_id(model, type, zone))
    return Pool(id=id, type=type, zone=zone, count=count, model=model, **changes)


def fleet(*pools: Pool, **changes: Any) -> Fleet:
    return Fleet(**{"name": "lab", "nonce": "n0nce", "revision": 1, "pools": pools or (pool(),), **changes})


def slot(of: Pool, number: int = 1, state: SlotState = SlotState.IDLE, **changes: Any) -> Slot:
    """One slot of a pool in any state, with what that state implies filled in."""
    name = of.slots[number - 1]
    there = state not in (SlotState.FREE, SlotState.RETIRED)
    fields: dict[str, Any] = {
        "name": name,
        "pool": of.id,
        "zone": of.zone,
        "type": of.type,
        "scope": of.scope,
        "adopted": bool(of.existing),
        "state": state,
        "since": NOW - 100,
        "generation": 1 if there else 0,
        "tpu": cloud_name("lab", name, 1) if there else "",
        "requested_at": NOW - 300 if there else 0.0,
        "idle_since": NOW - 100 if state is SlotState.IDLE else 0.0,
        "version": "1",
    }
    if state in (SlotState.BOOTING, SlotState.IDLE, SlotState.BUSY, SlotState.CLEANING):
        fields["workers"] = hosts(of)
    return Slot(**(fields | changes))


def hosts(of: Pool) -> tuple[Worker, ...]:
    return tuple(Worker(address=f"10.0.0.{i}", reach=f"10.0.0.{i}:22") for i in range(of.accelerator.hosts))


def table(of: Fleet, *given: Slot) -> tuple[Slot, ...]:
    """The whole slot table: the slots given, and a free row for every other name."""
    known = {s.name: s for s in given}
    return tuple(known.get(name) or slot(p, p.slots.index(name) + 1, SlotState.FREE) for name, p in of.slots())


def job(id: str = "train", *types: str, of: Fleet | None = None, **changes: Any) -> Job:
    """A pending job that any region with a bucket will do for, its rank stamped."""
    regions, zone, name = changes.pop("regions", tuple(BUCKETS)), changes.pop("zone", ""), changes.pop("tpu_name", "")
    accepts = changes.pop("accepts", None) or job_keys(types or ("v6e-16",), regions, zone=zone, slot=name)
    priority, submitted = changes.pop("priority", Priority.NORMAL), changes.pop("submitted_at", NOW - 60)
    width = len(accepting_pools(of, accepts)) if of else 1
    fields: dict[str, Any] = {
        "id": id,
        "since": submitted,
        "priority": priority,
        "submitted_at": submitted,
        "rank": rank(priority, width, submitted, id),
        "accepts": accepts,
        "unpinned": accepts,
        "buckets": BUCKETS,
        "version": "1",
    }
    return Job(**(fields | changes))


def by_rank(jobs: Iterable[Job]) -> tuple[Job, ...]:
    return tuple(sorted(jobs, key=lambda j: j.rank))


def placement(of: Fleet, slots: Sequence[Slot], *jobs: Job) -> PlacementSnapshot:
    return PlacementSnapshot(now=NOW, fleet=of, slots=slots, heads=by_rank(jobs))


def racing(of: Fleet, slots: Sequence[Slot], *jobs: Job, scopes: Iterable[Scope] = ()) -> RaceSnapshot:
    return RaceSnapshot(now=NOW, fleet=of, slots=slots, scopes={s.id: s for s in scopes}, heads=by_rank(jobs))


def tpu_of(
    slot: Slot,
    *,
    request: QueuedResourceState | None = QueuedResourceState.ACTIVE,
    node: NodeState | None = NodeState.READY,
    health: Health = Health.HEALTHY,
    **changes: Any,
) -> Tpu:
    """What the cloud says of a slot's TPU: by default READY, HEALTHY and ours."""
    fields: dict[str, Any] = {
        "name": slot.tpu,
        "zone": slot.zone,
        "type": slot.type,
        "request": request,
        "node": node,
        "health": health,
        "labels": ownership_labels("lab", "n0nce", slot.name, slot.generation),
        "workers": slot.workers or (Worker(address="10.0.0.0"),),
    }
    return Tpu(**(fields | changes))


STARTED = NOW - 600.0


def trio(
    *,
    state: AttemptState = AttemptState.RUNNING,
    of: Pool | None = None,
    job_state: JobState = JobState.ACTIVE,
    spec: Mapping[str, Any] | None = None,
    job_changes: Mapping[str, Any] | None = None,
    slot_changes: Mapping[str, Any] | None = None,
    **attempt_changes: Any,
) -> Trio:
    """A job's first attempt on a four-worker TPU, at any point of its life."""
    of = of or pool()
    waiting = job(of=fleet(of))
    active, busy, attempt = leased(waiting, slot(of), of, now=STARTED - 60)
    started = state not in (AttemptState.ASSIGNED, AttemptState.LAUNCHING)
    attempt = replace(
        attempt, **{"state": state, "started_at": STARTED if started else 0.0, "version": "1", **attempt_changes}
    )
    settled = state in (AttemptState.STOPPING, AttemptState.CLOSED)
    changes = {"state": SlotState.CLEANING if settled else SlotState.BUSY, **(slot_changes or {})}
    active = replace(active, **{"state": job_state, "region_started": started, **(job_changes or {})})
    return Trio(
        job=active,
        spec=JobSpec(id=active.id, buckets=BUCKETS, **(spec or {})),
        attempt=attempt,
        slot=replace(busy, **changes),
        pool=of,
    )


def stopping(outcome: Outcome, **changes: Any) -> Trio:
    """An attempt with a verdict whose stop proof is awaited; the job is where that verdict leaves it."""
    retried = outcome in (Outcome.PREEMPTED, Outcome.INFRASTRUCTURE, Outcome.UNFIT, Outcome.INTERRUPTED)
    state = JobState.WAITING if retried else JobState.ACTIVE
    defaults: dict[str, Any] = {
        "state": AttemptState.STOPPING,
        "job_state": JobState.SUCCEEDED if outcome is Outcome.SUCCEEDED else state,
        "outcome": outcome,
        "cause": f"it was {outcome}",
        "ended_at": NOW - 10,
        "due_at": NOW + 110,
    }
    return trio(**(defaults | changes))


def exited(
    worker: int, code: int | None = 1, *, at: float = NOW - 5, phase: Phase = Phase.COMMAND, **more: Any
) -> Exited:
    return Exited(worker=worker, code=code, phase=phase, at=at, **more)


def report(*ends: Exited, count: int = 4, beat: float | None = NOW - 1, **changes: Any) -> WorkerReport:
    """What the bucket says: the ends given, and a heartbeat of every worker at `beat` (None for no beat at all)."""
    beats = {} if beat is None else dict.fromkeys(range(count), beat)
    fields: dict[str, Any] = {"count": count, "exited": {e.worker: e for e in ends}, "heartbeats": beats}
    return WorkerReport(**(fields | changes))


def zeros(count: int = 4, **changes: Any) -> WorkerReport:
    return report(*(exited(i, 0) for i in range(count)), count=count, **changes)


def closed(count: int = 4, *, clean: bool = True, caches: tuple[str, ...] = ()) -> dict[int, Closed]:
    return {i: Closed(worker=i, clean=clean, caches=caches, at=NOW - 1) for i in range(count)}


def sight(of: Trio, seen: WorkerReport, **changes: Any) -> Sight:
    """By default the cloud says READY and HEALTHY."""
    there = of.slot or slot(pool())
    fields: dict[str, Any] = {"now": NOW, "attempt": of.attempt, "report": seen, "tpu": tpu_of(there)}
    return Sight(**(fields | changes))


def written(step: Step | Decision | None, type: type[Any]) -> Any:
    """The one document of a type that a step writes; None for none. More than one is a defect."""
    found = all_written(step, type)
    assert len(found) <= 1, found
    return found[0] if found else None


def all_written(step: Step | Decision | None, type: type[Any]) -> list[Any]:
    return [w for s in steps_of(step) for w in s.writes if isinstance(w, type)]


def kinds(step: Step | Decision | None) -> list[tuple[Kind, str]]:
    """The effects, as (kind, name)."""
    return [(e.kind, e.name) for s in steps_of(step) for e in s.effects]


def events(step: Step | Decision | None) -> list[str]:
    return [n.event for n in notes(step)]


def notes(step: Step | Decision | None) -> list[Note]:
    return [n for s in steps_of(step) for n in s.notes]


def steps_of(step: Step | Decision | None) -> tuple[Step, ...]:
    if step is None:
        return ()
    return step.steps if isinstance(step, Decision) else (step,)


class Memory:
    """Documents with versions in a dictionary: a commit is all or nothing, and stale when a version has moved."""

    def __init__(self, *documents: Any) -> None:
        self._documents = {reference(d): replace(d, version="1") for d in documents}
        self._commits = 1

    def commit(self, step: Step) -> None:
        for document in (*step.writes, *step.deletes):
            there = self._documents.get(reference(document))
            if (there.version if there else "") != document.version:
                raise Stale(f"{reference(document)}: {there and there.version!r} is not {document.version!r}")
        self._commits += 1
        self._documents |= {reference(d): replace(d, version=str(self._commits)) for d in step.writes}
        for document in step.deletes:
            del self._documents[reference(document)]

    def all(self, type: type[Any]) -> list[Any]:
        return [d for _, d in sorted(self._documents.items()) if isinstance(d, type)]


@dataclass
class Queue:
    """The part of a cut that reading the queue needs, counting what it costs."""

    jobs: Sequence[Job]
    now: float = NOW
    reads: int = 0
    queries: int = 0
    _sorted: tuple[Job, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self._sorted = by_rank(self.jobs)

    def jobs_wanting(
        self, keys: Collection[str], *, states: Collection[JobState], after: str = "", limit: int = 50
    ) -> Sequence[Job]:
        wanted, start = frozenset(keys), bisect_right(self._sorted, after, key=lambda j: j.rank)
        behind = (self._sorted[i] for i in range(start, len(self._sorted)))
        fitting = (j for j in behind if j.state in states and not wanted.isdisjoint(j.accepts))
        found = list(islice(fitting, limit))
        self.queries += 1
        self.reads += len(found)
        return found


def twice(decision: Decision) -> list[tuple[str, str]]:
    """Documents that more than one step of a decision writes: the second of them can only be stale."""
    refs = [reference(w) for s in decision.steps for w in s.writes]
    return sorted({r for r in refs if refs.count(r) > 1})


def lease(slot: Slot, attempt: str = "other.1") -> Lease:
    return Lease(slot=slot.name, generation=slot.generation, fence=slot.fence, attempt=attempt)
