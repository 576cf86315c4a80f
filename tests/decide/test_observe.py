"""One slot against what the cloud says: the whole grid."""

from dataclasses import replace

import pytest

from tpufn.decide.decision import Step
from tpufn.decide.observe import Observed, observe
from tpufn.decide.records import SlotRecord
from tpufn.domain.capacity import Class, CreateOutcome, Scope
from tpufn.domain.cloud import Health, NodeState, QueuedResourceState, Tpu
from tpufn.domain.effects import Effect, Kind, Row
from tpufn.domain.slot import Slot, SlotState

from .builders import EAST, NOW, POLICY, all_written, events, fleet, kinds, pool, slot, tpu_of, written
from .test_refusals import QUOTA_N, STOCKOUT

V6 = pool("v6e-16", EAST)
Q, N = QueuedResourceState, NodeState


def look(of: Slot, seen: Observed, *scopes: Scope) -> Step | None:
    row = Row(entity="", effect=Effect(kind=Kind.CREATE, entity="", generation=of.generation))
    record = SlotRecord(now=NOW, fleet=fleet(V6), slot=of, row=row, scopes={s.id: s for s in scopes})
    return observe(record, seen, policy=POLICY)


def seen_as(name: str, of: Slot) -> Observed:
    """The observations of the grid, by name."""
    match name.split():
        case ["gone"]:
            return Observed(tpu=None)
        case ["queued", request]:
            return Observed(tpu=tpu_of(of, request=Q(request), node=None))
        case ["node", node]:
            return Observed(tpu=tpu_of(of, node=N(node)))
        case ["ready", "usable"]:
            return Observed(tpu=tpu_of(of), usable=True, workers_answering=4)
        case ["ready", health]:
            return Observed(
                tpu=tpu_of(of, health=Health("" if health == "unspecified" else health)), usable=health == "usable"
            )
        case ["ready", "no", "endpoints"]:
            return Observed(tpu=replace(tpu_of(of), workers=()))
        case _:
            raise AssertionError(name)


GRID = """\
observation                        requesting    waiting       provisioning  booting       idle
gone                               releasing     releasing     releasing     releasing     releasing
queued CREATING                    waiting       -             -             -             releasing
queued ACCEPTED                    waiting       -             -             -             releasing
queued WAITING_FOR_RESOURCES       waiting       -             -             -             releasing
queued PROVISIONING                provisioning  provisioning  -             -             releasing
queued ACTIVE                      provisioning  provisioning  -             -             releasing
queued FAILED                      releasing     releasing     releasing     releasing     releasing
queued SUSPENDING                  releasing     releasing     releasing     releasing     releasing
queued SUSPENDED                   releasing     releasing     releasing     releasing     releasing
queued DELETING                    releasing     releasing     releasing     releasing     releasing
node CREATING                      provisioning  provisioning  -             -             releasing
node STARTING                      provisioning  provisioning  -             -             releasing
node REIMAGING                     provisioning  provisioning  -             -             releasing
node RESTARTING                    provisioning  provisioning  -             -             releasing
node REPAIRING                     releasing     releasing     releasing     releasing     releasing
node STOPPING                      provisioning  provisioning  -             -             releasing
node STOPPED                       releasing     releasing     releasing     releasing     releasing
node PREEMPTED                     releasing     releasing     releasing     releasing     releasing
node TERMINATED                    releasing     releasing     releasing     releasing     releasing
node DELETING                      releasing     releasing     releasing     releasing     releasing
node HIDING                        releasing     releasing     releasing     releasing     releasing
node HIDDEN                        releasing     releasing     releasing     releasing     releasing
node UNHIDING                      provisioning  provisioning  -             -             releasing
node UNKNOWN                       releasing     releasing     releasing     releasing     releasing
node READY                         booting       booting       booting       -             -
ready usable                       idle          idle          idle          idle          -
ready unspecified                  booting       booting       booting       -             -
ready TIMEOUT                      booting       booting       booting       -             releasing
ready UNHEALTHY_TENSORFLOW         booting       booting       booting       -             releasing
ready UNHEALTHY_MAINTENANCE        booting       booting       booting       -             releasing
ready no endpoints                 booting       booting       booting       -             -"""

