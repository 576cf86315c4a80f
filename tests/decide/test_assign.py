"""Which job gets which idle slot, and what the commit of an assignment holds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpufn.decide.assign import GROUP, decide, pinned, plan, unpinned
from tpufn.domain.attempt import Attempt, AttemptState
from tpufn.domain.fleet import Fleet, Model, slot_key
from tpufn.domain.job import Job, JobState, Priority
from tpufn.domain.slot import Slot, SlotState

from .builders import (
    BUCKETS,
    CENTRAL,
    EAST,
    EUROPE,
    NOW,
    Memory,
    all_written,
    events,
    fleet,
    job,
    kinds,
    notes,
    placement,
    pool,
    quick,
    slot,
    table,
    twice,
    written,
)

V6, V4, FAR = pool("v6e-16", EAST), pool("v4-32", CENTRAL), pool("v6e-16", EUROPE)
FLEET = fleet(V6, V4, FAR)


def test_one_commit_holds_job_slot_and_attempt() -> None:
    """Why: a job without its slot, or a slot without its attempt, would be lost by a crash in between."""
    decision = decide(placement(FLEET, [slot(V6)], job()))
    (step,) = decision.steps
    after, leased, attempt = written(step, Job), written(step, Slot), written(step, Attempt)
    assert (after.state, after.attempt, after.slot) == (JobState.ACTIVE, 1, leased.name)
    assert (leased.state, leased.lease, leased.last_job) == (SlotState.BUSY, attempt.lease, "train")
    assert (attempt.state, attempt.id, attempt.number) == (AttemptState.ASSIGNED, "train.1", 1)
    assert (attempt.tpu, attempt.workers, attempt.zone) == (leased.tpu, leased.workers, EAST)
    assert events(step) == ["race.won", "attempt.assigned"]
    assert kinds(step) == []
    assert decision.reason == "1 of 1 waiting jobs placed on 1 idle slots"


def test_the_first_assignment_pins_region_and_bucket() -> None:
    """Why: checkpoints are written where the job first ran; moving them between regions costs money."""
    (step,) = decide(placement(FLEET, [slot(V6)], job("train", "v6e-16", "v4-32"))).steps
    after = written(step, Job)
    assert after.region == "us-east1"
    assert after.accepts == ("v6e-16@us-east1", "v4-32@us-east1")
    assert after.unpinned == job("train", "v6e-16", "v4-32").accepts, "and it is remembered what was before"
    assert written(step, Attempt).bucket == BUCKETS["us-east1"]


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        (("v6e-16@us-east1", "v6e-16@us-east10", "v6e-16@us-east5"), ("v6e-16@us-east1",)),
        (("spot:*@us-east1-d", "spot:*@us-east5-a"), ("spot:*@us-east1-d",)),
        (("*@us-east1", "*@us-central2"), ("*@us-east1",)),
        (("slot:spot-v6e16-ue1d-1", "named"), ("slot:spot-v6e16-ue1d-1", "named")),
    ],
)
def test_a_pin_keeps_the_keys_of_its_region(keys: tuple[str, ...], kept: tuple[str, ...]) -> None:
    """Why: us-east1 is not us-east10, and a slot's own name needs no pin."""
    assert pinned(keys, "us-east1") == kept


def test_a_job_that_never_started_is_unpinned() -> None:
    """Why: nothing of it is in that region yet, so any candidate region will do again."""
    before = job()
    (step,) = decide(placement(FLEET, [slot(V6)], before)).steps
    after = written(step, Job)
    assert (unpinned(after).region, unpinned(after).accepts) == ("", before.accepts)
    assert unpinned(replace(after, region_started=True)).region == "us-east1"


def test_fences_grow_within_a_generation() -> None:
    """Why: a worker tells a late launch from the present one by the fence alone."""
    (step,) = decide(placement(FLEET, [slot(V6, generation=3, fence=7)], job())).steps
    leased = written(step, Slot)
    assert (leased.fence, leased.lease.fence, leased.lease.generation) == (8, 8, 3)
    assert leased.lease.attempt == "train.1"


def test_the_next_attempt_has_the_next_number() -> None:
    """Why: an attempt's objects live under its number, write-once."""
    (step,) = decide(placement(FLEET, [slot(V6)], job(attempt=4, region="us-east1", region_started=True))).steps
    assert written(step, Attempt).id == "train.5"
    assert notes(step)[1].data["retained_region"] is True


