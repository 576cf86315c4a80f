"""The race: where legs are opened, which are given up, and what no decision may ever break."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tpufn.decide.decision import Decision
from tpufn.decide.race import decide
from tpufn.decide.request import chips_left
from tpufn.domain.capacity import Class, Scope, type_scope, zone_scope
from tpufn.domain.effects import Kind
from tpufn.domain.fleet import Fleet, Model
from tpufn.domain.job import Job, JobState, Priority
from tpufn.domain.slot import Slot, SlotState

from .builders import (
    CENTRAL,
    EAST,
    EUROPE,
    NOW,
    POLICY,
    all_written,
    events,
    fleet,
    job,
    kinds,
    notes,
    pool,
    racing,
    slot,
    table,
    written,
)

V6, V4, FAR = pool("v6e-16", EAST), pool("v4-32", CENTRAL), pool("v6e-16", EUROPE)
FLEET = fleet(V6, V4, FAR)


def requested(decision: Decision) -> list[str]:
    return [name for kind, name in kinds(decision) if kind is Kind.CREATE]


def given_up(decision: Decision) -> list[str]:
    return [name for kind, name in kinds(decision) if kind is Kind.DELETE]


def race(of: Fleet, slots: Iterable[Slot], *jobs: Job, scopes: Iterable[Scope] = ()) -> Decision:
    return decide(racing(of, table(of, *slots), *jobs, scopes=scopes), policy=POLICY)


def test_a_job_asks_in_every_pool_that_accepts_it() -> None:
    """Why: that is the race: whoever has capacity first wins."""
    decision = race(FLEET, [], job("train", "v6e-16", "v4-32"))
    assert sorted(requested(decision)) == sorted(p.slots[0] for p in (V6, V4, FAR))
    assert "race.opened" in events(decision)
    assert decision.reason == "1 jobs want capacity, 0 are matched"


def test_a_request_is_a_new_generation_with_a_new_name() -> None:
    """Why: the next TPU must never be taken for the last one."""
    old = slot(
        V6,
        1,
        SlotState.FREE,
        generation=7,
        fence=3,
        tpu="old",
        deletes=2,
        caches=("pip",),
        last_job="x",
        quick_failures=("x",),
    )
    after = written(race(fleet(V6), [old, slot(V6, 2, SlotState.BUSY)], job()), Slot)
    assert (after.state, after.generation, after.tpu) == (SlotState.REQUESTING, 8, f"tpufn-lab-{old.name}-g8")
    assert (after.fence, after.deletes, after.caches, after.last_job, after.quick_failures) == (0, 0, (), "", ())
    assert (after.create_settled, after.requested_at, after.deadline) == (False, NOW, NOW + POLICY.request_budget)


def test_two_jobs_take_two_places_in_each_pool() -> None:
    """Why: one leg can serve one job."""
    assert len(requested(race(fleet(V6), [], job("a"), job("b")))) == 2
    assert len(requested(race(fleet(V6), [], job("a"), job("b"), job("c")))) == 2, "the ceiling is two"


def test_a_matched_job_needs_no_leg() -> None:
    """Why: an idle TPU that assign is about to give away is capacity enough."""
    assert requested(race(FLEET, [slot(V6)], job())) == []
    assert requested(race(FLEET, [slot(V6, hold="ada")], job())) == [V6.slots[1], FAR.slots[0]], "a held one is not"


def test_a_won_race_gives_the_other_legs_up() -> None:
    """Why: the losers' capacity is somebody else's, and costs money."""
    legs = [slot(V6, 1, SlotState.WAITING), slot(FAR, 1, SlotState.PROVISIONING)]
    decision = race(FLEET, [*legs, slot(V4)], job("train", "v6e-16", "v4-32"))
    assert sorted(given_up(decision)) == sorted(s.name for s in legs)
    assert events(decision).count("race.lost") == 2
    assert {s.state for s in all_written(decision, Slot)} == {SlotState.RELEASING}


def test_the_newest_and_least_advanced_legs_go_first() -> None:
    """Why: what is nearest to a TPU is worth most."""
    big = pool("v6e-16", EAST, count=5)
    legs = [
        slot(big, 1, SlotState.WAITING, requested_at=NOW - 10),
        slot(big, 2, SlotState.BOOTING, requested_at=NOW - 5),
        slot(big, 3, SlotState.WAITING, requested_at=NOW - 99),
        slot(big, 4, SlotState.REQUESTING, requested_at=NOW - 500),
        slot(big, 5, SlotState.PROVISIONING, requested_at=NOW - 1),
    ]
    order = [4, 1, 3, 5, 2]
    for jobs in range(6):
        decision = race(fleet(big), legs, *(job(f"j{i}") for i in range(jobs)))
        assert given_up(decision) == [big.slots[n - 1] for n in order[: 5 - jobs]]


def test_legs_of_one_moment_go_by_name() -> None:
    """Why: a decision asks for many legs at one moment; which of them go must not depend on how a store lists them."""
    legs = [slot(V6, n, SlotState.WAITING) for n in (1, 2)]
    lost = {given_up(decide(racing(fleet(V6), order, job()), policy=POLICY))[0] for order in (legs, legs[::-1])}
    assert len(lost) == 1


def test_held_legs_are_never_given_up() -> None:
    """Why: a person asked for that TPU."""
    assert given_up(race(FLEET, [slot(V6, 1, SlotState.WAITING, hold="ada")])) == []


def test_waiting_jobs_count_as_demand() -> None:
    """Why: the next TPU is raced for while the stop proof of the last one is awaited."""
    assert requested(race(fleet(V6), [], job(state=JobState.WAITING))) == [V6.slots[0]]


def test_a_named_slot_is_asked_for_and_no_other() -> None:
    """Why: `tpu_name` is a wish for just this machine."""
    assert requested(race(FLEET, [], job(tpu_name=V6.slots[1]))) == [V6.slots[1]]
    assert requested(race(FLEET, [slot(V6, 2, SlotState.BUSY)], job(tpu_name=V6.slots[1]))) == []


def test_a_flexible_job_leaves_the_named_slot_free() -> None:
    """Why: every head with room in a pool gets a leg there, and there is room for both."""
    first, second = job("a", priority=Priority.HIGH), job("b", tpu_name=V6.slots[0])
    assert sorted(requested(race(fleet(V6), [], first, second))) == list(V6.slots)


def test_the_better_job_has_the_last_chips() -> None:
    """Why: where a chip limit binds, rank decides who is served."""
    small, large = pool("v6e-8", EAST, chip_limit=24), pool("v6e-16", EAST, chip_limit=24)
    of = fleet(small, large)
    a, b = job("a", "v6e-16", priority=Priority.HIGH), job("b", "v6e-8")
    assert sorted(requested(race(of, [], a, b))) == sorted([large.slots[0], small.slots[0]])
    assert requested(race(of, [slot(small, 2, SlotState.BUSY)], a, b)) == [large.slots[0]]
    assert requested(race(of, [slot(large, 2, SlotState.RELEASING)], a, b)) == [small.slots[0]], "a husk holds quota"


def test_chips_are_counted_per_scope() -> None:
    """Why: the limit covers model, family and zone together, whoever holds the slot."""
    limited = pool("v6e-16", EAST, chip_limit=32)
    other = pool("v6e-16", EAST, model=Model.ON_DEMAND)
    left = chips_left(fleet(limited, other), [slot(limited, 1, SlotState.BUSY, hold="ada"), slot(other)])
    assert left == {limited.scope: 16.0, other.scope: float("inf")}


def test_a_slot_whose_pool_left_still_holds_its_chips() -> None:
    """Why: its TPU is still there and still eats quota."""
    gone, there = pool("v6e-8", EAST, id="old"), pool("v6e-16", EAST, chip_limit=24)
    assert chips_left(fleet(there), [slot(gone, 1, SlotState.BUSY)])[there.scope] == 16.0


COOLDOWNS = [
    f"spot:{type_scope('v6e-16', EAST)}",
    type_scope("v6e-16", EAST),
    "spot:quota:v6e@us-east1",
    f"spot:quota:v6e@{EAST}",
    zone_scope(EAST),
    "region:us-east1",
    "project",
]


@pytest.mark.parametrize("id", COOLDOWNS)
def test_a_cooldown_stops_requests_in_its_scope(id: str) -> None:
    """Why: what the cloud has just refused is not asked for again, and no more than that."""
    cool = Scope(id=id, until=NOW + 1, cls=Class.STOCKOUT, revision=1)
    decision = race(FLEET, [], job(), scopes=[cool])
    assert requested(decision) == ([] if id == "project" else [FAR.slots[0]])
    assert requested(race(FLEET, [], job(), scopes=[replace(cool, until=NOW)])) == [V6.slots[0], FAR.slots[0]]


def test_a_cooldown_leaves_open_legs_alone() -> None:
    """Why: a request that already waits in the cloud's queue costs nothing to keep."""
    cool = Scope(id="project", until=NOW + 99, cls=Class.RATE_LIMIT)
    assert race(fleet(V6), [slot(V6, 1, SlotState.WAITING)], job(), scopes=[cool]).steps == ()


