"""The tick's sweep: the slot table, the cloud against the slots, strays, and what is overdue."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpufn.decide.autoscale import PLACEMENT, STUCK, SweepSnapshot, adoptable, decide, quiet, stray_entity
from tpufn.decide.decision import Decision
from tpufn.decide.observe import Observed
from tpufn.domain.capacity import Scope
from tpufn.domain.cloud import NodeState, QueuedResourceState, Tpu, ownership_labels
from tpufn.domain.effects import Effect, Kind, Row
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobState
from tpufn.domain.slot import LEGS, Slot, SlotState

from .builders import (
    CENTRAL,
    EAST,
    NOW,
    POLICY,
    all_written,
    events,
    fleet,
    job,
    kinds,
    lease,
    pool,
    quick,
    slot,
    table,
    tpu_of,
    twice,
    written,
)
from .test_refusals import STOCKOUT

V6, V4 = pool("v6e-16", EAST), pool("v4-32", CENTRAL, count=1)
FLEET = fleet(V6, V4)


def sweep(of: Fleet = FLEET, slots: tuple[Slot, ...] | None = None, **changes: Any) -> Decision:
    blank: dict[str, Any] = {
        "scopes": {},
        "rows": (),
        "due_jobs": (),
        "cancelling": (),
        "waiting_long": (),
        "demand": False,
        "observed": {},
        "listed": (),
    }
    snapshot = SweepSnapshot(
        **{"now": NOW, "fleet": of, "slots": table(of) if slots is None else slots, **blank, **changes}
    )
    return decide(snapshot, policy=POLICY)


def row(entity: str, kind: Kind = Kind.DELETE, **changes: Any) -> Row:
    return Row(entity=entity, effect=Effect(kind=kind, entity=entity), **changes)


# The slot table


def test_every_place_of_the_file_gets_a_row() -> None:
    """Why: the fleet is a fixed table; a raised ceiling is new rows."""
    decision = sweep(slots=(slot(V6, 1),))
    fresh = all_written(decision, Slot)
    assert [s.name for s in fresh] == [V6.slots[1], V4.slots[0]]
    assert all((s.state, s.version) == (SlotState.FREE, "") for s in fresh)
    assert (fresh[1].pool, fresh[1].zone, fresh[1].type, fresh[1].scope) == (V4.id, CENTRAL, "v4-32", V4.scope)


def test_many_new_rows_come_in_commits_of_a_hundred() -> None:
    """Why: a store's batch is bounded."""
    big = pool("v6e-8", EAST, count=250)
    assert [len(s.writes) for s in sweep(fleet(big), ()).steps] == [100, 100, 50]


LEFT = pool("v6e-8", EAST, id="old", count=1)


@pytest.mark.parametrize("state", SlotState)
def test_a_pool_that_left_the_file_drains_to_nothing(state: SlotState) -> None:
    """Why: its TPUs are still ours, and running jobs on them stay watched."""
    place = slot(LEFT, 1, state)
    decision = sweep(slots=(*table(FLEET), place))
    after = written(decision, Slot)
    if state is SlotState.FREE:
        assert after.state is SlotState.RETIRED
    elif state in LEGS or state is SlotState.IDLE:
        assert (after.state, after.cause) == (SlotState.RELEASING, "its pool left the deployment")
        assert kinds(decision) == [(Kind.DELETE, place.name)]
    else:
        assert after is None


def test_a_pool_that_comes_back_has_its_rows_back() -> None:
    """Why: a renamed entry may be renamed again."""
    place = slot(V6, 1, SlotState.RETIRED)
    assert written(sweep(slots=table(FLEET, place)), Slot).state is SlotState.FREE


def test_a_row_that_comes_back_is_the_new_pool_s() -> None:
    """Why: deletes go to the slot's zone, chips are counted by its type and scope."""
    before = replace(V6, type="v6e-8", zone="us-east5-a")
    back = slot(before, 1, SlotState.RETIRED)
    after = written(sweep(slots=table(FLEET, back)), Slot)
    assert (after.type, after.zone, after.scope) == (V6.type, V6.zone, V6.scope)


def test_a_free_row_follows_its_pool() -> None:
    """Why: an entry with an id of its own may change its type or zone; the next TPU is the new one."""
    before = replace(V6, type="v6e-8", zone="us-east5-a")
    after = written(sweep(slots=table(FLEET, slot(before, 1, SlotState.FREE))), Slot)
    assert (after.type, after.zone, after.scope) == (V6.type, V6.zone, V6.scope)