@pytest.mark.parametrize("state", [s for s in SlotState if s is not SlotState.IDLE])
def test_only_idle_slots_are_given(state: SlotState) -> None:
    """Why: whatever is not idle is not usable, or somebody's."""
    assert decide(placement(FLEET, [slot(V6, 1, state)], job())).steps == ()


def test_held_slots_are_never_given() -> None:
    """Why: a person works there."""
    assert decide(placement(FLEET, [slot(V6, hold="ada")], job())).steps == ()
    named = job(tpu_name=slot(V6).name)
    assert decide(placement(FLEET, [slot(V6, hold="ada")], named)).steps == ()


def test_a_named_slot_and_no_other() -> None:
    """Why: `tpu_name` is a wish for just this machine."""
    first, second = slot(V6), slot(V6, 2)
    (step,) = decide(placement(FLEET, [first, second], job(tpu_name=second.name))).steps
    assert written(step, Slot).name == second.name
    assert decide(placement(FLEET, [first], job(tpu_name=second.name))).steps == ()


def test_a_flexible_job_leaves_the_named_slot_to_the_one_that_names_it() -> None:
    """Why: the largest matching counts named slots too."""
    first, second = slot(V6), slot(V6, 2)
    decision = decide(
        placement(FLEET, [first, second], job("a", priority=Priority.HIGH), job("b", tpu_name=first.name))
    )
    assert {j.id: j.slot for j in all_written(decision, Job)} == {"a": second.name, "b": first.name}


def test_a_job_goes_where_its_caches_are() -> None:
    """Why: a retry finds its warm TPU."""
    far, near = slot(V6, idle_since=NOW - 900), slot(FAR, caches=("pip",))
    (step,) = decide(placement(FLEET, [far, near], job(caches=("pip",)))).steps
    assert written(step, Slot).name == near.name


def test_waiting_jobs_keep_their_place_and_do_not_start() -> None:
    """Why: a retry in its backoff must not lose its TPU to a flood of lesser jobs, nor start before its time."""
    retry = job("retry", state=JobState.WAITING, priority=Priority.HIGH, due_at=NOW + 5)
    assert decide(placement(FLEET, [slot(V6)], retry, job("flood"))).steps == ()
    decision = decide(placement(FLEET, [slot(V6), slot(V6, 2)], retry, job("flood")))
    assert [j.id for j in all_written(decision, Job)] == ["flood"]


def test_groups_are_small_and_in_rank_order() -> None:
    """Why: a plan stops at the first stale commit, and what was committed before it must be the best of it."""
    many = pool("v6e-8", EAST, count=20)
    of = fleet(many)
    jobs = [job(f"j{i:02d}", "v6e-8", submitted_at=NOW - i) for i in range(20)]
    decision = decide(placement(of, [slot(many, i + 1) for i in range(20)], *jobs))
    sizes = [len(all_written(s, Job)) for s in decision.steps]
    assert sizes == [GROUP, GROUP, 20 - 2 * GROUP]
    assert [j.id for j in all_written(decision, Job)] == [f"j{i:02d}" for i in reversed(range(20))]
    assert twice(decision) == []


def test_the_losers_of_the_race_are_named() -> None:
    """Why: people watch which legs are given up once one is won."""
    legs = [
        slot(V4, 1, SlotState.WAITING),
        slot(FAR, 1, SlotState.PROVISIONING),
        slot(FAR, 2, SlotState.WAITING, hold="ada"),
    ]
    (step,) = decide(placement(FLEET, [slot(V6), *legs], job())).steps
    assert notes(step)[0].data["losers"] == legs[1].name, "v4 does not fit, and a held leg is not the race's"


def test_nothing_to_place_is_nothing_to_do() -> None:
    """Why: most events change nothing."""
    assert decide(placement(FLEET, [slot(V6)])).steps == ()
    assert decide(placement(FLEET, [], job())).steps == ()
    assert decide(placement(FLEET, [slot(V6)], job("j", "v4-32"))).steps == ()


# Every plan

