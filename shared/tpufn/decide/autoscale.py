"""The tick's sweep: what is against what should be. It repairs drift, finds strays, and wakes what is overdue.

A tick performs nothing that another function owns: for overdue times and unfinished effects it publishes a wake, each
tick until they are done. That alone finishes every job when every other event is lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpufn.decide.attempts import job_note
from tpufn.decide.decision import Decision, Step, coalesced
from tpufn.decide.observe import Observed, observe
from tpufn.decide.people import losers
from tpufn.decide.ranking import restamped
from tpufn.decide.records import SlotRecord
from tpufn.decide.release import released, slot_note
from tpufn.decide.request import guard
from tpufn.domain.attempt import attempt_id
from tpufn.domain.capacity import Scope
from tpufn.domain.cloud import LABEL_GENERATION, LABEL_NONCE, LABEL_SLOT, Tpu
from tpufn.domain.effects import Effect, Kind, Row, attempt_entity, job_entity, slot_entity
from tpufn.domain.events import WorkerReady
from tpufn.domain.fleet import Fleet, Pool
from tpufn.domain.job import Job, JobEvent, JobState
from tpufn.domain.notes import Note
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotEvent, SlotState

PLACEMENT = "placement:"
"""The entity whose owners are `assign` and `capacity_race`."""

STUCK = 900.0
"""Seconds overdue from which on waking alone does not help (terraform/alerts.tf counts the ticks that say so)."""


@dataclass(frozen=True, kw_only=True)
class SweepSnapshot:
    """`observed`: by slot, only where the cloud was asked and answered. `listed`: everything seen, ours or not."""

    now: float
    fleet: Fleet
    slots: Sequence[Slot]
    scopes: Mapping[str, Scope]
    rows: Sequence[Row]
    due_jobs: Sequence[Job]
    cancelling: Sequence[Job]
    waiting_long: Sequence[Job]
    demand: bool
    observed: Mapping[str, Observed]
    listed: Sequence[Tpu]


def decide(snapshot: SweepSnapshot, *, policy: Policy) -> Decision:
    """The steps in the order: the slot table, each slot, each stray, each overdue job; then the wakes."""
    observed = _slots(snapshot, policy)
    steps = [
        *_table(snapshot),
        *observed,
        *losers(_as_observed(snapshot.slots, observed), now=snapshot.now),
        *_strays(snapshot),
        *(_due(job, snapshot) for job in snapshot.due_jobs),
        *_long_waits(snapshot),
    ]
    done = coalesced([step for step in steps if step is not None])
    stuck = _stuck(snapshot)
    said = f"; {len(stuck)} stuck: {', '.join(stuck[:5])}" if stuck else ""
    reason = f"{len(snapshot.slots)} slots, {len(done)} changes{said}"
    return Decision(steps=done, wakes=_wakes(snapshot), reason=reason)


def _table(snapshot: SweepSnapshot) -> list[Step]:
    """The slot table against the deployment file: new rows, rows that leave, rows that come back."""
    known, wanted = {s.name: s for s in snapshot.slots}, dict(snapshot.fleet.slots())
    fresh = [new_slot(name, pool, now=snapshot.now) for name, pool in wanted.items() if name not in known]
    steps = [Step(writes=tuple(fresh[i : i + 100]), reason="new slots") for i in range(0, len(fresh), 100)]
    for slot in snapshot.slots:
        step = _leaves(slot, snapshot) if slot.name not in wanted else _returns(slot, wanted[slot.name], snapshot)
        if step is not None:
            steps.append(step)
    return steps


def _leaves(slot: Slot, snapshot: SweepSnapshot) -> Step | None:
    """Its pool left the file: drain it to nothing. A running job on it stays watched."""
    if slot.state is SlotState.FREE:
        return Step(
            writes=(slot.on(SlotEvent.RETIRE, now=snapshot.now, cause="left the deployment"),), reason="retired"
        )
    if slot.is_leg or slot.state is SlotState.IDLE:
        return released(slot, "its pool left the deployment", now=snapshot.now)
    return None


def new_slot(name: str, pool: Pool, *, now: float) -> Slot:
    return Slot(name=name, since=now, **_place(pool))


def _place(pool: Pool) -> dict[str, Any]:
    """What a slot keeps of its pool."""
    return {
        "pool": pool.id,
        "zone": pool.zone,
        "type": pool.type,
        "scope": pool.scope,
        "adopted": bool(pool.existing),
        "tpu": pool.existing,
    }


def _returns(slot: Slot, pool: Pool, snapshot: SweepSnapshot) -> Step | None:
    """A row of the table that came back, or whose pool has another type or zone than when its TPU was made."""
    same = (slot.pool, slot.zone, slot.type, slot.scope) == (pool.id, pool.zone, pool.type, pool.scope)
    if slot.state is SlotState.RETIRED:
        slot = slot.on(SlotEvent.RESTORE, now=snapshot.now, cause="back in the deployment", **_place(pool))
        return Step(writes=(slot,), reason="restored")
    if same:
        return None
    if slot.state is SlotState.FREE:
        return Step(writes=(replace(slot, **_place(pool)),), reason=f"{slot.name} is {pool.type} in {pool.zone} now")
    if slot.is_leg or slot.state is SlotState.IDLE:
        return released(slot, f"its pool is {pool.type} in {pool.zone} now", now=snapshot.now)
    return None


def _slots(snapshot: SweepSnapshot, policy: Policy) -> list[Step]:
    """Each observed slot's step; what one of them learns of a scope, the next one knows."""
    wanted, scopes = dict(snapshot.fleet.slots()), dict(snapshot.scopes)
    steps = []
    for slot in snapshot.slots:
        if slot.name not in snapshot.observed or slot.name not in wanted:
            continue
        step = observe(_record(slot, snapshot, scopes), snapshot.observed[slot.name], policy=policy)
        if step is not None:
            steps.append(step)
            scopes |= {d.id: d for d in step.writes if isinstance(d, Scope)}
    return steps


