"""`why`: the sentences, word for word."""

from typing import Any

import pytest

from tpufn.decide.explain import WhySnapshot, explain
from tpufn.domain.attempt import AttemptState, Outcome
from tpufn.domain.capacity import Class, CreateOutcome, Scope, type_scope
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobState
from tpufn.domain.slot import Slot, SlotState
from tpufn.domain.views import Explanation, PoolOutlook

from .builders import CENTRAL, EAST, EUROPE, NOW, fleet, job, lease, pool, slot, table, trio
from .test_refusals import QUOTA_N, STOCKOUT

V6, FAR, V4 = pool("v6e-16", EAST), pool("v6e-16", EUROPE), pool("v4-32", CENTRAL)
FLEET = fleet(V6, FAR, V4)
TYPE = f"spot:{type_scope('v6e-16', EAST)}"


def why(of: Job, *slots: Slot, scopes: tuple[Scope, ...] = (), fleet: Fleet = FLEET, **changes: Any) -> Explanation:
    fields: dict[str, Any] = {"outcomes": {}, "attempts": (), "ahead": 0, **changes}
    known = {s.id: s for s in scopes}
    return explain(WhySnapshot(now=NOW, fleet=fleet, job=of, slots=table(fleet, *slots), scopes=known, **fields))


def east(of: Job, *slots: Slot, **changes: Any) -> PoolOutlook:
    return next(p for p in why(of, *slots, **changes).pools if p.pool == V6.id)


SENTENCES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"since": NOW - 30}, {}, "waits for a TPU since 30 s"),
    ({"since": NOW - 30}, {"ahead": 3}, "waits for a TPU since 30 s, behind 3 jobs"),
    (
        {"since": NOW - 30, "region": "us-east1"},
        {},
        "waits for a TPU in us-east1, where its checkpoints are since 30 s",
    ),
    (
        {"accepts": ("v5p-8@us-east1",)},
        {},
        "nothing in the fleet can run it: no pool offers its type in its regions",
    ),
    (
        {"accepts": ("v5p-8@us-east1",), "unschedulable": "no pool of the fleet offers v5p-8 in us-east1"},
        {},
        "no pool of the fleet offers v5p-8 in us-east1",
    ),
    (
        {"state": JobState.WAITING, "due_at": NOW + 15, "cause": "infrastructure: next try in 15 s"},
        {},
        "waits 15 s before its next attempt: infrastructure: next try in 15 s",
    ),
    (
        {"state": JobState.WAITING, "cause": "preempted: waiting for proof that train.1 stopped"},
        {},
        "preempted: waiting for proof that train.1 stopped",
    ),
    ({"state": JobState.WAITING}, {}, "waits for proof that its last attempt has stopped"),
    ({"state": JobState.ACTIVE, "attempt": 2, "slot": "s"}, {}, "runs as attempt 2 on s"),
    (
        {"state": JobState.CANCELLING, "slot": "s"},
        {},
        "is being cancelled: waits for proof that nothing of it runs on s",
    ),
    ({"state": JobState.FAILED, "cause": "exit code 3"}, {}, "failed: exit code 3"),
    ({"state": JobState.SUCCEEDED, "cause": "exit 0"}, {}, "succeeded: exit 0"),
    ({"state": JobState.REJECTED, "cause": "unknown key"}, {}, "rejected: unknown key"),
]


@pytest.mark.parametrize(("of", "changes", "sentence"), SENTENCES)
def test_the_headline(of: dict[str, Any], changes: dict[str, Any], sentence: str) -> None:
    """Why: one plain sentence says what the job waits for, or how it ended."""
    assert why(job(**of), **changes).headline == sentence


def test_a_job_that_every_pool_refuses_for_good_is_unschedulable() -> None:
    """Why: nobody should wait for what only a new configuration can bring."""
    closed = [
        Scope(
            id=f"spot:{type_scope('v6e-16', z)}",
            until=NOW + 3600,
            cls=Class.STRUCTURAL,
            cause=f"not in {z}",
            revision=1,
        )
        for z in (EAST, EUROPE)
    ]
    assert why(job(), scopes=tuple(closed)).headline == f"unschedulable: not in {EAST}; not in {EUROPE}"
    assert why(job(), scopes=tuple(closed[:1])).headline.startswith("waits for a TPU")


def both(state: SlotState) -> tuple[Slot, Slot]:
    return slot(V6, 1, state), slot(V6, 2, state)


HOT = Scope(id=TYPE, until=NOW + 90, cls=Class.STOCKOUT, cause=STOCKOUT, revision=1)
CLOSED = Scope(id=TYPE, until=NOW + 3600, cls=Class.STRUCTURAL, cause="not sold there", revision=1)

