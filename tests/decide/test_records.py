"""What an effect's result does to the slot, the scope and the outbox."""

from dataclasses import replace
from itertools import product

import pytest

from tpufn.decide import records
from tpufn.decide.decision import Retry, Step
from tpufn.decide.observe import Observed, observe
from tpufn.decide.records import Accepted, Deleted, Reached, SaidNo, SlotRecord, Unanswered
from tpufn.decide.release import released
from tpufn.domain.attempt import Attempt, AttemptState
from tpufn.domain.capacity import Class, CreateOutcome, Scope
from tpufn.domain.cloud import NodeState, QueuedResourceState
from tpufn.domain.effects import Effect, Kind, Row, slot_entity
from tpufn.domain.slot import Slot, SlotState

from .builders import EAST, NOW, POLICY, Memory, events, fleet, lease, pool, slot, tpu_of, trio, written
from .test_refusals import DELETE, NO_TYPE, QUOTA_N, STOCKOUT

V6 = pool("v6e-16", EAST)
FLEET = fleet(V6)
TYPE = "spot:type:v6e-16@us-east1-d"


def record(
    of: Slot, kind: Kind = Kind.CREATE, *, generation: int | None = None, scopes: tuple[Scope, ...] = (), tries: int = 0
) -> SlotRecord:
    effect = Effect(
        kind=kind, entity=slot_entity(of.name), generation=of.generation if generation is None else generation
    )
    row = Row(entity=slot_entity(of.name), effect=effect, tries=tries)
    return SlotRecord(now=NOW, fleet=FLEET, slot=of, row=row, scopes={s.id: s for s in scopes})


def created(of: Slot, result: records.Result, **more: object) -> Step | Retry:
    return records.created(record(of, **more), result, policy=POLICY)  # type: ignore[arg-type]


REQUESTING = slot(V6, 1, SlotState.REQUESTING, create_settled=False, deadline=NOW + 300)


def test_accepted_is_waiting() -> None:
    """Why: accepted is not granted."""
    step = created(REQUESTING, Accepted())
    after = written(step, Slot)
    assert (after.state, after.create_settled, after.deadline) == (SlotState.WAITING, True, 0.0)
    assert events(step) == ["slot.waiting"]


def test_no_answer_is_asked_again() -> None:
    """Why: the request id makes the second call harmless; nothing is concluded from silence."""
    assert created(REQUESTING, Unanswered(text="deadline")) == Retry(after=POLICY.transient_cooldown, reason="deadline")


@pytest.mark.parametrize(
    ("code", "text", "cls", "scope"),
    [
        (8, STOCKOUT, Class.STOCKOUT, TYPE),
        (3, NO_TYPE, Class.STRUCTURAL, "type:v6e-16@us-east1-d"),
        (2, "new", Class.UNKNOWN, TYPE),
    ],
)
def test_refused_is_free_at_once_and_cools_the_scope(code: int, text: str, cls: Class, scope: str) -> None:
    """Why: nothing exists; the same request would be refused again; the other legs go on."""
    step = created(REQUESTING, SaidNo(code=code, text=text))
    after, cool, outcome = written(step, Slot), written(step, Scope), written(step, CreateOutcome)
    assert (after.state, after.create_settled) == (SlotState.FREE, True)
    assert (cool.id, cool.cls, cool.cause, cool.until > NOW) == (scope, cls, text, True)
    assert (outcome.result, outcome.pool, outcome.waited, outcome.text) == (cls.value, V6.id, 300.0, text)
    assert isinstance(step, Step)
    assert step.effects == ()


def test_what_disproves_no_place_cools_nothing() -> None:
    """Why: a name that is taken says nothing about the capacity there."""
    step = created(REQUESTING, SaidNo(code=6, text="exists"))
    assert written(step, Scope) is None
    assert written(step, Slot).state is SlotState.FREE


@pytest.mark.parametrize("result", [Accepted(), SaidNo(code=8, text=STOCKOUT), Unanswered(text="x")])
def test_the_outcome_of_an_older_generation_changes_nothing(result: records.Result) -> None:
    """Why: a late handler's result must not touch the TPU that the slot holds now."""
    step = created(REQUESTING, result, generation=0)
    assert isinstance(step, Step)
    assert step.writes == ()