def _as_observed(slots: Sequence[Slot], steps: Sequence[Step]) -> list[Slot]:
    """The slots as they are after these steps."""
    after = {d.name: d for step in steps for d in step.writes if isinstance(d, Slot)}
    return [after.get(slot.name, slot) for slot in slots]


def _record(slot: Slot, snapshot: SweepSnapshot, scopes: Mapping[str, Scope]) -> SlotRecord:
    blank = Row(entity="", effect=Effect(kind=Kind.CREATE, entity="", generation=slot.generation))
    return SlotRecord(now=snapshot.now, fleet=snapshot.fleet, slot=slot, row=blank, scopes=scopes)


def _strays(snapshot: SweepSnapshot) -> list[Step]:
    """Ours by nonce and not what a slot holds now: a late grant that nobody deletes is adopted, all else deleted."""
    slots = {s.name: s for s in snapshot.slots}
    open_entities = {r.entity for r in snapshot.rows}
    steps = []
    for tpu in snapshot.listed:
        slot = slots.get(tpu.labels.get(LABEL_SLOT, ""))
        if tpu.labels.get(LABEL_NONCE) != snapshot.fleet.nonce or _is_held_by(slot, tpu):
            continue
        if stray_entity(tpu) in open_entities:
            continue
        if slot is not None and adoptable(slot, tpu) and snapshot.demand:
            steps.append(_adopt(slot, snapshot))
        else:
            steps.append(_delete_stray(tpu, slot))
    return steps


def _is_held_by(slot: Slot | None, tpu: Tpu) -> bool:
    """Whether the TPU is the slot's present generation, in any state that owns one."""
    if slot is None or slot.state in (SlotState.FREE, SlotState.RETIRED):
        return False
    return slot.tpu == tpu.name and tpu.labels.get(LABEL_GENERATION) == str(slot.generation)


def adoptable(slot: Slot, tpu: Tpu) -> bool:
    """A late grant of the slot's last generation for which no delete was ever sent."""
    current = slot.tpu == tpu.name and tpu.labels.get(LABEL_GENERATION) == str(slot.generation)
    return slot.state is SlotState.FREE and current and slot.deletes == 0 and not tpu.is_dead