_HEAD, *_ROWS = GRID.splitlines()
STATES = [SlotState(name) for name in _HEAD.split()[1:]]
CELLS = [
    (row[:35].strip(), state, after) for row in _ROWS for state, after in zip(STATES, row[35:].split(), strict=True)
]


@pytest.mark.parametrize(("name", "state", "after"), CELLS)
def test_every_state_meets_every_observation(name: str, state: SlotState, after: str) -> None:
    """Why: whatever the cloud shows, the slot goes to the one state that this table names, or stays."""
    before = slot(V6, 1, state)
    step = look(before, seen_as(name, before))
    if after == "-":
        assert step is None
        return
    slot_after = written(step, Slot)
    assert (slot_after.state, slot_after.generation) == (after, 1)
    assert slot_after.create_settled
    assert kinds(step) == ([(Kind.DELETE, before.name)] if after == "releasing" else [])


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CELLS}))
@pytest.mark.parametrize(
    "state", [SlotState.FREE, SlotState.BUSY, SlotState.CLEANING, SlotState.RELEASING, SlotState.RETIRED]
)
def test_other_states_are_other_functions_business(name: str, state: SlotState) -> None:
    """Why: a running attempt lives by its heartbeats, a release by *not found*."""
    before = slot(V6, 1, state, tpu="t")
    assert look(before, seen_as(name, before)) is None


def test_the_grid_names_every_state_of_the_api() -> None:
    """Why: a state that the API has and this table lacks would be decided by accident."""
    names = {name for name, _, _ in CELLS}
    assert {f"queued {q}" for q in Q} <= names
    assert {f"node {n}" for n in N} <= names
    assert {f"ready {h or 'unspecified'}" for h in Health if h is not Health.HEALTHY} <= names


def test_a_leg_goes_through_every_state_in_one_step() -> None:
    """Why: a tick may find at once what took the cloud three states."""
    before = slot(V6, 1, SlotState.REQUESTING, create_settled=False)
    step = look(before, seen_as("ready usable", before))
    after = written(step, Slot)
    assert events(step) == ["slot.provisioning", "slot.booting", "slot.idle"]
    assert (after.idle_since, after.deadline, after.workers) == (NOW, 0.0, tpu_of(before).workers)
    assert written(step, CreateOutcome).result == "granted"


@pytest.mark.parametrize(
    ("state", "name", "deadline"),
    [
        (SlotState.WAITING, "queued PROVISIONING", NOW + POLICY.provisioning_budget),
        (SlotState.PROVISIONING, "node READY", NOW + POLICY.boot_budget),
        (SlotState.BOOTING, "ready usable", 0.0),
    ],
)
def test_each_state_has_a_budget_of_its_own(state: SlotState, name: str, deadline: float) -> None:
    """Why: building may take hours, booting minutes; neither eats the other's time."""
    before = slot(V6, 1, state, deadline=NOW + 1)
    assert written(look(before, seen_as(name, before)), Slot).deadline == deadline


def test_a_grant_is_recorded_once() -> None:
    """Why: statistics count grants, not states."""
    before = slot(V6, 1, SlotState.WAITING)
    assert len(all_written(look(before, seen_as("ready usable", before)), CreateOutcome)) == 1
    building = slot(V6, 1, SlotState.PROVISIONING)
    assert all_written(look(building, seen_as("node READY", building)), CreateOutcome) == []


@pytest.mark.parametrize(
    ("state", "name", "words"),
    [
        (SlotState.PROVISIONING, "queued PROVISIONING", "still provisioning after 100 s"),
        (SlotState.BOOTING, "node READY", "still booting after 100 s, 0 of 4 workers answered"),
        (SlotState.REQUESTING, "queued FAILED", ""),
    ],
)
def test_what_is_overdue_is_given_up_without_a_cooldown(state: SlotState, name: str, words: str) -> None:
    """Why: a TPU that does not boot is no stockout; the reason says how far it came."""
    before = slot(V6, 1, state, deadline=NOW)
    step = look(before, seen_as(name, before))
    assert written(step, Slot).state is SlotState.RELEASING
    assert words in written(step, Slot).cause
    assert all_written(step, Scope) == []


