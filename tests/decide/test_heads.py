"""Reading the head of the queue: the same decision as over the whole queue, for few reads."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpufn.decide import assign, race
from tpufn.decide.race import RaceSnapshot
from tpufn.domain.capacity import Class, Scope, zone_scope
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import DEMAND, Job, JobState, Priority
from tpufn.domain.slot import Slot, SlotState
from tpufn.flows.heads import PAGE, assign_heads, race_heads

from .builders import (
    CENTRAL,
    EAST,
    EUROPE,
    NOW,
    POLICY,
    Queue,
    fleet,
    job,
    kinds,
    placement,
    pool,
    quick,
    racing,
    slot,
    table,
)
from .test_assign import WHOLE as ASSIGN_FLEET
from .test_assign import queues, tables
from .test_race_properties import WHOLE as RACE_FLEET
from .test_race_properties import World, worlds

SMALL, LARGE, OLD = pool("v6e-8", EAST, count=3), pool("v6e-16", EUROPE, count=3), pool("v4-32", CENTRAL, count=2)
FLEET = fleet(SMALL, LARGE, OLD)
TEN_THOUSAND = 10_000


@quick
@given(tables(), queues(size=12), st.sampled_from([1, 2, PAGE]))
def test_assigning_the_loaded_heads_is_assigning_the_whole_queue(
    slots: tuple[Slot, ...], jobs: tuple[Job, ...], page: int
) -> None:
    """Why: whoever the loader leaves out could not have been placed."""
    heads = assign_heads(Queue(jobs), ASSIGN_FLEET, slots)
    loaded = {p.job.id for p in assign.plan(placement(ASSIGN_FLEET, slots, *heads.jobs))}
    assert loaded == {p.job.id for p in assign.plan(placement(ASSIGN_FLEET, slots, *jobs))}


@quick
@given(worlds())
def test_racing_for_the_loaded_heads_is_racing_for_the_whole_queue(world: World) -> None:
    """Why: whoever the loader leaves out could not have been matched and could not have opened a leg."""
    slots, jobs, scopes = world
    heads = race_heads(Queue(jobs), RACE_FLEET, slots, scopes)
    assert raced(heads.jobs, world, heads.named).steps == raced(jobs, world).steps


def raced(heads: tuple[Job, ...], world: World, named: frozenset[str] = frozenset()) -> race.Decision:
    slots, _, scopes = world
    known = {s.id: s for s in scopes}
    snapshot = RaceSnapshot(now=NOW, fleet=RACE_FLEET, slots=slots, scopes=known, heads=heads, named=named)
    return race.decide(snapshot, policy=POLICY)


def test_a_waiting_retry_keeps_its_warm_tpu() -> None:
    """Why: a retry keeps its place; a flood of low-priority jobs does not take its warm TPU."""
    retry = job("retry", "v6e-8", state=JobState.WAITING, priority=Priority.HIGH, due_at=NOW + 5)
    slots = table(FLEET, slot(SMALL, last_job="retry"))
    heads = assign_heads(Queue([retry, job("flood", "v6e-8", priority=Priority.LOW)]), FLEET, slots)
    assert assign.decide(placement(FLEET, slots, *heads.jobs)).steps == ()


def flood(*types: str, **changes: object) -> list[Job]:
    """Ten thousand jobs, each of its own priority and time."""
    return [
        job(f"j{i:05d}", types[i % len(types)], priority=Priority(i % 3), submitted_at=NOW - i, **changes)
        for i in range(TEN_THOUSAND)
    ]


QUEUES = {
    "alike": lambda: flood("v6e-8"),
    "mixed": lambda: flood("v6e-8", "v6e-16", "v4-32", "any"),
    "hopeless": lambda: flood("v5litepod-256"),
    "waiting": lambda: flood("v6e-8", "any", state=JobState.WAITING),
    "elsewhere": lambda: flood("v6e-8", "v6e-16", regions=("us-west1",)),
    "two of a kind behind": lambda: [*flood("v6e-8"), job("last", "v4-32", priority=Priority.LOW)],
}
TABLES = {
    "free": table(FLEET),
    "busy": table(FLEET, *(slot(p, i + 1, SlotState.BUSY) for p in FLEET.pools for i in range(p.count))),
    "idle": table(FLEET, *(slot(p, i + 1) for p in FLEET.pools for i in range(p.count))),
    "legs": table(FLEET, *(slot(p, i + 1, SlotState.WAITING) for p in FLEET.pools for i in range(p.count))),
    "one idle": table(FLEET, slot(OLD)),
}


@pytest.fixture(scope="module")
def crowds() -> dict[str, list[Job]]:
    return {name: make() for name, make in QUEUES.items()}


@pytest.mark.parametrize("slots", TABLES)
@pytest.mark.parametrize("queue", QUEUES)
def test_ten_thousand_jobs_cost_few_reads(crowds: dict[str, list[Job]], queue: str, slots: str) -> None:
    """Why: what an event costs is bounded by the fleet, never by the length of the queue."""
    for load in (
        lambda q: assign_heads(q, FLEET, TABLES[slots]),
        lambda q: race_heads(q, FLEET, TABLES[slots], ()),
    ):
        cut = Queue(crowds[queue])
        load(cut)
        assert cut.reads <= 100
        assert cut.queries <= 12


def test_a_cooled_fleet_reads_no_job_at_all(crowds: dict[str, list[Job]]) -> None:
    """Why: with no place to be had, the queue's head is nobody's business."""
    cool = [Scope(id=zone_scope(zone), until=NOW + 9, cls=Class.STOCKOUT) for zone in FLEET.zones]
    cut = Queue(crowds["alike"])
    assert race_heads(cut, FLEET, table(FLEET), cool).jobs == ()
    assert cut.reads == 0
    assert assign_heads(cut, FLEET, table(FLEET)).jobs == ()
    assert cut.reads == 0


@pytest.mark.parametrize("slots", ["idle", "free", "legs"])
def test_ten_thousand_jobs_that_name_one_slot_cost_few_reads(slots: str) -> None:
    """Why: everybody may want the same machine."""
    jobs = [job(f"j{i:05d}", tpu_name=SMALL.slots[0], submitted_at=NOW - i) for i in range(TEN_THOUSAND)]
    cut = Queue(jobs)
    race_heads(cut, FLEET, TABLES[slots], ())
    assert cut.reads <= 100


@quick
@given(worlds(), st.integers(1, 60))
def test_reads_do_not_grow_with_the_tail(world: World, copies: int) -> None:
    """Why: a hundred more of the same behind the head must not cost a read more than a page a place."""
    slots, jobs, scopes = world
    tail = [
        job(f"t{i:03d}", "any", priority=Priority.LOW, submitted_at=NOW + i, state=sorted(DEMAND)[i % 2])
        for i in range(copies)
    ]
    cut = Queue([*jobs, *tail])
    race_heads(cut, RACE_FLEET, slots, scopes)
    places = sum(s.is_leg or s.state in (SlotState.IDLE, SlotState.FREE) for s in slots)
    assert cut.reads <= len(jobs) * 2 + places + 2 * PAGE


def test_no_fleet_no_reads() -> None:
    """Why: an empty deployment file is a valid one."""
    cut = Queue([job()])
    assert race_heads(cut, Fleet(name="lab"), (), ()).jobs == ()
    assert assign_heads(cut, Fleet(name="lab"), ()).jobs == ()


def test_a_slot_that_a_late_job_names_is_left_to_it_by_both() -> None:
    """Why: loader and decision must take the same places, else what was read was read for another plan."""
    tight = pool("v6e-16", EAST, chip_limit=16)
    of, slots = fleet(tight), table(fleet(tight))
    crowd = [job(f"a{i:02d}", priority=Priority.HIGH) for i in range(PAGE)]
    queue = [*crowd, job("late", tpu_name=tight.slots[0], priority=Priority.LOW)]
    heads = race_heads(Queue(queue), of, slots, ())
    plans = [
        race.decide(replace(racing(of, slots, *jobs), named=heads.named), policy=POLICY) for jobs in (heads.jobs, queue)
    ]
    assert kinds(plans[0]) == kinds(plans[1])
