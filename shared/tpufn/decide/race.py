"""The race: which slots to request for the jobs that stay unmatched, and which surplus legs to release.

With busy and idle slots fixed, walk the unmatched heads in rank order; each takes one place in every pool that it
accepts while pool, ceiling and chip scope have room. A place is first an open leg of that pool, then a free slot. Open
legs that nobody took are surplus, newest waiting first; held slots are never touched. That alone is the race: legs
wherever a pending job could run, fewer as jobs get matched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tpufn.decide.bins import assignable, by_price, idle_bins, named_slots
from tpufn.decide.cooldown import blocked_until
from tpufn.decide.decision import NOTHING, Decision, Step
from tpufn.decide.matching import Matching
from tpufn.decide.release import released, slot_note
from tpufn.decide.request import chips_left, guard, request
from tpufn.domain.capacity import Scope
from tpufn.domain.effects import job_entity
from tpufn.domain.fleet import Fleet, Pool, slot_key
from tpufn.domain.job import Job
from tpufn.domain.notes import Note
from tpufn.domain.policy import Policy
from tpufn.domain.slot import THERE, Slot, SlotState

_NEWEST_FIRST = (SlotState.REQUESTING, SlotState.WAITING, SlotState.PROVISIONING, SlotState.BOOTING)


@dataclass(frozen=True, kw_only=True)
class RaceSnapshot:
    """`heads`: pending and waiting jobs in rank order, enough that nothing behind could open a leg."""

    now: float
    fleet: Fleet
    slots: Sequence[Slot]
    scopes: Mapping[str, Scope]
    heads: Sequence[Job]
    named: frozenset[str] = frozenset()  # slots that some job names, behind the heads too


@dataclass
class Room:
    """The places of one pool while the heads walk by."""

    pool: Pool
    legs: list[Slot]  # furthest along first
    free: list[Slot]
    there: int  # TPUs that are there: idle, busy, cleaning
    blocked: bool  # whether a cool-down stops requests
    taken: dict[str, str] = field(default_factory=dict)  # slot -> the job that it serves


class Walk:
    """The heads of the queue walking past the rooms, best rank first. A matched head needs no leg."""

    def __init__(
        self, fleet: Fleet, slots: Sequence[Slot], scopes: Mapping[str, Scope], named: frozenset[str], now: float
    ):
        self.idle = assignable(slots)
        self.matching = Matching(idle_bins(fleet, self.idle, named))
        self.rooms = _rooms(fleet, slots, scopes, now)
        self.opened: dict[str, list[str]] = {}  # job -> free slots to request for it
        self.matched = 0
        self._named = named
        self._chips = chips_left(fleet, slots)

    def open_keys(self) -> frozenset[str]:
        """The keys of whatever a further head could still get: an idle slot, a leg, a free slot."""
        keys = set(self.matching.open_keys())
        for room in self.rooms:
            places = [s.name for s in (*room.legs, *room.free) if self._is_open(s, room)]
            if places:
                keys |= room.pool.keys | {slot_key(name) for name in places if name in self._named}
        return frozenset(keys)

    def offer(self, job: Job) -> None:
        """Match the job to an idle slot, or let it take one place in every pool that it accepts."""
        if self.matching.offer(job.id, job.accepts):
            self.matched += 1
            return
        wanted = frozenset(job.accepts)
        for room in self.rooms:
            taken = self._take(wanted, job.id, room)
            if taken is not None and not taken.is_leg:
                self.opened.setdefault(job.id, []).append(taken.name)

    def keep_warm(self) -> None:
        """Take places for the warm floors: TPUs that are there, and legs, count towards them."""
        for room in self.rooms:
            for slot in (*room.legs, *room.free):
                if room.there + len(room.taken) >= room.pool.keep_warm:
                    break
                if self._is_open(slot, room):
                    self._book(slot, "", room)

    def _take(self, wanted: frozenset[str], job: str, room: Room) -> Slot | None:
        pool_wide = bool(wanted & room.pool.keys)
        for slot in sorted((*room.legs, *room.free), key=self._is_named):
            if (pool_wide or slot_key(slot.name) in wanted) and self._is_open(slot, room):
                self._book(slot, job, room)
                return slot
        return None

    def _is_named(self, slot: Slot) -> bool:
        """Slots that some job names come last, and in their order: who can take any leaves them to it."""
        return slot.name in self._named

    def _is_open(self, slot: Slot, room: Room) -> bool:
        """An untaken leg, or a free slot that cool-downs and chips allow to be requested."""
        if slot.name in room.taken:
            return False
        return slot.is_leg or (not room.blocked and self._chips[room.pool.scope] >= room.pool.chips)

    def _book(self, slot: Slot, job: str, room: Room) -> None:
        room.taken[slot.name] = job
        if not slot.is_leg:
            self._chips[room.pool.scope] -= room.pool.chips


def _rooms(fleet: Fleet, slots: Sequence[Slot], scopes: Mapping[str, Scope], now: float) -> list[Room]:
    """Every pool's places, pools by price."""
    mine: dict[str, list[Slot]] = {}
    for slot in slots:
        if not slot.hold:
            mine.setdefault(slot.pool, []).append(slot)
    return [_room(pool, mine.get(pool.id, []), fleet, scopes, now) for pool in by_price(fleet)]


