"""Capacity, quota, lifetimes and cost: who gets chips, for how long, and what it costs."""

import pytest

from tpufn.domain.accelerators import price_per_hour
from tpufn.domain.cloud import NodeState, QueuedResourceState
from tpufn.domain.errors import Refused
from tpufn.simulation.capacity import FIELD_DELAYS, FIELD_LIFETIME, Capacity, Place, Spread, Supply
from tpufn.simulation.life import Event

EAST = Place("spot", "v6e", "us-east1-d")


def test_spot_nodes_live_as_long_as_the_model_says(make_rig):
    """Why: lifetimes of minutes are what the product must survive."""
    rig = make_rig(Capacity(supply={EAST: Supply(lifetime=Spread(100, 200), notice_rate=1.0)}))
    rig.ready()
    rig.pass_(200)
    assert rig.see().node is NodeState.PREEMPTED
    moments = {moment.event: moment.at for moment in rig.cloud.timeline()}
    assert 100 <= moments[Event.PREEMPT] - moments[Event.READY] <= 200
    assert moments[Event.PREEMPT] - moments[Event.NOTICE] == pytest.approx(30)


def test_only_spot_is_preempted_by_itself(make_rig):
    """Why: on-demand capacity is not reclaimed."""
    supply = {EAST._replace(model="on-demand"): Supply(lifetime=Spread(10, 20))}
    rig = make_rig(Capacity(supply=supply))
    rig.ready(model="on-demand")
    rig.pass_(3600)
    assert rig.see().is_ready


def test_end_states_are_drawn_from_their_weights(make_rig):
    """Why: sometimes a reclaimed node shows another state."""
    supply = Supply(lifetime=Spread(10, 20), end_states={NodeState.HIDDEN: 1.0})
    rig = make_rig(Capacity(supply={EAST: supply}))
    rig.create()
    rig.pass_()
    assert rig.see().node is NodeState.HIDDEN


def test_without_chips_a_request_waits_and_the_longest_waiting_is_first(make_rig):
    """Why: a queue is served in its order."""
    rig = make_rig(Capacity(supply={EAST: Supply(chips=16)}))
    rig.ready("a")
    rig.create("b")
    rig.pass_()
    rig.create("c")
    rig.pass_()
    assert [rig.see(n).request for n in "bc"] == [QueuedResourceState.WAITING_FOR_RESOURCES] * 2
    rig.cloud.delete("a", "us-east1-d")
    rig.pass_()
    assert rig.see("b").is_ready
    assert rig.see("c").request is QueuedResourceState.WAITING_FOR_RESOURCES


def test_a_preemption_frees_the_chips_and_the_husk_keeps_the_quota(make_rig):
    """Why: hardware and quota are two things; husks starve the second."""
    region = EAST._replace(where="us-east1")
    rig = make_rig(Capacity(supply={EAST: Supply(chips=16)}, quota={region: 32}))
    rig.ready("a")
    rig.create("b")
    rig.pass_()
    rig.cloud.preempt("a")
    rig.pass_()
    assert rig.see("b").is_ready
    with pytest.raises(Refused, match=r"exhausted\. Limit 32 in region us-east1"):
        rig.create("c")
    rig.cloud.delete("a", "us-east1-d")
    rig.pass_()
    rig.create("c")
    assert rig.see("c") is not None


@pytest.mark.parametrize(
    ("where", "limit", "code", "text"),
    [
        ("us-east1", 0, 429, "Limit: 0 in region us-east1."),
        ("us-east1-d", 15, 8, "exhausted. Limit 15 in zone us-east1-d"),
    ],
)
def test_quota_speaks_in_both_wordings(make_rig, where, limit, code, text):
    """Why: limit 0 is structural, a full quota is not, and each has its own surface."""
    rig = make_rig(Capacity(quota={EAST._replace(where=where): limit}))
    with pytest.raises(Refused) as refused:
        rig.create()
    assert refused.value.code == code
    assert text in refused.value.text
    assert rig.see() is None


def test_patience_ends_in_a_stockout(make_rig):
    """Why: a stockout may come late, inside the failed data."""
    rig = make_rig(Capacity(supply={EAST: Supply(chips=0, patience=100)}))
    rig.create()
    rig.pass_(50)
    assert rig.see().request is QueuedResourceState.WAITING_FOR_RESOURCES
    rig.pass_(100)
    assert (rig.see().request, rig.see().error_code) == (QueuedResourceState.FAILED, 8)


