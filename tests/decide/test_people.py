"""Capacity that people ask for: one slot, or a race of several, under the same ceilings as the jobs."""

from typing import Any

import pytest

from tpufn.decide.control import decide
from tpufn.decide.decision import Decision
from tpufn.decide.observe import Observed
from tpufn.decide.people import ControlSnapshot, losers
from tpufn.domain.capacity import Scope
from tpufn.domain.cloud import NodeState, QueuedResourceState
from tpufn.domain.effects import Kind
from tpufn.domain.events import Command
from tpufn.domain.fleet import Fleet
from tpufn.domain.slot import Slot, SlotState

from .builders import (
    CENTRAL,
    EAST,
    NOW,
    POLICY,
    Memory,
    all_written,
    fleet,
    kinds,
    notes,
    pool,
    slot,
    table,
    tpu_of,
    twice,
    written,
)
from .test_autoscale import sweep
from .test_race import race
from .test_refusals import STOCKOUT

V6, V4 = pool("v6e-16", EAST), pool("v4-32", CENTRAL)
FLEET = fleet(V6, V4)
FIRST, SECOND, OTHER = *V6.slots, V4.slots[0]


def ask(*names: str, of: Fleet = FLEET, slots: tuple[Slot, ...] = (), verb: str = "race", **changes: Any) -> Decision:
    rows = table(of, *slots)
    there = next((s for s in rows if s.name == names[0]), None)
    snapshot = ControlSnapshot(**{"now": NOW, "fleet": of, "slot": there, "slots": rows, **changes})
    args = {"slots": list(names)} if verb == "race" else {}
    return decide(snapshot, Command(verb=verb, target=names[0], args=args, by="ada", id="c1"), policy=POLICY)


def asked(decision: Decision) -> list[str]:
    return [name for kind, name in kinds(decision) if kind is Kind.CREATE]


def test_queue_asks_for_one_slot_and_holds_it() -> None:
    """Why: it is for the person; no job may take it when it comes."""
    decision = ask(FIRST, verb="queue")
    after = written(decision, Slot)
    assert (after.state, after.hold, after.group, after.generation) == (SlotState.REQUESTING, "ada", "", 1)
    assert (asked(decision), written(decision, Scope)) == ([FIRST], Scope(id=V6.scope, seq=1))


def test_race_asks_for_several_in_one_commit() -> None:
    """Why: the first that is granted is kept; each scope's guard moves with it."""
    decision = ask(FIRST, SECOND, OTHER)
    assert len(decision.steps) == 1
    assert asked(decision) == [FIRST, SECOND, OTHER]
    assert {(s.hold, s.group) for s in all_written(decision, Slot)} == {("ada", "c1")}
    assert {s.id: s.seq for s in all_written(decision, Scope)} == {V6.scope: 1, V4.scope: 1}


@pytest.mark.parametrize("state", [s for s in SlotState if s is not SlotState.FREE])
def test_only_free_slots_are_asked_for(state: SlotState) -> None:
    """Why: the command may come twice, and the screen may have been old."""
    assert ask(FIRST, slots=(slot(V6, 1, state),), verb="queue").steps == ()
    assert asked(ask(FIRST, SECOND, slots=(slot(V6, 1, state),))) == [SECOND]


def test_people_keep_to_the_chip_limit_too() -> None:
    """Why: a ceiling is a ceiling, whoever asks."""
    limited = pool("v6e-16", EAST, count=3, chip_limit=32)
    assert asked(ask(*limited.slots, of=fleet(limited))) == list(limited.slots[:2])
    busy = slot(limited, 3, SlotState.RELEASING)
    assert asked(ask(*limited.slots, of=fleet(limited), slots=(busy,))) == list(limited.slots[:1])


@pytest.mark.parametrize("names", [("nothing",), ()])
def test_unknown_slots_are_nothing(names: tuple[str, ...]) -> None:
    """Why: the file may have changed meanwhile."""
    assert ask("nothing", *names).steps == ()


def test_the_jobs_race_leaves_people_s_legs_alone() -> None:
    """Why: held slots are never given up and serve no job."""
    store = Memory(*table(FLEET))
    for step in ask(FIRST, SECOND).steps:
        store.commit(step)
    assert race(FLEET, store.all(Slot)).steps == ()


@pytest.mark.parametrize("verb", ["queue", "race"])
def test_what_somebody_else_holds_is_not_taken(verb: str) -> None:
    """Why: a hold is a person's mark on a slot in any state."""
    assert asked(ask(FIRST, slots=(slot(V6, 1, SlotState.FREE, hold="bob"),), verb=verb)) == []


def test_an_adopted_tpu_is_not_asked_for() -> None:
    """Why: it is used, never created."""
    mine = pool("v6e-16", EAST, id="existing-mine", existing="mine", count=0)
    assert asked(ask("mine", of=fleet(mine), verb="queue")) == []