def _room(pool: Pool, mine: list[Slot], fleet: Fleet, scopes: Mapping[str, Scope], now: float) -> Room:
    free = [] if pool.existing else [s for s in mine if s.state is SlotState.FREE]
    return Room(
        pool=pool,
        legs=sorted((s for s in mine if s.is_leg), key=_progress),
        free=sorted(free, key=_number),
        there=sum(s.state in THERE for s in mine),
        blocked=blocked_until(pool, scopes, now=now, revision=fleet.revision) > now,
    )


def decide(snapshot: RaceSnapshot, *, policy: Policy) -> Decision:
    """One commit per chip scope, each bumping the scope's guard."""
    named = snapshot.named | named_slots(snapshot.heads)
    walk = Walk(snapshot.fleet, snapshot.slots, snapshot.scopes, named, snapshot.now)
    for job in snapshot.heads:
        walk.offer(job)
    walk.keep_warm()
    steps = _steps(snapshot, walk, policy)
    if not steps:
        return NOTHING
    return Decision(steps=steps, reason=f"{len(snapshot.heads)} jobs want capacity, {walk.matched} are matched")


def _steps(snapshot: RaceSnapshot, walk: Walk, policy: Policy) -> tuple[Step, ...]:
    by_scope: dict[str, Step] = {}
    for room in walk.rooms:
        for slot in room.free:
            if slot.name in room.taken:
                _add(by_scope, room.pool, _ask(slot, room, snapshot, policy))
        for slot in reversed(room.legs):
            if slot.name not in room.taken:
                _add(by_scope, room.pool, surplus(slot, now=snapshot.now))
    steps = [step + guard(scope, snapshot.scopes) for scope, step in by_scope.items()]
    notes = tuple(_opened(job, slots) for job, slots in walk.opened.items())
    if steps and notes:
        steps[0] = replace(steps[0], notes=notes + steps[0].notes)
    return tuple(steps)


def _add(by_scope: dict[str, Step], pool: Pool, step: Step) -> None:
    by_scope[pool.scope] = by_scope[pool.scope] + step if pool.scope in by_scope else step


def _ask(slot: Slot, room: Room, snapshot: RaceSnapshot, policy: Policy) -> Step:
    job = room.taken[slot.name]
    reason = f"for {job}" if job else f"warm floor of {room.pool.keep_warm}"
    deployment = snapshot.fleet.name
    return request(slot, room.pool, reason, deployment=deployment, job=job, now=snapshot.now, policy=policy)


def surplus(slot: Slot, *, now: float) -> Step:
    """Release a leg that no waiting job needs."""
    reason = "no waiting job needs it any more"
    lost = slot_note(slot, "race.lost", f"{slot.state}: {reason}")
    return replace(released(slot, reason, now=now), notes=(lost,))


def _opened(job: str, slots: list[str]) -> Note:
    legs = ",".join(slots)
    return Note(
        event="race.opened",
        subject=job_entity(job),
        job=job,
        reason=f"asking for {len(slots)} slots at once: {legs.replace(',', ', ')}",
        data={"legs": legs},
    )


def _progress(slot: Slot) -> tuple[int, float, tuple[int, str]]:
    return (-_NEWEST_FIRST.index(slot.state), slot.requested_at, _number(slot))


def _number(slot: Slot) -> tuple[int, str]:
    tail = slot.name.rpartition("-")[2]
    return (int(tail) if tail.isdecimal() else 0, slot.name)