def test_what_moves_on_in_time_is_not_overdue() -> None:
    """Why: the budget of a state that is over is over."""
    before = slot(V6, 1, SlotState.PROVISIONING, deadline=NOW - 1)
    assert written(look(before, seen_as("node READY", before)), Slot).state is SlotState.BOOTING


@pytest.mark.parametrize("state", [SlotState.REQUESTING, SlotState.WAITING, SlotState.PROVISIONING])
def test_not_found_means_nothing_while_the_create_is_open(state: SlotState) -> None:
    """Why: the call may be on its way."""
    assert look(slot(V6, 1, state, create_settled=False, deadline=NOW + 1), Observed(tpu=None)) is None


def test_a_create_without_any_outcome_has_a_budget() -> None:
    """Why: a call that is never answered must not keep its slot requesting for ever."""
    before = slot(V6, 1, SlotState.REQUESTING, create_settled=False, deadline=NOW - 1)
    assert written(look(before, Observed(tpu=None)), Slot).state is SlotState.RELEASING


def test_an_adopted_tpu_that_vanishes_frees_its_slot() -> None:
    """Why: a late grant may be gone again before it is looked at; nothing else will ever move the slot."""
    adopted = slot(V6, 1, SlotState.REQUESTING, create_settled=True, deadline=0.0)
    assert written(look(adopted, Observed(tpu=None)), Slot).state is SlotState.RELEASING


@pytest.mark.parametrize(("code", "text", "cls"), [(8, STOCKOUT, Class.STOCKOUT), (8, QUOTA_N, Class.QUOTA)])
def test_failed_data_cools_its_scope_like_a_refusal(code: int, text: str, cls: Class) -> None:
    """Why: two surfaces of one stockout mean the same."""
    before = slot(V6, 1, SlotState.WAITING)
    husk = tpu_of(before, request=Q.FAILED, node=None, error_code=code, error=text)
    step = look(before, Observed(tpu=husk))
    assert (written(step, Scope).cls, written(step, CreateOutcome).result) == (cls, cls.value)
    assert kinds(step) == [(Kind.DELETE, before.name)], "the husk keeps its quota until it is deleted"


def test_a_preempted_leg_cools_nothing() -> None:
    """Why: it was capacity after all."""
    before = slot(V6, 1, SlotState.BOOTING)
    step = look(before, seen_as("node PREEMPTED", before))
    assert all_written(step, Scope) == []
    assert written(step, CreateOutcome).result == Class.PREEMPTED


def test_a_slow_create_is_not_a_failed_one() -> None:
    """Why: an operation that is not done while its node is READY and answers is a TPU."""
    before = slot(V6, 1, SlotState.REQUESTING, create_settled=False, deadline=NOW - 1200)
    assert written(look(before, seen_as("ready usable", before)), Slot).state is SlotState.IDLE


@pytest.mark.parametrize("state", [SlotState.WAITING, SlotState.PROVISIONING, SlotState.BOOTING, SlotState.IDLE])
def test_seeing_the_same_again_changes_nothing(state: SlotState) -> None:
    """Why: the tick looks each minute."""
    names = {
        "waiting": "queued ACCEPTED",
        "provisioning": "node CREATING",
        "booting": "node READY",
        "idle": "ready usable",
    }
    before = slot(V6, 1, state)
    assert look(before, seen_as(names[state], before)) is None


@pytest.mark.parametrize("labels", [{}, {"tpufn": "lab", "tpufn-nonce": "another"}])
def test_a_tpu_that_is_not_ours_is_never_taken(labels: dict[str, str]) -> None:
    """Why: two deployments of one name in a project ask for the same cloud name; only one of them gets it."""
    before = slot(V6, 1, SlotState.REQUESTING, create_settled=False, deadline=NOW + 60)
    theirs: Tpu = replace(tpu_of(before), labels=labels)
    assert look(before, Observed(tpu=theirs, usable=True, workers_answering=4)) is None


def test_a_name_that_somebody_else_has_does_not_hold_the_slot_for_ever() -> None:
    """Why: a create that is never answered has a budget, whatever is there under its name."""
    before = slot(V6, 1, SlotState.REQUESTING, create_settled=False, deadline=NOW - 1)
    assert written(look(before, Observed(tpu=replace(tpu_of(before), labels={}))), Slot).state is SlotState.RELEASING