def test_an_idle_tpu_of_the_pool_s_old_type_is_drained() -> None:
    """Why: a job for v6e-16 must not get the v6e-8 that is left from before."""
    before = replace(V6, type="v6e-8")
    assert kinds(sweep(slots=table(FLEET, slot(before, 1)))) == [(Kind.DELETE, V6.slots[0])]


# The cloud against the slots


def test_each_observed_slot_goes_on() -> None:
    """Why: the tick alone finishes every job."""
    waiting = slot(V6, 1, SlotState.WAITING)
    seen = {waiting.name: Observed(tpu=tpu_of(waiting), usable=True, workers_answering=4)}
    assert written(sweep(slots=table(FLEET, waiting), observed=seen), Slot).state is SlotState.IDLE


@pytest.mark.parametrize("state", SlotState)
def test_what_was_not_asked_or_not_answered_is_left_alone(state: SlotState) -> None:
    """Why: one zone's 403 says nothing about its TPUs."""
    assert sweep(slots=table(FLEET, slot(V6, 1, state) if state is not SlotState.RETIRED else slot(V6))).steps == ()


def test_absent_by_name_is_a_finding() -> None:
    """Why: the loader asked by name before it said so."""
    idle = slot(V6, 1)
    assert kinds(sweep(slots=table(FLEET, idle), observed={idle.name: Observed(tpu=None)})) == [
        (Kind.DELETE, idle.name)
    ]


# Strays


def stray(place: Slot, *, generation: int, nonce: str = "n0nce", **changes: Any) -> Tpu:
    labels = ownership_labels("lab", nonce, place.name, generation)
    return replace(tpu_of(place), name=f"tpufn-lab-{place.name}-g{generation}", labels=labels, **changes)


def swept(decision: Decision) -> list[tuple[Kind, str]]:
    return [(k, name) for k, name in kinds(decision) if k is Kind.SWEEP]


@pytest.mark.parametrize("state", [s for s in SlotState if s is not SlotState.RETIRED])
def test_an_older_generation_is_a_stray(state: SlotState) -> None:
    """Why: a crash between the create and the write leaves nothing older than one sweep."""
    place = slot(V6, 1, state, generation=5, tpu="tpufn-lab-spot-v6e16-ue1d-1-g5")
    old = stray(place, generation=4)
    decision = sweep(slots=table(FLEET, place), listed=[old], demand=True)
    assert swept(decision) == [(Kind.SWEEP, f"{EAST}/{old.name}")]
    assert events(decision) == ["stray.found"]
    assert all_written(decision, Slot) == []


def test_a_tpu_of_an_unknown_slot_is_a_stray() -> None:
    """Why: the entry was renamed while nobody looked."""
    lost = stray(slot(LEFT), generation=1)
    assert swept(sweep(listed=[lost])) == [(Kind.SWEEP, f"{EAST}/{lost.name}")]


@pytest.mark.parametrize(
    "changes",
    [{"labels": {}}, {"labels": {"tpufn": "lab"}}, {"labels": ownership_labels("lab", "other", V6.slots[0], 4)}],
)
def test_what_is_not_ours_is_left_alone(changes: dict[str, Any]) -> None:
    """Why: others work in the same project; a name is no proof."""
    theirs = replace(stray(slot(V6, generation=5), generation=4), **changes)
    assert sweep(listed=[theirs], demand=True).steps == ()


@pytest.mark.parametrize("node", [NodeState.READY, NodeState.PREEMPTED, NodeState.HIDDEN, None])
@pytest.mark.parametrize(
    "request_", [QueuedResourceState.SUSPENDED, QueuedResourceState.FAILED, QueuedResourceState.ACTIVE]
)
def test_our_husks_are_deleted(node: NodeState | None, request_: QueuedResourceState) -> None:
    """Why: SUSPENDED and FAILED queued resources keep their quota."""
    husk = stray(slot(V6, generation=5), generation=4, node=node, request=request_)
    assert len(swept(sweep(listed=[husk], demand=True))) == 1


@pytest.mark.parametrize("state", [s for s in SlotState if s not in (SlotState.FREE, SlotState.RETIRED)])
def test_the_present_generation_is_no_stray(state: SlotState) -> None:
    """Why: its own slot looks after it."""
    place = slot(V6, 1, state)
    assert swept(sweep(slots=table(FLEET, place), listed=[tpu_of(place)], demand=True)) == []


