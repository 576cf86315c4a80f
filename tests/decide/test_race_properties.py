"""What no decision of the race may ever break, whatever the fleet, the queue and the cool-downs are."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from tpufn.decide.assign import plan
from tpufn.decide.cooldown import blocked_until
from tpufn.decide.decision import Decision
from tpufn.decide.race import decide
from tpufn.decide.request import chips_left
from tpufn.domain.accelerators import accelerator
from tpufn.domain.capacity import Class, Scope, type_scope, zone_scope
from tpufn.domain.fleet import Model, Pool, slot_key
from tpufn.domain.job import Job, JobState, Priority
from tpufn.domain.slot import LEGS, Slot, SlotState

from .builders import (
    BUCKETS,
    CENTRAL,
    EAST,
    EUROPE,
    NOW,
    POLICY,
    Memory,
    all_written,
    fleet,
    job,
    placement,
    pool,
    quick,
    racing,
    slot,
    twice,
    written,
)
from .test_race import given_up, requested

POOLS = [
    pool("v6e-8", EAST, count=2, chip_limit=32, keep_warm=1),
    pool("v6e-16", EAST, count=2, chip_limit=32),
    pool("v6e-16", EUROPE, count=2),
    pool("v6e-16", EUROPE, count=1, model=Model.ON_DEMAND),
    pool("v4-32", CENTRAL, count=2, keep_warm=2),
]
WHOLE = fleet(*POOLS)
STATES = [SlotState.FREE, SlotState.FREE, *LEGS, *SlotState]


@st.composite
def worlds(draw: st.DrawFn, *, named: bool = True) -> tuple[tuple[Slot, ...], tuple[Job, ...], tuple[Scope, ...]]:
    """Any slot table, any queue, any cool-downs."""
    slots = tuple(
        slot(
            p,
            p.slots.index(name) + 1,
            draw(st.sampled_from([s for s in STATES if s is not SlotState.RETIRED])),
            requested_at=NOW - draw(st.integers(0, 5)),
            hold=draw(st.sampled_from(("", "", "", "", "ada"))),
        )
        for name, p in WHOLE.slots()
    )
    jobs = []
    for i in range(draw(st.integers(0, 6))):
        types = draw(
            st.one_of(
                st.just(["any"]), st.lists(st.sampled_from(("v6e-8", "v6e-16", "v4-32")), min_size=1, unique=True)
            )
        )
        regions = tuple(draw(st.lists(st.sampled_from(sorted(BUCKETS)), min_size=1, unique=True)))
        name = draw(st.sampled_from(("", "", "", *(n for n, _ in WHOLE.slots())))) if named else ""
        state = draw(st.sampled_from((JobState.PENDING, JobState.WAITING)))
        jobs.append(
            job(
                f"j{i}",
                *types,
                of=WHOLE,
                regions=regions,
                tpu_name=name,
                state=state,
                priority=draw(st.sampled_from(Priority)),
            )
        )
    scopes = (f"spot:{type_scope('v6e-16', EAST)}", zone_scope(EUROPE), "spot:quota:v4@us-central2", POOLS[0].scope)
    cool = tuple(
        Scope(id=id, until=NOW + 60 if not id.startswith("chips") else 0.0, cls=Class.STOCKOUT, seq=3)
        for id in draw(st.lists(st.sampled_from(scopes), unique=True))
    )
    return slots, tuple(sorted(jobs, key=lambda j: j.rank)), cool


World = tuple[tuple[Slot, ...], tuple[Job, ...], tuple[Scope, ...]]


def outcome(world: World) -> Decision:
    slots, jobs, scopes = world
    return decide(racing(WHOLE, slots, *jobs, scopes=scopes), policy=POLICY)


def fits(of: Job, p: Pool, name: str) -> bool:
    return not (p.keys | {slot_key(name)}).isdisjoint(of.accepts)


def unmatched(world: World) -> list[Job]:
    slots, jobs, _ = world
    placed = {p.job.id for p in plan(placement(WHOLE, slots, *jobs))}
    return [j for j in jobs if j.id not in placed]


def is_blocked(p: Pool, scopes: Iterable[Scope]) -> bool:
    return blocked_until(p, {s.id: s for s in scopes}, now=NOW, revision=1) > NOW


@quick
@given(worlds())
def test_ceilings_and_chip_limits_hold_after_any_decision(world: World) -> None:
    """Why: a limit that is passed once is a bill, or a quota failure for everybody."""
    decision = outcome(world)
    after = {s.name: s for s in (*world[0], *all_written(decision, Slot))}
    assert set(after) == {name for name, _ in WHOLE.slots()}
    asked = {after[name].scope for name in requested(decision)}
    for p in POOLS:
        held = sum(accelerator(s.type).chips for s in after.values() if s.scope == p.scope and s.holds_chips)
        assert p.scope not in asked or not p.chip_limit or held <= p.chip_limit


@quick
@given(worlds())
def test_legs_are_opened_only_for_a_head_that_fits_or_a_floor(world: World) -> None:
    """Why: a TPU that nobody could use is never asked for, nor one in a cool-down, nor one that is taken."""
    slots, _, scopes = world
    decision = outcome(world)
    before = {s.name: s for s in slots}
    heads = unmatched(world)
    for name in requested(decision):
        p = next(p for p in POOLS if name in p.slots)
        assert before[name].state is SlotState.FREE
        assert not before[name].hold
        assert not is_blocked(p, scopes)
        assert p.keep_warm or any(fits(j, p, name) for j in heads)


@quick
@given(worlds())
def test_only_legs_that_nobody_holds_are_given_up(world: World) -> None:
    """Why: idle, busy and held TPUs are other functions' business, and a person's."""
    before = {s.name: s for s in world[0]}
    for name in given_up(outcome(world)):
        assert before[name].is_leg
        assert not before[name].hold


@quick
@given(worlds())
def test_no_pool_asks_and_gives_up_at_once_while_a_head_goes_without(world: World) -> None:
    """Why: every head with room in a pool has a place there, and a leg is surplus only when no head could use it."""
    slots, _, scopes = world
    decision = outcome(world)
    lost, asked = set(given_up(decision)), set(requested(decision))
    chips = chips_left(WHOLE, [*(s for s in slots if s.name not in lost | asked), *all_written(decision, Slot)])
    heads = unmatched(world)
    for p in POOLS:
        mine = [s for s in slots if s.pool == p.id and not s.hold]
        kept = [s.name for s in mine if (s.is_leg and s.name not in lost) or s.name in asked]
        spare = [s.name for s in mine if s.name in lost]
        if not is_blocked(p, scopes) and chips[p.scope] >= p.chips:
            spare += [s.name for s in mine if s.state is SlotState.FREE and s.name not in asked]
        here = [j for j in heads if p.keys.isdisjoint(j.accepts) is False]
        assert not spare or len(here) <= len(kept)
        there = sum(s.state in {SlotState.IDLE, SlotState.BUSY, SlotState.CLEANING} for s in mine)
        assert not spare or there + len(kept) >= p.keep_warm


@quick
@given(worlds(named=False))
def test_what_is_kept_is_at_least_as_far_along_as_what_is_lost(world: World) -> None:
    """Why: the newest waiting legs go first."""
    order = [SlotState.REQUESTING, SlotState.WAITING, SlotState.PROVISIONING, SlotState.BOOTING]
    lost = set(given_up(outcome(world)))
    for p in POOLS:
        legs = [s for s in world[0] if s.pool == p.id and s.is_leg and not s.hold]
        worth = {s.name: (order.index(s.state), -s.requested_at) for s in legs}
        kept = [worth[s.name] for s in legs if s.name not in lost]
        gone = [worth[s.name] for s in legs if s.name in lost]
        assert not kept or not gone or min(kept) >= max(gone)


@quick
@given(worlds())
def test_one_step_a_scope_and_every_document_once(world: World) -> None:
    """Why: one commit per scope per decision, its guard bumped by one; a document written twice would be stale."""
    decision = outcome(world)
    known = {s.id: s for s in world[2]}
    scopes = [written(step, Scope) for step in decision.steps]
    assert len({s.id for s in scopes}) == len(scopes)
    assert twice(decision) == []
    for step, guard in zip(decision.steps, scopes, strict=True):
        assert guard.seq == known.get(guard.id, Scope(id=guard.id)).seq + 1
        assert all(s.scope == guard.id for s in all_written(step, Slot))
        assert all_written(step, Slot)


@quick
@given(worlds())
def test_deciding_again_after_the_commit_gives_nothing(world: World) -> None:
    """Why: the events that a decision causes wake the race again: it must be at rest, whatever it started from."""
    slots, jobs, scopes = world
    store = Memory(*slots, *scopes)
    for step in outcome((tuple(store.all(Slot)), jobs, tuple(store.all(Scope)))).steps:
        store.commit(step)
    again = outcome((tuple(store.all(Slot)), jobs, tuple(store.all(Scope))))
    assert again.steps == (), again
