"""The model of supply: its draws depend on the seed, the name and the question, and on nothing else."""

import pytest

from tpufn.domain.cloud import NodeState
from tpufn.simulation.capacity import FIELD_DELAYS, SANDBOX_DELAYS, Capacity, Place, Spread, Supply
from tpufn.simulation.life import Event
from tpufn.simulation.world import new_resource


@pytest.fixture
def resource(order):
    return lambda name="t", capacity=None: new_resource(order(name), capacity or Capacity(), at=0.0)


def test_draws_depend_on_seed_name_and_question_only(resource):
    """Why: a demonstration with a seed is repeatable, whatever runs beside it."""
    t = resource()
    draws = {
        (seed, name, event): Capacity(seed=seed).delay(resource(name), event)
        for seed in (1, 2)
        for name in "tu"
        for event in (Event.GRANT, Event.READY)
    }
    assert len(set(draws.values())) == len(draws)
    assert Capacity(seed=1).delay(t, Event.GRANT) == draws[1, "t", Event.GRANT]


@pytest.mark.parametrize("delays", [SANDBOX_DELAYS, FIELD_DELAYS], ids=["sandbox", "field"])
@pytest.mark.parametrize("event", list(SANDBOX_DELAYS))
def test_delays_stay_in_their_spread(delays, event, resource):
    """Why: a person waits at most as long as the table says."""
    capacity = Capacity(speed=2.0, default=Supply(delays=delays))
    spread = delays[event]
    for i in range(50):
        assert spread.low / 2 <= capacity.delay(resource(f"t{i}"), event) <= spread.high / 2


def test_every_event_that_follows_by_itself_has_a_delay():
    """Why: an event without a delay would end the whole simulation with an error."""
    from tpufn.simulation.life import NEXT

    following = {event for events in NEXT.values() for event in events} | {Event.APPEAR}
    assert following == set(SANDBOX_DELAYS) == set(FIELD_DELAYS)


def test_rates_are_shares(resource):
    """Why: a rate of a tenth is neither never nor always."""
    capacity = Capacity(default=Supply(stockout_rate=0.3, notice_rate=0.7, lifetime=Spread(1, 2)))
    resources = [resource(f"t{i}") for i in range(500)]
    assert 100 < sum(capacity.is_stocked_out(r) for r in resources) < 200
    assert 300 < sum(capacity.notice(r) is not None for r in resources) < 400


def test_end_states_follow_their_weights(resource):
    """Why: PREEMPTED is usual, the others happen."""
    capacity = Capacity(default=Supply(end_states={NodeState.PREEMPTED: 3, NodeState.TERMINATED: 1}))
    states = [capacity.end_state(resource(f"t{i}")) for i in range(400)]
    assert 60 < states.count(NodeState.TERMINATED) < 140
    assert set(states) == {NodeState.PREEMPTED, NodeState.TERMINATED}


def test_the_catalogue_and_the_supply_say_what_there_is():
    """Why: the API knows a type only in its zones."""
    capacity = Capacity(supply={Place("spot", "v4", "europe-west9-a"): Supply()})
    assert capacity.offers("v6e-16", "us-east1-d")
    assert capacity.offers("v4-32", "europe-west9-a")
    assert not capacity.offers("v4-32", "us-east1-d")
    assert not capacity.offers("v4-33", "us-central2-b")
    assert capacity.knows_zone("europe-west9-a")
    assert not capacity.knows_zone("europe-west9-b")


def test_the_default_is_generous_and_quick(resource):
    """Why: a first try in the sandbox must not wait or fail."""
    assert Capacity().at(Place("spot", "v6e", "us-east1-d")).chips is None
    assert sum(spread.high for spread in SANDBOX_DELAYS.values()) < 10
    assert Capacity().lifetime(resource()) is None
