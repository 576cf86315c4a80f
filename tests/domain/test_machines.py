"""The three state machines, walked edge by edge."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from tpufn.domain.attempt import ATTEMPT_TABLE, Attempt, AttemptEvent, AttemptState
from tpufn.domain.errors import IllegalTransition
from tpufn.domain.job import DEMAND, JOB_TABLE, TERMINAL, Job, JobEvent, JobState
from tpufn.domain.machine import allows, diagram, step
from tpufn.domain.slot import HOLDING_CHIPS, LEGS, SLOT_TABLE, Lease, Slot, SlotEvent, SlotState

Table = Mapping[Any, Mapping[Any, Any]]

SLOT = """\
free: request=requesting adopt=requesting appear=booting retire=retired
requesting: queued=waiting granted=provisioning release=releasing
waiting: granted=provisioning release=releasing
provisioning: started=booting release=releasing
booting: usable=idle release=releasing vanish=free
idle: lease=busy release=releasing vanish=free
busy: settled=cleaning
cleaning: vacate=idle release=releasing vanish=free
releasing: gone=free
retired: restore=free"""

JOB = """\
pending: assign=active cancel=cancelled fail=failed
waiting: requeue=pending cancel=cancelling succeed=succeeded fail=failed
active: succeed=succeeded fail=failed detach=waiting cancel=cancelling
cancelling: stopped=cancelled
succeeded:
failed:
cancelled:
rejected:"""

ATTEMPT = """\
assigned: launch=launching decide=stopping
launching: go=running doubt=settling decide=stopping
running: doubt=settling decide=stopping
settling: revive=running decide=stopping
stopping: close=closed
closed:"""

GRIDS = [
    pytest.param(SLOT_TABLE, SlotState, SlotEvent, SLOT, id="slot"),
    pytest.param(JOB_TABLE, JobState, JobEvent, JOB, id="job"),
    pytest.param(ATTEMPT_TABLE, AttemptState, AttemptEvent, ATTEMPT, id="attempt"),
]


def printed(table: Table) -> str:
    """One line a state, its edges in the table's order."""
    rows = ((state, " ".join(f"{event}={after}" for event, after in row.items())) for state, row in table.items())
    return "\n".join(f"{state}: {edges}".rstrip() for state, edges in rows)


def values(state: StrEnum) -> Slot | Job | Attempt:
    """A document in that state."""
    if isinstance(state, SlotState):
        return Slot(name="s", pool="p", state=state, since=1.0)
    if isinstance(state, JobState):
        return Job(id="j", state=state, since=1.0)
    assert isinstance(state, AttemptState)
    lease = Lease(slot="s", generation=1, fence=1, attempt="j.1")
    return Attempt(
        job="j", number=1, lease=lease, tpu="t", pool="p", zone="z", region="r", bucket="b", workers=(), state=state
    )


@pytest.mark.parametrize(("table", "states", "events", "golden"), GRIDS)
def test_the_table_is_the_agreed_one(table: Table, states: Any, events: Any, golden: str) -> None:
    """Why: an edge that somebody adds or takes away must show in a review."""
    assert printed(table) == golden


@pytest.mark.parametrize(("table", "states", "events", "golden"), GRIDS)
def test_every_state_meets_every_event(table: Table, states: Any, events: Any, golden: str) -> None:
    """Why: an event in the wrong state is a typed error and changes nothing; in the right one it moves the document."""
    legal = {
        line.partition(":")[0]: dict(e.split("=") for e in line.partition(":")[2].split())
        for line in golden.splitlines()
    }
    for state in states:
        for event in events:
            before = values(state)
            after = legal[state].get(event)
            assert before.allows(event) is allows(table, state, event) is (after is not None)
            if after is None:
                with pytest.raises(IllegalTransition, match=f"{state} has no transition for {event}"):
                    before.on(event, now=9.0)
                with pytest.raises(IllegalTransition):
                    step(table, state, event)
            else:
                assert before.on(event, now=9.0).state == step(table, state, event) == after
            assert before == values(state)


@pytest.mark.parametrize(("table", "states", "events", "golden"), GRIDS)
def test_the_table_names_every_state_and_uses_every_event(table: Table, states: Any, events: Any, golden: str) -> None:
    """Why: a state without a row, or an event on no edge, is a word without a meaning."""
    assert set(table) == set(states)
    assert {event for row in table.values() for event in row} == set(events)


@pytest.mark.parametrize(("table", "states", "events", "golden"), GRIDS)
def test_the_diagram_is_the_table(table: Table, states: Any, events: Any, golden: str) -> None:
    """Why: the documentation's diagrams are made from the table, edge for edge."""
    head, *edges = diagram(table).splitlines()
    assert head == "stateDiagram-v2"
    drawn = set()
    for edge in edges:
        states_part, _, event = edge.strip().partition(": ")
        before, after = states_part.split(" --> ")
        drawn.add((before, event, after))
    assert drawn == {(a, event, b) for a, row in table.items() for event, b in row.items()}


@pytest.mark.parametrize(
    ("table", "first"),
    [(SLOT_TABLE, SlotState.FREE), (JOB_TABLE, JobState.PENDING), (ATTEMPT_TABLE, AttemptState.ASSIGNED)],
)
def test_every_state_can_be_reached(table: Table, first: StrEnum) -> None:
    """Why: a state that nothing leads to is dead; only a rejected job is born in its state."""
    seen, queue = {first}, [first]
    while queue:
        for after in table[queue.pop()].values():
            if after not in seen:
                seen.add(after)
                queue.append(after)
    assert set(table) - seen <= {JobState.REJECTED}


def test_changes_come_with_the_transition() -> None:
    """Why: one value carries the new state and all that belongs to it."""
    slot = Slot(name="s", pool="p").on(SlotEvent.REQUEST, now=3.0, generation=4, cause="for j")
    assert slot == Slot(name="s", pool="p", state=SlotState.REQUESTING, since=3.0, generation=4, cause="for j")


def test_the_sets_of_states_say_what_they_mean() -> None:
    """Why: races, limits and queues are counted by these sets."""
    assert {str(s) for s in LEGS} == {"requesting", "waiting", "provisioning", "booting"}
    assert {str(s) for s in SlotState if s not in HOLDING_CHIPS} == {"free", "retired"}
    assert {str(s) for s in TERMINAL} == {"succeeded", "failed", "cancelled", "rejected"}
    assert {str(s) for s in DEMAND} == {"pending", "waiting"}
    assert all(JOB_TABLE[state] == {} for state in TERMINAL)


def test_an_end_is_an_end() -> None:
    """Why: late events must never move a job that has ended."""
    for state in TERMINAL:
        ended = Job(id="j", state=state)
        assert ended.is_terminal
        assert not ended.wants_capacity
        assert not any(ended.allows(event) for event in JobEvent)