def test_another_model_of_provisioning_is_not_cooled() -> None:
    """Why: a stockout of Spot says nothing about on-demand."""
    sure = pool("v6e-16", EAST, model=Model.ON_DEMAND)
    cool = Scope(id=f"spot:{type_scope('v6e-16', EAST)}", until=NOW + 99, cls=Class.STOCKOUT)
    assert requested(race(fleet(V6, sure), [], job(), scopes=[cool])) == [sure.slots[0]]


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ([], 2),
        ([SlotState.IDLE], 1),
        ([SlotState.BUSY, SlotState.CLEANING], 0),
        ([SlotState.WAITING], 1),
        ([SlotState.RELEASING], 2),
        ([SlotState.WAITING, SlotState.BOOTING, SlotState.IDLE], 0),
    ],
)
def test_the_warm_floor_is_filled_without_any_job(there: list[SlotState], asked: int) -> None:
    """Why: the next job should find a TPU; what is there and what is coming counts."""
    warm = pool("v6e-16", EAST, count=4, keep_warm=2)
    decision = race(fleet(warm), [slot(warm, i + 1, state) for i, state in enumerate(there)])
    assert len(requested(decision)) == asked
    assert len(given_up(decision)) == max(0, len(there) - 2 if SlotState.WAITING in there else 0)