def _adopt(slot: Slot, snapshot: SweepSnapshot) -> Step:
    cause = "a late grant, taken after all"
    slot = slot.on(SlotEvent.ADOPT, now=snapshot.now, cause=cause, create_settled=True, deadline=0.0)
    step = Step(writes=(slot,), notes=(slot_note(slot, "slot.adopted", cause),), reason=f"adopt {slot.tpu}")
    return step + guard(slot.scope, snapshot.scopes)


def stray_entity(tpu: Tpu) -> str:
    return f"tpu:{tpu.zone}/{tpu.name}"


def _delete_stray(tpu: Tpu, slot: Slot | None) -> Step:
    reason = f"ours by its labels, but {slot.name if slot else 'no slot'} does not hold it"
    effect = Effect(kind=Kind.SWEEP, entity=stray_entity(tpu), reason=reason)
    note = Note(event="stray.found", subject=stray_entity(tpu), slot=slot.name if slot else "", reason=reason)
    return Step(effects=(effect,), notes=(note,), reason=f"delete {tpu.name}: {reason}")


def _due(job: Job, snapshot: SweepSnapshot) -> Step | None:
    """A backoff that has passed, or a queue deadline."""
    now = snapshot.now
    if job.queue_deadline_at and now >= job.queue_deadline_at and not job.region_started:
        cause = f"queue_deadline passed: waited {now - job.submitted_at:.0f} s without a TPU"
        job = job.on(JobEvent.FAIL, now=now, cause=cause)
        return Step(writes=(job,), notes=(job_note(job, "job.failed", cause),), reason=cause)
    if job.state is JobState.WAITING and job.due_at and now >= job.due_at and not job.slot:
        job = restamped(job.on(JobEvent.REQUEUE, now=now, due_at=0.0, cause="its backoff has passed"), snapshot.fleet)
        return Step(writes=(job,), notes=(job_note(job, "job.pending", job.cause),), reason=job.cause)
    return None


def _long_waits(snapshot: SweepSnapshot) -> list[Step]:
    """Jobs that waited very long count as most constrained from now on."""
    fresh = [(job, restamped(job, snapshot.fleet, longest=True)) for job in snapshot.waiting_long]
    return [Step(writes=(new,), reason=f"{new.id} waited very long") for old, new in fresh if new.rank != old.rank]


def _wakes(snapshot: SweepSnapshot) -> tuple[str, ...]:
    rows = (r.entity for r in snapshot.rows if r.claim_until <= snapshot.now and r.due_at <= snapshot.now)
    leases = (attempt_entity(s.lease.attempt) for s in snapshot.slots if s.lease is not None)
    stopping = (attempt_entity(attempt_id(j.id, j.attempt)) for j in snapshot.cancelling if j.attempt)
    floors = any(p.keep_warm for p in snapshot.fleet.pools)
    legs = any(s.is_leg for s in snapshot.slots)
    placement = (PLACEMENT,) if snapshot.demand or floors or legs else ()
    return tuple(dict.fromkeys((*rows, *leases, *stopping, *placement)))


def _stuck(snapshot: SweepSnapshot) -> tuple[str, ...]:
    """What should long have moved, though every tick has woken it: people should look."""
    long_ago = snapshot.now - STUCK
    rows = (r.entity for r in snapshot.rows if max(r.claim_until, r.due_at) <= long_ago)
    jobs = (job_entity(j.id) for j in snapshot.cancelling if j.since <= long_ago)
    return tuple(dict.fromkeys((*rows, *jobs)))


def failed_startup(ready: WorkerReady) -> Step | None:
    """What people are told when the deployment's own start-up script failed: the TPU is used all the same."""
    code = ready.startup.get("exit", 0)
    if not code:
        return None
    reason = f"worker {ready.worker}: the start-up script ended with {code}: {ready.startup.get('tail', '')}"[:2000]
    note = Note(event="slot.startup-failed", subject=slot_entity(ready.slot), slot=ready.slot, reason=reason)
    return Step(notes=(note,), reason=reason)


def quiet(slots: Sequence[Slot], *, jobs: bool, rows: bool) -> bool:
    """Whether a tick may end at once: every slot free, no job that is not terminal, no effect open."""
    return not jobs and not rows and all(s.state in (SlotState.FREE, SlotState.RETIRED) for s in slots)