LATE_GRANT = slot(V6, 1, SlotState.FREE, generation=1, tpu=f"tpufn-lab-{V6.slots[0]}-g1")


@pytest.mark.parametrize(
    ("changes", "demand", "adopted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"deletes": 1}, True, False),
        ({"generation": 2}, True, False),
        ({"tpu": "another"}, True, False),
    ],
)
def test_a_late_grant_is_adopted_or_deleted(changes: dict[str, Any], demand: bool, adopted: bool) -> None:
    """Why: a late grant is never forgotten, and what a delete was sent for is never adopted."""
    place = replace(LATE_GRANT, **changes)
    decision = sweep(slots=table(FLEET, place), listed=[tpu_of(LATE_GRANT)], demand=demand)
    if adopted:
        assert written(decision, Slot).state is SlotState.REQUESTING
        assert swept(decision) == []
    else:
        assert all_written(decision, Slot) == []
        assert len(swept(decision)) == 1


def test_a_dead_late_grant_is_not_adopted() -> None:
    """Why: it can be of no use any more."""
    assert not adoptable(LATE_GRANT, tpu_of(LATE_GRANT, node=NodeState.PREEMPTED))


def test_a_stray_is_deleted_once_at_a_time() -> None:
    """Why: its effect is open until the cloud says not found."""
    old = stray(slot(V6, generation=5), generation=4)
    again = sweep(listed=[old], rows=[row(stray_entity(old), Kind.SWEEP)])
    assert again.steps == ()
    assert again.wakes == (stray_entity(old),), "but its performer is woken each tick until done"


def test_a_late_grant_whose_delete_was_sent_is_not_adopted() -> None:
    """Why: a TPU whose delete was sent and not refused is never adopted; the slot would wait for it for ever."""
    tpu = tpu_of(LATE_GRANT)
    sent = row(stray_entity(tpu), Kind.SWEEP, claimed_by="somebody", claim_until=NOW + 60)
    decision = sweep(slots=table(FLEET, LATE_GRANT), listed=[tpu], rows=[sent], demand=True)
    assert all_written(decision, Slot) == []


def test_adoption_bumps_the_guard() -> None:
    """Why: a commit that takes a slot out of free also bumps the scope, else the race spends the same chips."""
    decision = sweep(slots=table(FLEET, LATE_GRANT), listed=[tpu_of(LATE_GRANT)], demand=True)
    assert written(decision, Scope).id == V6.scope


# What is overdue


def test_a_backoff_that_has_passed_makes_the_job_pending() -> None:
    """Why: waiting is a state with a time, and the tick is its clock."""
    decision = sweep(due_jobs=[job(state=JobState.WAITING, due_at=NOW, attempt=2)])
    assert (written(decision, Job).state, written(decision, Job).due_at) == (JobState.PENDING, 0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": JobState.WAITING, "due_at": NOW + 1},
        {"state": JobState.WAITING, "due_at": 0.0},
        {"state": JobState.WAITING, "due_at": NOW, "slot": V6.slots[0]},
        {"state": JobState.PENDING, "queue_deadline_at": NOW + 1},
        {"state": JobState.PENDING, "queue_deadline_at": NOW - 1, "attempt": 1, "region_started": True},
    ],
)
def test_what_is_not_due_stays(changes: dict[str, Any]) -> None:
    """Why: a job whose stop proof is still out must not run again, whatever the time is."""
    assert sweep(due_jobs=[job(**changes)]).steps == ()


def test_a_queue_deadline_ends_the_job() -> None:
    """Why: the person has no use for it any more."""
    decision = sweep(due_jobs=[job(queue_deadline_at=NOW, submitted_at=NOW - 90)])
    assert written(decision, Job).state is JobState.FAILED
    assert written(decision, Job).cause == "queue_deadline passed: waited 90 s without a TPU"


def test_a_very_long_wait_is_stamped_once() -> None:
    """Why: it counts as most constrained from now on; the next tick finds it done."""
    old = job("old", "v6e-16", "v4-32", of=FLEET)
    after = written(sweep(waiting_long=[old]), Job)
    assert after.rank < old.rank
    assert sweep(waiting_long=[after]).steps == ()


# Wakes