def test_the_floor_keeps_to_ceiling_and_cooldown() -> None:
    """Why: a floor is a wish, a ceiling is not."""
    warm = pool("v6e-16", EAST, count=2, keep_warm=2, chip_limit=16)
    assert len(requested(race(fleet(warm), []))) == 1
    cool = Scope(id=zone_scope(EAST), until=NOW + 9, cls=Class.STOCKOUT)
    assert requested(race(fleet(warm), [], scopes=[cool])) == []


def test_each_chip_scope_is_one_commit_with_its_guard() -> None:
    """Why: two planners at once cannot both spend the last chips: the second finds the guard moved."""
    guard = Scope(id=V6.scope, seq=4, version="9")
    decision = race(
        FLEET, [slot(V6, 2, SlotState.WAITING)], job("j", "v6e-16", regions=("europe-west4",)), scopes=[guard]
    )
    assert [written(s, Scope) for s in decision.steps] == [replace(guard, seq=5), Scope(id=FAR.scope, seq=1)]
    assert [[x.name for x in all_written(s, Slot)] for s in decision.steps] == [[V6.slots[1]], [FAR.slots[0]]]


def test_the_notes_name_each_leg_and_for_whom() -> None:
    """Why: a person sees the race open, leg by leg."""
    decision = race(FLEET, [], job())
    opened, *legs = notes(decision)
    assert opened.data["legs"] == f"{V6.slots[0]},{FAR.slots[0]}"
    assert [(n.event, n.slot, n.job) for n in legs] == [
        ("slot.requesting", n, "train") for n in (V6.slots[0], FAR.slots[0])
    ]


def test_nothing_wanted_is_nothing_to_do() -> None:
    """Why: most events change nothing."""
    assert race(FLEET, []).steps == ()