VERDICTS: list[tuple[tuple[Slot, ...], tuple[Scope, ...], str]] = [
    ((), (), "is asked next"),
    ((slot(V6),), (), "a TPU is idle: the job starts on it next, or a better-ranked one does"),
    ((slot(V6, 1, SlotState.WAITING),), (), f"{V6.slots[0]} is waiting since 100 s"),
    (
        (slot(V6, 1, SlotState.WAITING), slot(V6, 2, SlotState.BOOTING)),
        (),
        f"{V6.slots[1]} is booting since 100 s",
    ),
    ((), (HOT,), f"stockout: {STOCKOUT}; next try in 90 s"),
    (
        (),
        (CLOSED,),
        "cannot work until the deployment or the project changes: not sold there; "
        "next try in 60 min, or once `tpufn fleet apply` has run",
    ),
    (both(SlotState.BUSY), (), "every slot is taken"),
    (both(SlotState.RELEASING), (), "every slot is taken"),
    ((slot(V6, 1, SlotState.BUSY), slot(V6, 2, SlotState.FREE, hold="ada")), (), "every slot is taken: ada"),
    ((slot(V6, hold="ada"),), (), "is asked next"),
]


@pytest.mark.parametrize(("slots", "scopes", "sentence"), VERDICTS)
def test_each_pool_says_what_is_in_the_way(slots: tuple[Slot, ...], scopes: tuple[Scope, ...], sentence: str) -> None:
    """Why: quota failures that nobody sees are the commonest reason to wait."""
    assert east(job(), *slots, scopes=scopes).verdict == sentence


def test_a_chip_limit_is_said_with_its_numbers() -> None:
    """Why: free slots are no help where the limit binds."""
    limited = pool("v6e-16", EAST, chip_limit=24)
    found = why(job(), slot(limited, 1, SlotState.BUSY), fleet=fleet(limited)).pools[0]
    assert found.verdict == "the chip limit of 24 leaves 8 chips, it needs 16"
    assert (found.chips_used, found.chip_limit) == (16, 24)


def test_the_numbers_of_a_pool() -> None:
    """Why: free, coming, idle, busy and held add up to the ceiling, releasing ones aside."""
    big = pool("v6e-16", EAST, count=7)
    slots = [
        slot(big, i + 1, s)
        for i, s in enumerate((SlotState.BUSY, SlotState.CLEANING, SlotState.IDLE, SlotState.WAITING))
    ]
    found = why(job(), *slots, slot(big, 5, hold="ada"), slot(big, 6, SlotState.RELEASING), fleet=fleet(big)).pools[0]
    assert (found.ceiling, found.free, found.coming, found.idle, found.busy, found.held) == (7, 1, 1, 1, 2, 1)


def test_the_last_outcome_is_in_the_cloud_s_own_words() -> None:
    """Why: that is what a person searches the web for."""
    newest = CreateOutcome(id="b", pool=V6.id, slot="s", at=NOW - 5, result="quota", waited=1.0, text=QUOTA_N)
    oldest = CreateOutcome(id="a", pool=V6.id, slot="s", at=NOW - 9, result="granted", waited=1.0)
    found = east(job(), outcomes={V6.id: [newest, oldest]}, scopes=(HOT,))
    assert (found.last_outcome, found.last_text, found.last_at) == ("quota", QUOTA_N, NOW - 5)
    assert (found.scope, found.next_try_at) == (TYPE, NOW + 90)


def test_only_candidate_pools_are_listed() -> None:
    """Why: what cannot run the job is no answer."""
    assert [p.pool for p in why(job()).pools] == [V6.id, FAR.id]
    assert [p.pool for p in why(job(regions=("us-east1",))).pools] == [V6.id]
    assert why(job(state=JobState.ACTIVE)).pools == ()
    assert why(job(state=JobState.ACTIVE), ahead=4).ahead == 0


def test_a_named_slot_is_judged_by_itself() -> None:
    """Why: that the neighbour is free is no help to a job that names this one."""
    taken = slot(V6, 1, SlotState.BUSY, lease=lease(slot(V6)))
    assert east(job(tpu_name=taken.name), taken).verdict == "every slot is taken: other"


def test_the_evidence_of_the_last_verdict() -> None:
    """Why: a person sees what the verdict rested on, each thing once."""
    attempt = trio(
        state=AttemptState.CLOSED,
        outcome=Outcome.FAILED,
        cause="worker 2: the command ended with exit code 3",
        evidence=("worker 2: the command ended with exit code 3", "exit codes: worker 2: 3", "exit codes: worker 2: 3"),
    ).attempt
    found = why(job(state=JobState.FAILED, cause="x"), attempts=[attempt]).evidence
    assert found == (
        f"attempt 1 on {attempt.slot} in {EAST}: failed: worker 2: the command ended with exit code 3",
        "worker 2: the command ended with exit code 3",
        "exit codes: worker 2: 3",
    )
    assert why(job(state=JobState.FAILED, cause="x")).evidence == ("x",)
    assert why(job(), attempts=[trio().attempt]).evidence == ()