@pytest.mark.parametrize("state", [SlotState.RELEASING, SlotState.IDLE, SlotState.PROVISIONING, SlotState.BOOTING])
def test_a_late_acceptance_only_settles_the_create(state: SlotState) -> None:
    """Why: the slot has gone on, or is being given up; now its create's outcome is known."""
    before = slot(V6, 1, state, create_settled=False)
    assert written(created(before, Accepted()), Slot) == replace(before, create_settled=True)


def test_a_refusal_while_releasing_settles_the_create() -> None:
    """Why: from now on *not found* can be believed."""
    before = slot(V6, 1, SlotState.RELEASING, create_settled=False)
    assert written(created(before, SaidNo(code=8, text=STOCKOUT)), Slot) == replace(before, create_settled=True)


def test_two_surfaces_of_one_stockout_can_both_be_recorded() -> None:
    """Why: the queued resource's failed data and the operation's error tell of the same failure, in either order."""
    store = Memory(REQUESTING)
    (before,) = store.all(Slot)
    husk = tpu_of(before, request=QueuedResourceState.FAILED, node=None, error_code=8, error=STOCKOUT)
    seen = observe(record(before), Observed(tpu=husk), policy=POLICY)
    assert seen is not None
    store.commit(seen)
    (releasing,) = store.all(Slot)
    late = created(releasing, SaidNo(code=8, text=STOCKOUT), scopes=tuple(store.all(Scope)))
    assert isinstance(late, Step)
    store.commit(late)


def test_insufficient_reserved_capacity_is_structural_after_two_hits() -> None:
    """Why: the cloud says it for plain stockouts too; one such answer must not close a pool for good."""
    text = "Insufficient reserved capacity. Contact customer support to increase your reservation."
    first = written(created(REQUESTING, SaidNo(code=9, text=text)), Scope)
    assert first.until < NOW + 3600


RELEASING = slot(V6, 1, SlotState.RELEASING, cause="lost the race")


def deleted(of: Slot, result: records.Result, **more: object) -> Step | Retry:
    return records.deleted(record(of, Kind.DELETE, **more), result, policy=POLICY)  # type: ignore[arg-type]


def test_not_found_frees_the_slot() -> None:
    """Why: only then is the place there again."""
    step = deleted(RELEASING, Deleted(gone=True))
    assert (written(step, Slot).state, events(step)) == (SlotState.FREE, ["slot.free"])


@pytest.mark.parametrize(
    "result",
    [Deleted(gone=False, text=DELETE.format("PROVISIONING")), SaidNo(code=403, text="denied"), Unanswered(text="x")],
)
def test_anything_else_is_tried_again(result: records.Result) -> None:
    """Why: a refusal keeps the slot releasing until *not found*; a 403 is never "gone"."""
    assert isinstance(deleted(RELEASING, result), Retry)


def test_deletes_back_off() -> None:
    """Why: PROVISIONING can last for hours; the API's rate limit is shared."""
    pauses = [deleted(RELEASING, Deleted(gone=False), tries=t) for t in range(12)]
    assert [p.after for p in pauses[:6]] == [20, 40, 80, 160, 320, 600]  # type: ignore[union-attr]
    assert {p.after for p in pauses[5:]} == {POLICY.delete_backoff_max}  # type: ignore[union-attr]


def test_not_found_is_not_believed_while_the_create_is_open() -> None:
    """Why: a create in flight may still make what was not there a moment ago."""
    early = replace(RELEASING, create_settled=False, requested_at=NOW - POLICY.effect_claim - POLICY.create_unknown + 1)
    assert isinstance(deleted(early, Deleted(gone=True)), Retry)
    late = replace(early, requested_at=early.requested_at - 2)
    assert written(deleted(late, Deleted(gone=True)), Slot).state is SlotState.FREE


def test_a_leased_slot_is_not_freed() -> None:
    """Why: the lease ends with the attempt's close and with nothing else."""
    assert isinstance(deleted(replace(RELEASING, lease=lease(RELEASING)), Deleted(gone=True)), Retry)


@pytest.mark.parametrize("state", [s for s in SlotState if s is not SlotState.RELEASING])
def test_a_delete_of_a_slot_that_moved_on_changes_nothing(state: SlotState) -> None:
    """Why: a late result must not free what was taken again."""
    step = deleted(slot(V6, 1, state), Deleted(gone=True))
    assert isinstance(step, Step)
    assert step.writes == ()