def test_a_slot_named_twice_is_asked_for_once() -> None:
    """Why: people repeat themselves."""
    assert twice(ask(FIRST, FIRST)) == []


# Who won


def member(number: int, state: SlotState, **changes: Any) -> Slot:
    return slot(V6, number, state, **{"hold": "ada", "group": "c1", **changes})


def settled(*members: Slot) -> tuple[list[str], list[str]]:
    """(winners, given up)."""
    steps = losers(members, now=NOW)
    won = [n.slot for step in steps for n in step.notes if n.event == "race.won"]
    return won, [name for step in steps for _, name in kinds(step)]


def test_a_race_of_people_is_won_at_the_first_grant() -> None:
    """Why: they need one TPU; the others cost money."""
    assert settled(member(1, SlotState.PROVISIONING), member(2, SlotState.WAITING)) == ([FIRST], [SECOND])
    assert settled(member(1, SlotState.REQUESTING), member(2, SlotState.BOOTING)) == ([SECOND], [FIRST])


def test_the_furthest_along_wins_and_then_the_older() -> None:
    """Why: two may be granted between two ticks."""
    early = {"since": NOW - 50}
    assert settled(member(1, SlotState.PROVISIONING), member(2, SlotState.IDLE)) == ([SECOND], [FIRST])
    assert settled(member(1, SlotState.BOOTING), member(2, SlotState.BOOTING, since=NOW - 500)) == ([SECOND], [FIRST])
    assert settled(member(1, SlotState.BOOTING), member(2, SlotState.BOOTING, **early)) == ([FIRST], [SECOND])


@pytest.mark.parametrize("state", [SlotState.REQUESTING, SlotState.WAITING, SlotState.RELEASING, SlotState.FREE])
def test_without_a_grant_nobody_has_won(state: SlotState) -> None:
    """Why: the race goes on."""
    assert settled(member(1, state), member(2, SlotState.WAITING)) == ([], [])


def test_races_do_not_mix() -> None:
    """Why: two people race at once."""
    assert settled(member(1, SlotState.IDLE), member(2, SlotState.WAITING, group="c2")) == ([FIRST], [])
    assert settled(member(1, SlotState.IDLE, group=""), member(2, SlotState.WAITING)) == ([], [])


def test_the_winner_stays_held_and_is_told_once() -> None:
    """Why: the person is told which one it is, and the race is over."""
    (won, lost) = losers([member(1, SlotState.IDLE), member(2, SlotState.WAITING)], now=NOW)
    assert (written(won, Slot).hold, written(won, Slot).group) == ("ada", "")
    assert (written(lost, Slot).hold, written(lost, Slot).group) == ("", "")
    assert notes(won)[0].reason == "the first of 2 to be granted, held by ada"
    assert losers([written(won, Slot), written(lost, Slot)], now=NOW) == []


def test_a_second_grant_that_is_idle_already_is_given_up() -> None:
    """Why: the person asked for one TPU, and pays for each."""
    assert settled(member(1, SlotState.IDLE, since=NOW - 500), member(2, SlotState.IDLE)) == ([FIRST], [SECOND])


# In the sweep


def test_a_beaten_leg_that_is_dead_is_released_once() -> None:
    """Why: an outbox row is keyed by its entity; a commit with two of them never succeeds, tick after tick."""
    won, dead = member(1, SlotState.PROVISIONING), member(2, SlotState.WAITING)
    husk = tpu_of(dead, request=QueuedResourceState.FAILED, node=None, error_code=8, error=STOCKOUT)
    decision = sweep(slots=table(FLEET, won, dead), observed={dead.name: Observed(tpu=husk)})
    assert kinds(decision) == [(Kind.DELETE, dead.name)]


def test_a_winner_that_is_dead_has_not_won() -> None:
    """Why: what the cloud says in this tick comes first; the others must not be given up for a husk."""
    dead, waiting = member(1, SlotState.PROVISIONING), member(2, SlotState.WAITING)
    seen = {dead.name: Observed(tpu=tpu_of(dead, node=NodeState.PREEMPTED))}
    decision = sweep(fleet=FLEET, slots=table(FLEET, dead, waiting), observed=seen)
    assert {s.name: s.state for s in all_written(decision, Slot)} == {dead.name: SlotState.RELEASING}


def test_a_winner_goes_on_in_the_tick_in_which_it_wins() -> None:
    """Why: a decision's notes and its documents tell of one and the same thing."""
    won = member(1, SlotState.BOOTING)
    decision = sweep(fleet=FLEET, slots=table(FLEET, won), observed={won.name: Observed(tpu=tpu_of(won), usable=True)})
    assert (written(decision, Slot).state, written(decision, Slot).group) == (SlotState.IDLE, "")