TYPES = ("v6e-8", "v6e-16", "v4-32")
POOLS = [
    pool(t, z, count=2, model=m)
    for t, z, m in (
        ("v6e-8", EAST, Model.SPOT),
        ("v6e-16", EAST, Model.ON_DEMAND),
        ("v6e-16", EUROPE, Model.SPOT),
        ("v4-32", CENTRAL, Model.SPOT),
    )
]
WHOLE = fleet(*POOLS)
NAMES = [name for name, _ in WHOLE.slots()]


@st.composite
def tables(draw: st.DrawFn) -> tuple[Slot, ...]:
    """Every slot of the fleet in any state, some held."""
    return tuple(
        slot(
            p,
            p.slots.index(name) + 1,
            draw(st.sampled_from([SlotState.IDLE, SlotState.IDLE, *SlotState])),
            hold=draw(st.sampled_from(("", "", "", "ada"))),
        )
        for name, p in WHOLE.slots()
    )


@st.composite
def queues(draw: st.DrawFn, *, size: int = 10) -> tuple[Job, ...]:
    """Pending and waiting jobs, in rank order, some of them naming a slot."""
    jobs = []
    for i in range(draw(st.integers(0, size))):
        types = draw(st.one_of(st.just(("any",)), st.lists(st.sampled_from(TYPES), min_size=1, unique=True)))
        regions = tuple(draw(st.lists(st.sampled_from(sorted(BUCKETS)), min_size=1, unique=True)))
        name = draw(st.sampled_from(("", "", "", "", *NAMES)))
        state = draw(st.sampled_from((JobState.PENDING, JobState.PENDING, JobState.WAITING)))
        priority = draw(st.sampled_from(Priority))
        submitted = NOW - draw(st.integers(0, 3))
        jobs.append(
            job(
                f"j{i}",
                *types,
                of=WHOLE,
                regions=regions,
                tpu_name=name,
                state=state,
                priority=priority,
                submitted_at=submitted,
            )
        )
    return tuple(sorted(jobs, key=lambda j: j.rank))


def fits(of: Job, s: Slot) -> bool:
    p = WHOLE.pool(s.pool)
    assert p is not None
    return not (p.keys | {slot_key(s.name)}).isdisjoint(of.accepts)


def could_all(jobs: list[Job], free: frozenset[Slot]) -> bool:
    return not jobs or any(fits(jobs[0], s) and could_all(jobs[1:], free - {s}) for s in free)


@quick
@given(tables(), queues())
def test_a_plan_places_the_best_set_each_on_its_own_fitting_slot(
    slots: tuple[Slot, ...], jobs: tuple[Job, ...]
) -> None:
    """Why: whatever the fleet looks like, no two jobs share a TPU, and a better-ranked job is never passed over."""
    idle = frozenset(s for s in slots if s.state is SlotState.IDLE and not s.hold)
    placed = {p.job.id: p.slot for p in plan(placement(WHOLE, slots, *jobs))}
    assert len({s.name for s in placed.values()}) == len(placed)
    chosen: list[Job] = []
    for j in jobs:
        assert (j.id in placed) == could_all([*chosen, j], idle)
        if j.id in placed:
            assert placed[j.id] in idle
            assert fits(j, placed[j.id])
            chosen.append(j)


@quick
@given(tables(), queues())
def test_an_applied_plan_leaves_nothing_to_do(slots: tuple[Slot, ...], jobs: tuple[Job, ...]) -> None:
    """Why: a second event for the same change must find a fixed point, not move jobs about."""
    store = Memory(*slots, *jobs)
    first = decide(placement(WHOLE, store.all(Slot), *store.all(Job)))
    for step in first.steps:
        store.commit(step)
    waiting = [j for j in store.all(Job) if j.wants_capacity]
    assert decide(placement(WHOLE, store.all(Slot), *waiting)).steps == ()
    leases = [s.lease for s in store.all(Slot) if s.lease]
    assert len({le.attempt for le in leases}) == len(leases) == len(all_written(first, Attempt))


def test_the_model_of_provisioning_is_kept() -> None:
    """Why: a job that asks for on-demand must not land on Spot."""
    spot, sure = pool("v6e-16", EAST), pool("v6e-16", EAST, model=Model.ON_DEMAND)
    of: Fleet = fleet(spot, sure)
    picky = job(accepts=("on-demand:v6e-16@us-east1",))
    assert decide(placement(of, [slot(spot)], picky)).steps == ()
    assert len(decide(placement(of, table(of, slot(sure)), picky)).steps) == 1