def test_patience_does_not_outlive_the_grant(make_rig):
    """Why: chips that came in time are kept."""
    rig = make_rig(Capacity(supply={EAST: Supply(chips=0, patience=100)}))
    rig.create()
    rig.pass_(50)
    rig.cloud.set_chips(EAST, 16)
    rig.pass_(200)
    assert rig.see().is_ready


def test_a_stockout_rate_of_one_fails_everything(make_rig):
    """Why: the rate is a share of the requests."""
    rig = make_rig(Capacity(supply={EAST: Supply(stockout_rate=1.0)}))
    rig.create()
    rig.pass_()
    assert rig.see().error.startswith('There is no more capacity in the zone "us-east1-d"')


def test_chips_can_change_and_come_back(make_rig):
    """Why: a demonstration takes a zone's capacity away and gives it back."""
    rig = make_rig()
    rig.cloud.set_chips(EAST, 0)
    rig.create()
    rig.pass_()
    assert rig.see().request is QueuedResourceState.WAITING_FOR_RESOURCES
    rig.cloud.set_chips(EAST, None)
    rig.pass_()
    assert rig.see().is_ready


def test_speed_compresses_every_delay(make_rig):
    """Why: the same story, a hundred times faster, for a person who watches."""

    def moments(speed):
        rig = make_rig(Capacity(seed=3, speed=speed, default=Supply(delays=FIELD_DELAYS, lifetime=FIELD_LIFETIME)))
        start = rig.clock.now()
        rig.create()
        rig.pass_(100_000)
        return [(m.event, m.at - start) for m in rig.cloud.timeline()]

    slow, fast = moments(1.0), moments(100.0)
    assert [event for event, _ in slow] == [event for event, _ in fast]
    assert [at / 100 for _, at in slow] == pytest.approx([at for _, at in fast], abs=1e-4)


def test_a_cap_bounds_the_workers(make_rig):
    """Why: a v6e-64 need not start sixteen processes on a laptop."""
    rig = make_rig(Capacity(worker_cap=2))
    rig.ready("big", type="v6e-64")
    rig.ready("one", type="v6e-8")
    assert [len(rig.see(n).workers) for n in ("big", "one")] == [2, 1]


def test_a_declared_supply_makes_a_type_available(make_rig):
    """Why: the catalogue is a hint; the deployment's own zone wins."""
    rig = make_rig(Capacity(supply={Place("spot", "v6e", "europe-north1-a"): Supply()}))
    order = rig.create(zone="europe-north1-a")
    rig.pass_()
    assert rig.see(zone=order.zone).is_ready


def test_somebody_elses_tpu_can_be_deleted_and_uses_chips(make_rig):
    """Why: the capacity and the quota of a project are shared."""
    rig = make_rig(Capacity(supply={EAST: Supply(chips=16)}))
    rig.cloud.add_foreign("other", "us-east1-d", "v6e-16")
    rig.create()
    rig.pass_()
    assert rig.see().request is QueuedResourceState.WAITING_FOR_RESOURCES
    rig.cloud.delete("other", "us-east1-d")
    rig.pass_()
    assert rig.see().is_ready
    assert [u.name for u in rig.cloud.usage()] == ["t"]


def test_usage_counts_from_active_to_the_end(rig):
    """Why: the closing table shows TPU-time and an estimated cost."""
    rig.ready()
    active = next(m.at for m in rig.cloud.timeline() if m.event is Event.READY)
    rig.clock.advance_to(active + 3600)
    rig.cloud.preempt("t")
    rig.pass_(1000)
    rig.cloud.delete("t", "us-east1-d")
    rig.pass_()
    (usage,) = rig.cloud.usage()
    assert usage.seconds == pytest.approx(3600)
    assert rig.cloud.chip_seconds() == pytest.approx(3600 * 16)
    assert rig.cloud.cost() == pytest.approx(price_per_hour("v6e-16", "us-east1-d", spot=True))


def test_what_was_never_active_costs_nothing(make_rig):
    """Why: waiting is free."""
    rig = make_rig(Capacity(supply={EAST: Supply(chips=0)}))
    rig.create()
    rig.pass_(3600)
    assert [(u.seconds, u.cost) for u in rig.cloud.usage()] == [(0.0, 0.0)]
