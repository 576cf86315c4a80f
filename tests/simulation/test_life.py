"""The table of the life: walked over its whole grid."""

import itertools

import pytest

from tpufn.domain.cloud import QueuedResourceState
from tpufn.domain.errors import IllegalTransition
from tpufn.domain.machine import step
from tpufn.simulation.life import LIFE, NEXT, SHOWN, UNFORCED_DELETE, Event, Phase, reachable


@pytest.mark.parametrize(("phase", "event"), list(itertools.product(Phase, Event)))
def test_every_phase_meets_every_event(phase, event):
    """Why: a missing edge is a typed error, never a silent change."""
    if event in LIFE[phase]:
        assert step(LIFE, phase, event) in Phase
    else:
        with pytest.raises(IllegalTransition):
            step(LIFE, phase, event)


def test_every_phase_is_reached_and_ends():
    """Why: a phase that nothing leads to is dead code, one that never ends is a leak."""
    reached = {phase for row in LIFE.values() for phase in row.values()}
    assert reached | {Phase.UNSEEN} == set(Phase)
    assert all(Event.GONE in reachable(phase) for phase in Phase if phase is not Phase.GONE)


def test_all_that_a_call_can_show_can_be_deleted():
    """Why: delete with force works in every state; only the state of a create in flight has nothing to delete."""
    assert {phase for phase in Phase if Event.DELETE in LIFE[phase]} == set(SHOWN)


def test_what_follows_by_itself_is_possible_then():
    """Why: a planned step that is never allowed would leave the resource stuck."""
    for row in LIFE.values():
        for event, phase in row.items():
            assert all(following in reachable(phase) for following in NEXT.get(event, ()))


def test_every_state_of_a_queued_resource_occurs():
    """Why: a state that never occurs is a state that nobody is tested against."""
    assert set(SHOWN.values()) == set(QueuedResourceState)


def test_what_was_preempted_never_comes_back():
    """Why: SUSPENDED is never allocated again (Cloud TPU API, queued resources)."""
    for phase in (Phase.SUSPENDING, Phase.SUSPENDED, Phase.LOST, Phase.FAILED):
        assert not reachable(phase) & {Event.GRANT, Event.READY, Event.HEALTH}


def test_the_service_never_refuses_what_it_says_it_deletes():
    """Why: the refusal names these four states as those that are fine."""
    assert [s for s in ("ACCEPTED", "WAITING_FOR_RESOURCES", "SUSPENDED", "FAILED") if s not in UNFORCED_DELETE] == []
    assert len(UNFORCED_DELETE) == 4
