"""`assign` and `capacity_race`: the same matching, for the idle slots and for what stays unmatched."""

from tpufn.decide import assign, idle_teardown, race
from tpufn.decide.decision import Decision
from tpufn.domain.effects import Kind, slot_entity
from tpufn.domain.events import Event, Wake, Written
from tpufn.domain.fleet import Pool, slot_key
from tpufn.domain.job import DEMAND, JobState
from tpufn.domain.policy import Policy
from tpufn.domain.slot import SlotState
from tpufn.flows.heads import assign_heads, race_heads
from tpufn.ports import Cut, Ports
from tpufn.runner import Function


def load_assign(ports: Ports, event: Event, policy: Policy) -> assign.PlacementSnapshot | None:
    with ports.store.cut() as cut:
        if not _assign_cares(cut, event):
            return None
        fleet, slots = cut.fleet(), cut.slots()
        if fleet is None:
            return None
        heads = assign_heads(cut, fleet, slots)
        if not heads.jobs:
            return None
        return assign.PlacementSnapshot(now=cut.now, fleet=fleet, slots=slots, heads=heads.jobs, named=heads.named)


def load_race(ports: Ports, event: Event, policy: Policy) -> race.RaceSnapshot | None:
    with ports.store.cut() as cut:
        if not _race_cares(cut, event):
            return None
        fleet, slots, scopes = cut.fleet(), cut.slots(), cut.scopes()
        if fleet is None:
            return None
        heads = race_heads(cut, fleet, slots, scopes)
        by_id = {s.id: s for s in scopes}
        return race.RaceSnapshot(
            now=cut.now, fleet=fleet, slots=slots, scopes=by_id, heads=heads.jobs, named=heads.named
        )


def load_idle(ports: Ports, event: Event, policy: Policy) -> idle_teardown.IdleSnapshot | None:
    """Only pools with an overdue idle slot are looked at: one read each tells whether any job wants them."""
    with ports.store.cut() as cut:
        fleet, slots = cut.fleet(), cut.slots()
        if fleet is None:
            return None
        late = {s.pool for s in idle_teardown.overdue(fleet, slots, now=cut.now)}
        if not late:
            return None
        wanted = {p.id for p in fleet.pools if p.id in late and _is_wanted(cut, p)}
        scopes = {s.id: s for s in cut.scopes()}
        return idle_teardown.IdleSnapshot(
            now=cut.now, fleet=fleet, slots=slots, scopes=scopes, wanted=frozenset(wanted)
        )


def _is_wanted(cut: Cut, pool: Pool) -> bool:
    keys = pool.keys | {slot_key(name) for name in pool.slots}
    return bool(cut.jobs_wanting(keys, states=DEMAND, limit=1))


def _assign_cares(cut: Cut, event: Event) -> bool:
    """A slot became idle, a job became pending, or a tick says so."""
    if not isinstance(event, Written):
        return True
    if event.kind == "slot":
        slot = cut.slot(event.id)
        return slot is not None and slot.state is SlotState.IDLE
    job = cut.job(event.id) if event.kind == "job" else None
    return job is not None and job.state is JobState.PENDING


def _race_cares(cut: Cut, event: Event) -> bool:
    """A job became or ceased to be pending, a slot became free or usable, or a tick says so."""
    if not isinstance(event, Written):
        return True
    if event.kind == "slot":
        slot = cut.slot(event.id)
        return slot is not None and slot.state is SlotState.FREE and _is_sought(cut)
    return event.kind == "job"


def _is_sought(cut: Cut) -> bool:
    """Whether a free slot can be of use: some job wants capacity, or some pool is kept warm. Two reads tell."""
    fleet = cut.fleet()
    return bool(cut.jobs_in(tuple(DEMAND), limit=1)) or (fleet is not None and any(p.keep_warm for p in fleet.pools))


def _entity(event: Event) -> str:
    if isinstance(event, Wake):
        return event.entity
    return slot_entity(event.id) if isinstance(event, Written) and event.kind == "slot" else ""


def _decide_assign(snapshot: assign.PlacementSnapshot, event: Event, policy: Policy) -> Decision:
    return assign.decide(snapshot)


def _decide_race(snapshot: race.RaceSnapshot, event: Event, policy: Policy) -> Decision:
    return race.decide(snapshot, policy=policy)


def _decide_idle(snapshot: idle_teardown.IdleSnapshot, event: Event, policy: Policy) -> Decision:
    return idle_teardown.decide(snapshot)


ASSIGN = Function(name="assign", load=load_assign, decide=_decide_assign, entity=lambda event: "")
CAPACITY_RACE = Function(
    name="capacity_race",
    load=load_race,
    decide=_decide_race,
    entity=_entity,
    owns=frozenset({Kind.CREATE, Kind.DELETE, Kind.SWEEP}),
)
IDLE_TEARDOWN = Function(name="idle_teardown", load=load_idle, decide=_decide_idle, entity=lambda event: "")