def test_whatever_is_open_is_woken() -> None:
    """Why: with every event dropped the ticks alone finish every job."""
    leased = replace(slot(V6, 1, SlotState.BUSY), lease=lease(slot(V6), "train.3"))
    decision = sweep(
        slots=table(FLEET, leased),
        rows=[
            row("slot:a"),
            row("slot:b", claim_until=NOW + 1),
            row("slot:c", due_at=NOW + 1),
            row("slot:d", claim_until=NOW),
        ],
        cancelling=[job("gone", state=JobState.CANCELLING, attempt=2)],
        demand=True,
    )
    assert decision.wakes == ("slot:a", "slot:d", "attempt:train.3", "attempt:gone.2", PLACEMENT)


@pytest.mark.parametrize(
    ("changes", "woken"),
    [
        ({}, False),
        ({"demand": True}, True),
        ({"slots": table(FLEET, slot(V6, 1, SlotState.WAITING))}, True),
        ({"of": fleet(replace(V6, keep_warm=1), V4)}, True),
    ],
)
def test_placement_is_woken_while_there_is_something_to_place(changes: dict[str, Any], woken: bool) -> None:
    """Why: jobs, open legs and warm floors each need the race's look."""
    assert (PLACEMENT in sweep(**changes).wakes) is woken


@pytest.mark.parametrize(
    ("slots", "jobs", "rows", "still"),
    [
        ((), False, False, True),
        ((SlotState.FREE, SlotState.RETIRED), False, False, True),
        ((SlotState.RELEASING,), False, False, False),
        ((SlotState.IDLE,), False, False, False),
        ((), True, False, False),
        ((), False, True, False),
    ],
)
def test_a_tick_ends_at_once_when_nothing_is_there(
    slots: tuple[SlotState, ...], jobs: bool, rows: bool, still: bool
) -> None:
    """Why: an idle deployment costs three reads a minute."""
    assert quiet([slot(V6, 1, s) for s in slots], jobs=jobs, rows=rows) is still


# Every sweep


def test_two_husks_of_one_scope_are_recorded_in_one_tick() -> None:
    """Why: steps are independent commits; a document that two of them write makes the second one stale."""
    legs = [slot(V6, n, SlotState.WAITING) for n in (1, 2)]
    husks = {
        s.name: Observed(tpu=tpu_of(s, request=QueuedResourceState.FAILED, node=None, error_code=8, error=STOCKOUT))
        for s in legs
    }
    assert twice(sweep(slots=table(FLEET, *legs), observed=husks)) == []


@quick
@given(
    st.lists(st.sampled_from([s for s in SlotState if s is not SlotState.RETIRED]), min_size=3, max_size=3),
    st.lists(st.sampled_from([None, *NodeState]), min_size=3, max_size=3),
    st.booleans(),
)
def test_a_sweep_moves_each_slot_at_most_once(
    states: list[SlotState], nodes: list[NodeState | None], demand: bool
) -> None:
    """Why: one decision must be able to commit as a whole."""
    slots = tuple(
        slot(p, p.slots.index(name) + 1, state) for (name, p), state in zip(FLEET.slots(), states, strict=True)
    )
    tpus = [tpu_of(s, node=n) for s, n in zip(slots, nodes, strict=True) if n is not None and s.tpu]
    observed = {s.name: Observed(tpu=next((t for t in tpus if t.name == s.tpu), None)) for s in slots}
    decision = sweep(slots=slots, observed=observed, listed=tpus, demand=demand)
    assert [ref for ref in twice(decision) if ref[0] == "slot"] == []
    assert all(k in (Kind.DELETE, Kind.SWEEP) for k, _ in kinds(decision))


def test_what_waking_does_not_help_is_said() -> None:
    """In words that the alert looks for (terraform/alerts.tf)."""
    late = row("slot:a", due_at=NOW - STUCK, claim_until=NOW - STUCK)
    recent = row("slot:b", due_at=NOW - 10, claim_until=NOW - STUCK)
    cancelling = Job(id="j", state=JobState.CANCELLING, since=NOW - STUCK)
    reason = sweep(rows=(late, recent), cancelling=(cancelling,)).reason
    assert reason.endswith("; 2 stuck: slot:a, job:j")
    alerts = (Path(__file__).parents[2] / "terraform" / "alerts.tf").read_text()
    (pattern,) = re.findall(r'jsonPayload\.message=~\\"(.*?)\\"', alerts)
    assert re.search(pattern, reason)
    assert not re.search(pattern, sweep(rows=(recent,)).reason)
