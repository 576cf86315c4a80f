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
from tpufn.domain.accelerators import accelerator
from tpufn.domain.capacity import Scope
from tpufn.domain.effects import Effect, Kind, job_entity, slot_entity
from tpufn.domain.fleet import Fleet, Pool, pool_keys, slot_key
from tpufn.domain.job import Job
from tpufn.domain.notes import Note
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotEvent, SlotState, cloud_name

THERE = frozenset({SlotState.IDLE, SlotState.BUSY, SlotState.CLEANING})
"""The states in which a TPU counts towards a warm floor."""
_NEWEST_FIRST = (SlotState.REQUESTING, SlotState.WAITING, SlotState.PROVISIONING, SlotState.BOOTING)


@dataclass(frozen=True, kw_only=True)
class RaceSnapshot:
    """`heads`: pending and waiting jobs in rank order, enough that nothing behind could open a leg."""

    now: float
    fleet: Fleet
    slots: Sequence[Slot]
    scopes: Mapping[str, Scope]
    heads: Sequence[Job]


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
            if any(self._is_open(s, room) for s in (*room.legs, *room.free)):
                keys |= pool_keys(room.pool)
        return frozenset(keys | {slot_key(name) for name in self._named})

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
        pool_wide = bool(wanted & pool_keys(room.pool))
        for slot in (*room.legs, *room.free):
            if (pool_wide or slot_key(slot.name) in wanted) and self._is_open(slot, room):
                self._book(slot, job, room)
                return slot
        return None

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
    named = named_slots(snapshot.heads)
    walk = Walk(snapshot.fleet, snapshot.slots, snapshot.scopes, named, snapshot.now)
    for job in snapshot.heads:
        walk.offer(job)
    walk.keep_warm()
    steps = _steps(snapshot, walk, policy)
    if not steps:
        return NOTHING
    return Decision(steps=steps, reason=f"{len(snapshot.heads)} jobs want capacity, {walk.matched} are matched")


def chips_left(fleet: Fleet, slots: Sequence[Slot]) -> dict[str, float]:
    """Chips still to be had per scope: its limit less what its slots hold; infinite without a limit."""
    left: dict[str, float] = {p.scope: float(p.chip_limit or "inf") for p in fleet.pools}
    for slot in slots:
        if slot.holds_chips and slot.scope in left:
            left[slot.scope] -= accelerator(slot.type).chips
    return left


def _steps(snapshot: RaceSnapshot, walk: Walk, policy: Policy) -> tuple[Step, ...]:
    by_scope: dict[str, Step] = {}
    for room in walk.rooms:
        for slot in room.free:
            if slot.name in room.taken:
                _add(by_scope, room.pool, request(slot, room, snapshot, policy))
        for slot in reversed(room.legs):
            if slot.name not in room.taken:
                _add(by_scope, room.pool, surplus(slot, now=snapshot.now))
    steps = [guarded(step, scope, snapshot) for scope, step in by_scope.items()]
    notes = tuple(_opened(job, slots) for job, slots in walk.opened.items())
    if steps and notes:
        steps[0] = replace(steps[0], notes=notes + steps[0].notes)
    return tuple(steps)


def _add(by_scope: dict[str, Step], pool: Pool, step: Step) -> None:
    by_scope[pool.scope] = by_scope[pool.scope] + step if pool.scope in by_scope else step


def guarded(step: Step, scope: str, snapshot: RaceSnapshot) -> Step:
    """The step with the bump of its chip scope's guard: two planners cannot both spend the same chips."""
    guard = snapshot.scopes.get(scope, Scope(id=scope))
    return step + Step(writes=(replace(guard, seq=guard.seq + 1),))


def request(slot: Slot, room: Room, snapshot: RaceSnapshot, policy: Policy) -> Step:
    """Ask for the slot's next generation."""
    generation = slot.generation + 1
    tpu = cloud_name(snapshot.fleet.name, slot.name, generation)
    job = room.taken[slot.name]
    reason = f"for {job}" if job else f"warm floor of {room.pool.keep_warm}"
    after = slot.on(
        SlotEvent.REQUEST,
        now=snapshot.now,
        generation=generation,
        fence=0,
        tpu=tpu,
        requested_at=snapshot.now,
        create_settled=False,
        deadline=snapshot.now + policy.request_budget,
        workers=(),
        caches=(),
        quick_failures=(),
        deletes=0,
        last_job="",
        idle_since=0.0,
        cause=reason,
    )
    effect = Effect(kind=Kind.CREATE, entity=slot_entity(slot.name), generation=generation, reason=reason)
    note = slot_note(after, "slot.requesting", f"{room.pool.type} in {room.pool.zone}, {reason}", job=job)
    return Step(writes=(after,), effects=(effect,), notes=(note,), reason=f"request {slot.name} {reason}")


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


def _progress(slot: Slot) -> tuple[int, float]:
    return (-_NEWEST_FIRST.index(slot.state), slot.requested_at)


def _number(slot: Slot) -> tuple[int, str]:
    tail = slot.name.rpartition("-")[2]
    return (int(tail) if tail.isdecimal() else 0, slot.name)
