"""Reading the head of the queue: exactly the jobs that could be placed, however long the queue is.

A query asks for jobs that accept any key that is still open, in rank order; the walk places them, drops the keys that
closed, and goes on after the cursor. Reads are at most the jobs placed plus one page per closing.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from tpufn.decide.bins import assignable, idle_bins, named_slots
from tpufn.decide.matching import Matching
from tpufn.decide.race import Walk
from tpufn.domain.capacity import Scope
from tpufn.domain.fleet import NAMED, Fleet, slot_key
from tpufn.domain.job import DEMAND, Job, JobState
from tpufn.domain.slot import Slot, SlotState
from tpufn.ports import Cut

PAGE = 16


class Heads(NamedTuple):
    """Jobs in rank order, and the slots that any job names."""

    jobs: tuple[Job, ...] = ()
    named: frozenset[str] = frozenset()


def assign_heads(cut: Cut, fleet: Fleet, slots: Sequence[Slot]) -> Heads:
    """The jobs that the idle slots can take, in rank order. Waiting ones only keep their place: a retry's warm TPU."""
    idle = assignable(slots)
    if not idle:
        return Heads()
    states = tuple(DEMAND)
    named = _named(cut, (s.name for s in idle), states)
    matching = Matching(idle_bins(fleet, idle, named))
    placed: list[Job] = []

    def offer(job: Job) -> None:
        if matching.offer(job.id, job.accepts):
            placed.append(job)

    _walk(cut, states, matching.open_keys, offer)
    return Heads(tuple(placed), named)


def race_heads(cut: Cut, fleet: Fleet, slots: Sequence[Slot], scopes: Sequence[Scope]) -> Heads:
    """The jobs that want capacity and could be matched, or could take a leg somewhere, in rank order."""
    places = (s.name for s in slots if s.is_leg or s.state in (SlotState.IDLE, SlotState.FREE))
    named = _named(cut, places, tuple(DEMAND))
    walk = Walk(fleet, slots, {s.id: s for s in scopes}, named, cut.now)
    seen: list[Job] = []

    def offer(job: Job) -> None:
        seen.append(job)
        walk.offer(job)

    _walk(cut, tuple(DEMAND), walk.open_keys, offer)
    return Heads(tuple(seen), named)


def _walk(
    cut: Cut,
    states: Collection[JobState],
    open_keys: Callable[[], frozenset[str]],
    offer: Callable[[Job], None],
) -> None:
    cursor = ""
    while keys := open_keys():
        page = cut.jobs_wanting(keys, states=states, after=cursor, limit=PAGE)
        for job in page:
            offer(job)
        if len(page) < PAGE:
            return
        cursor = page[-1].rank


def _named(cut: Cut, slots: Iterable[str], states: Collection[JobState]) -> frozenset[str]:
    """Those of the slots that some job names. Usually one read: that there is no such job at all."""
    if not cut.jobs_wanting((NAMED,), states=states, limit=1):
        return frozenset()
    keys, found = {slot_key(name) for name in slots}, set[str]()
    while keys:
        page = cut.jobs_wanting(keys, states=states, limit=PAGE)
        names = named_slots(page)
        found |= names
        keys -= {slot_key(name) for name in names}
        if len(page) < PAGE:
            break
    return frozenset(found)