@pytest.mark.parametrize("id", ["spot:quota:v6e@us-east1", "spot:quota:v6e@us-east1-d"])
def test_a_release_arms_full_quotas_of_its_scope(id: str) -> None:
    """Why: our own chips were the quota that was full."""
    full = Scope(id=id, until=NOW + 200, cls=Class.QUOTA, cause=QUOTA_N, hits=2)
    other = Scope(id=TYPE, until=NOW + 200, cls=Class.STOCKOUT)
    cool = written(deleted(RELEASING, Deleted(gone=True), scopes=(full, other)), Scope)
    assert (cool.id, cool.until, cool.hits) == (id, NOW, 0)


def test_a_release_of_a_pool_that_left_the_file_arms_quotas_too() -> None:
    """Why: its chips were in the same quota."""
    gone = pool("v6e-8", EAST, id="old")
    full = Scope(id="spot:quota:v6e@us-east1", until=NOW + 200, cls=Class.QUOTA)
    assert written(deleted(slot(gone, 1, SlotState.RELEASING), Deleted(gone=True), scopes=(full,)), Scope).until == NOW


def test_a_launch_is_repeated_until_every_worker_has_accepted() -> None:
    """Why: the acks are in the bucket, the next performer does the rest."""
    attempt = trio(state=AttemptState.LAUNCHING).attempt
    again = records.launched(attempt, Reached(missing={2: "Connection refused"}), now=NOW, policy=POLICY)
    assert again == Retry(after=POLICY.transient_cooldown, reason="worker 2: Connection refused")
    done = records.launched(attempt, Reached(missing={}), now=NOW, policy=POLICY)
    assert written(done, Attempt).accepted is True


def test_a_launch_that_comes_too_late_changes_nothing() -> None:
    """Why: the verdict is in; the stop is on its way."""
    ended = trio(state=AttemptState.STOPPING, outcome="cancelled").attempt
    step = records.launched(ended, Reached(missing={0: "x"}), now=NOW, policy=POLICY)
    assert isinstance(step, Step)
    assert step.writes == ()


def test_a_stop_is_repeated_for_the_workers_that_were_not_reached() -> None:
    """Why: every worker has to get the tombstone."""
    assert records.told(Reached(missing={1: "x", 3: "y"}), policy=POLICY) == Retry(
        after=POLICY.transient_cooldown, reason="2 workers not reached"
    )
    assert isinstance(records.told(Reached(missing={}), policy=POLICY), Step)


RESULTS = [Accepted(), SaidNo(code=8, text=STOCKOUT), Unanswered(text="x"), Deleted(gone=True), Deleted(gone=False)]


@pytest.mark.parametrize(("state", "result", "settled"), list(product(SlotState, RESULTS, [True, False])))
def test_no_record_has_effects_of_its_own(state: SlotState, result: records.Result, settled: bool) -> None:
    """Why: a record clears the outbox row of its slot; an effect in the same commit would be lost with it."""
    before = slot(V6, 1, state, create_settled=settled)
    for step in (created(before, result), deleted(before, result)):
        assert isinstance(step, Retry) or step.effects == ()


def test_a_release_counts_and_lets_go() -> None:
    """Why: from the first delete on the generation is never adopted, and a hold ends with the TPU."""
    step = released(slot(V6, hold="ada", deletes=1), "why not", now=NOW)
    after = written(step, Slot)
    assert (after.state, after.deletes, after.hold, after.idle_since, after.cause) == (
        "releasing",
        2,
        "",
        0.0,
        "why not",
    )
    (effect,) = step.effects
    assert (effect.kind, effect.generation, effect.entity) == (Kind.DELETE, 1, f"slot:{after.name}")


def test_a_grant_ends_the_row_of_refusals() -> None:
    """Why: the cool-down grows with refusals in a row; capacity that was just given is no stockout."""
    waiting = slot(V6, 1, SlotState.WAITING)
    hot = Scope(id=TYPE, until=NOW - 5, cls=Class.STOCKOUT, hits=5, version="1")
    seen = Observed(tpu=tpu_of(waiting, request=QueuedResourceState.PROVISIONING, node=NodeState.CREATING))
    step = observe(record(waiting, scopes=(hot,)), seen, policy=POLICY)
    assert written(step, Scope).hits == 0
