"""Which pending job gets which idle slot.

The plan commits in rank order, a few placements at a time, and stops at the first stale one; the runner then reloads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tpufn.decide.bins import assignable, idle_bins, named_slots, near_bins, pick_slot
from tpufn.decide.decision import NOTHING, Decision, Step
from tpufn.decide.matching import Matching
from tpufn.domain.accelerators import region_of
from tpufn.domain.attempt import Attempt
from tpufn.domain.effects import attempt_entity, slot_entity
from tpufn.domain.fleet import Fleet, Pool, accepting_pools
from tpufn.domain.job import Job, JobEvent, JobState
from tpufn.domain.notes import Note
from tpufn.domain.slot import Lease, Slot, SlotEvent

GROUP = 8
"""Placements per commit."""


@dataclass(frozen=True, kw_only=True)
class PlacementSnapshot:
    """`heads` are jobs that want capacity, in rank order: enough of them that nothing behind could be placed."""

    now: float
    fleet: Fleet
    slots: Sequence[Slot]
    heads: Sequence[Job]
    named: frozenset[str] = frozenset()  # slots that some job names, behind the heads too


@dataclass(frozen=True, kw_only=True)
class Placement:
    job: Job
    slot: Slot


def plan(snapshot: PlacementSnapshot) -> tuple[Placement, ...]:
    """Job by job in rank order: who gets which idle slot. The one matching of `assign` and `capacity_race`."""
    idle = list(assignable(snapshot.slots))
    named = snapshot.named | named_slots(snapshot.heads)
    matching = Matching(idle_bins(snapshot.fleet, idle, named))
    for job in snapshot.heads:
        matching.offer(job.id, job.accepts, near=near_bins(job, idle, named))
    bin_of = dict(matching.placed())
    placements = []
    for job in (j for j in snapshot.heads if j.id in bin_of):
        slot = pick_slot(job, bin_of[job.id], idle, named)
        idle.remove(slot)
        placements.append(Placement(job=job, slot=slot))
    return tuple(placements)


def decide(snapshot: PlacementSnapshot) -> Decision:
    """One step per few placements, best rank first. Only pending jobs start; waiting ones only keep their place."""
    placements = [p for p in plan(snapshot) if p.job.state is JobState.PENDING]
    if not placements:
        return NOTHING
    steps = [start(p.job, p.slot, snapshot) for p in placements]
    groups = [steps[i : i + GROUP] for i in range(0, len(steps), GROUP)]
    merged = tuple(sum(group[1:], group[0]) for group in groups)
    idle = len(assignable(snapshot.slots))
    return Decision(
        steps=merged, reason=f"{len(placements)} of {len(snapshot.heads)} waiting jobs placed on {idle} idle slots"
    )


def start(job: Job, slot: Slot, snapshot: PlacementSnapshot) -> Step:
    """Lease the slot to the job: job, slot and a new attempt in one commit."""
    pool = snapshot.fleet.pool(slot.pool)
    assert pool is not None, f"slot {slot.name} has no pool"
    losers = _lost(job, snapshot)
    waited = snapshot.now - job.since
    job, slot, attempt = leased(job, slot, pool, now=snapshot.now)
    reason = f"best rank for {slot.name} ({pool.type} in {pool.zone}); waited {waited:.1f} s"
    won = Note(
        event="race.won",
        subject=slot_entity(slot.name),
        job=job.id,
        attempt=attempt.id,
        slot=slot.name,
        correlation_id=attempt.correlation_id,
        reason=reason,
        data={"type": pool.type, "zone": pool.zone, "waited": round(waited, 3), "losers": ",".join(losers)},
    )
    return Step(writes=(job, slot, attempt), notes=(won, assigned_note(attempt, pool)), reason=reason)


def _lost(job: Job, snapshot: PlacementSnapshot) -> list[str]:
    """The legs that are of no more use: no other job at the head of the queue could run there."""
    others = [head for head in snapshot.heads if head.id != job.id]
    return [
        s.name
        for s in snapshot.slots
        if s.is_leg
        and not s.hold
        and _accepted(job, s, snapshot.fleet)
        and not any(_accepted(other, s, snapshot.fleet) for other in others)
    ]


def assigned_note(attempt: Attempt, pool: Pool, *, again: bool = False) -> Note:
    """The note of a new attempt; `again` on the TPU of the one before."""
    where = f"attempt {attempt.number} on {attempt.slot}"
    pin = f", pinned to {attempt.region}" if attempt.number > 1 else ""
    return Note(
        event="attempt.assigned",
        subject=attempt_entity(attempt.id),
        job=attempt.job,
        attempt=attempt.id,
        slot=attempt.slot,
        correlation_id=attempt.correlation_id,
        reason=f"{where} again, which is clean" if again else where + pin,
        data={
            "number": attempt.number,
            "region": attempt.region,
            "zone": attempt.zone,
            "type": pool.type,
            "workers": len(attempt.workers),
            "retained_region": attempt.number > 1,
        },
    )


def leased(job: Job, slot: Slot, pool: Pool, *, now: float) -> tuple[Job, Slot, Attempt]:
    """The three documents of a lease. A first assignment pins region and bucket in the same commit."""
    region = pool.region
    number = job.attempt + 1
    lease = Lease(slot=slot.name, generation=slot.generation, fence=slot.fence + 1, attempt=f"{job.id}.{number}")
    slot = slot.on(SlotEvent.LEASE, now=now, lease=lease, fence=lease.fence, idle_since=0.0, last_job=job.id, cause="")
    job = job.on(
        JobEvent.ASSIGN,
        now=now,
        attempt=number,
        slot=slot.name,
        region=region,
        accepts=pinned(job.accepts, region),
        due_at=0.0,
        cause=f"on {slot.name}",
        unschedulable="",
    )
    attempt = Attempt(
        job=job.id,
        number=number,
        lease=lease,
        tpu=slot.tpu,
        pool=pool.id,
        zone=pool.zone,
        region=region,
        bucket=job.buckets.get(region, ""),
        workers=slot.workers,
        correlation_id=job.correlation_id,
        since=now,
        created_at=now,
    )
    return job, slot, attempt


def pinned(accepts: tuple[str, ...], region: str) -> tuple[str, ...]:
    """The keys that stay inside a region. A slot's own key names no place and stays as it is."""
    return tuple(key for key in accepts if "@" not in key or _place_in(key.rpartition("@")[2], region))


def unpinned(job: Job) -> Job:
    """The job as before its first assignment: any candidate region will do again."""
    return job if job.region_started else replace(job, region="", accepts=job.unpinned)


def _place_in(place: str, region: str) -> bool:
    return place == region or (place.startswith(f"{region}-") and region_of(place) == region)


def _accepted(job: Job, slot: Slot, fleet: Fleet) -> bool:
    return any(pool.id == slot.pool for pool in accepting_pools(fleet, job.unpinned or job.accepts))
