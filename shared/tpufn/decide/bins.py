"""The idle slots as bins for the matching: alike slots of a pool together, a slot that some job names by itself."""

from collections.abc import Iterable, Sequence

from tpufn.decide.matching import Bin
from tpufn.domain.accelerators import price_per_hour
from tpufn.domain.fleet import Fleet, Model, Pool, slot_key
from tpufn.domain.job import Job
from tpufn.domain.slot import Slot, SlotState


def assignable(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """Idle slots that nobody holds for themselves."""
    return tuple(s for s in slots if s.state is SlotState.IDLE and not s.hold)


def named_slots(jobs: Iterable[Job]) -> frozenset[str]:
    """The slots that some of the jobs name."""
    return frozenset(key.removeprefix("slot:") for job in jobs for key in job.accepts if key.startswith("slot:"))


def by_price(fleet: Fleet) -> tuple[Pool, ...]:
    """The pools, the cheapest per hour first."""
    return tuple(sorted(fleet.pools, key=lambda p: (hourly(p), p.id)))


def hourly(pool: Pool) -> float:
    """List price of one slot of this pool in USD per hour; reserved counts as already paid."""
    if pool.model is Model.RESERVED or pool.existing:
        return 0.0
    return price_per_hour(pool.type, pool.zone, spot=pool.model is Model.SPOT)


def idle_bins(fleet: Fleet, idle: Sequence[Slot], named: frozenset[str]) -> tuple[Bin, ...]:
    """Bins in the order of price. A named slot answers to its pool's keys too."""
    bins = []
    for pool in by_price(fleet):
        keys = pool.keys
        here = [s.name for s in idle if s.pool == pool.id]
        single = [name for name in here if name in named]
        if len(here) > len(single):
            bins.append(Bin(name=pool.id, keys=keys, room=len(here) - len(single)))
        bins += [Bin(name=slot_key(name), keys=keys | {slot_key(name)}, room=1) for name in single]
    return tuple(bins)


def near_bins(job: Job, idle: Sequence[Slot], named: frozenset[str]) -> frozenset[str]:
    """The bins that hold a slot with one of the job's caches, or the slot that it ran on before."""
    return frozenset(slot_key(s.name) if s.name in named else s.pool for s in idle if affinity(job, s) > 0)


def affinity(job: Job, slot: Slot) -> int:
    """How much of the job's caches is on this slot's workers; having run here before counts one."""
    return len(set(job.caches) & set(slot.caches)) + (slot.last_job == job.id)


def pick_slot(job: Job, bin: str, idle: Sequence[Slot], named: frozenset[str]) -> Slot:
    """The best slot of a bin for a job: the most of its caches, then the longest idle."""
    if bin.startswith("slot:"):
        return next(s for s in idle if slot_key(s.name) == bin)
    here = [s for s in idle if s.pool == bin and s.name not in named]
    return min(here, key=lambda s: (-affinity(job, s), s.idle_since, s.name))
