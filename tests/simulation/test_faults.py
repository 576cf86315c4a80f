"""Injection: which calls a rule strikes, how often, and in what order."""

from contextlib import suppress

import pytest

from tpufn.domain.errors import InputError, Refused, Unknown
from tpufn.simulation.capacity import Capacity
from tpufn.simulation.clock import VirtualClock
from tpufn.simulation.cloud import SimulatedCloud
from tpufn.simulation.faults import FAULTS, Stage

EAST = "us-east1-d"


def refused_code(call, *args):
    with pytest.raises(Refused) as caught:
        call(*args)
    return caught.value.code


@pytest.mark.parametrize("name", [n for n, f in FAULTS.items() if f.stage not in {Stage.LIFE, Stage.LIVE, Stage.LIST}])
def test_a_fault_strikes_as_often_as_asked(name, rig, order):
    """Why: a rule that is not used up, or too soon, makes every scenario a guess."""
    rig.ready("busy")
    call = next(call for call in ("create", "get", "delete") if call in FAULTS[name].calls)
    rig.cloud.faults.inject(name, call=call, times=2)
    calls = {
        "create": lambda i: rig.cloud.create(order(f"t{i}")),
        "get": lambda _: rig.see("busy"),
        "delete": lambda _: rig.cloud.delete("busy", EAST),
    }
    for i in range(2):
        assert [rule.times for rule in rig.cloud.faults.armed()] == [2 - i]
        with suppress(Refused, Unknown):
            calls[call](i)
            assert name == "delete-late"
        if name == "delete-late":
            rig.pass_(1000)
            rig.ready("busy", request_id=f"again-{i}")
    assert rig.cloud.faults.armed() == ()


def test_filters_must_all_match(rig, order):
    """Why: a stockout in one zone must not reach the next."""
    rig.cloud.faults.inject("stockout", zone="us-east5-a", times=None)
    rig.cloud.faults.inject("stockout", type="v6e-64", times=None)
    rig.cloud.faults.inject("stockout", model="on-demand", times=None)
    rig.cloud.faults.inject("stockout", tpu="doomed", times=None)
    rig.cloud.create(order("fine"))
    for i, changes in enumerate(({"zone": "us-east5-a"}, {"type": "v6e-64"}, {"model": "on-demand"})):
        assert refused_code(rig.cloud.create, order(f"t{i}", **changes)) == 8
    assert refused_code(rig.cloud.create, order("doomed")) == 8


def test_several_rules_strike_in_the_order_of_their_injection(rig, order):
    """Why: a script of faults is read from top to bottom."""
    rig.cloud.faults.inject("reserved-stockout", code=8)
    rig.cloud.faults.inject("reserved-stockout", code=9)
    assert [refused_code(rig.cloud.create, order()) for _ in range(2)] == [8, 9]


def test_a_fault_does_not_reach_into_the_past(rig):
    """Why: what was due before the injection has happened, although nobody looked."""
    rig.create()
    rig.pass_()
    rig.cloud.faults.inject("stockout-late", times=None)
    assert rig.see().is_ready


def test_an_unknown_fault_is_refused_with_a_suggestion(rig):
    """Why: a misspelt fault would make a test pass that tests nothing."""
    with pytest.raises(InputError, match="did you mean stockout-late"):
        rig.cloud.faults.inject("stockout-lat")
    with pytest.raises(InputError, match="never strikes the call 'list'"):
        rig.cloud.faults.inject("stockout", call="list")


def test_clearing_one_kind_leaves_the_others(rig):
    """Why: a demonstration ends one trouble at a time."""
    rig.cloud.faults.inject("stockout")
    rig.cloud.faults.inject("husk")
    rig.cloud.faults.clear("stockout")
    assert [rule.fault for rule in rig.cloud.faults.armed()] == ["husk"]


def test_every_fault_is_described_in_one_line():
    """Why: the table is shown to people."""
    assert all(fault.about and "\n" not in fault.about and len(fault.about) < 90 for fault in FAULTS.values())


def test_a_faults_own_delay_is_compressed_and_a_given_one_is_not():
    """Why: seconds that a person names are the clock's."""
    clock = VirtualClock()
    cloud = SimulatedCloud(Capacity(speed=10.0), clock=clock)
    cloud.add_foreign("a", EAST, "v6e-8")
    cloud.add_foreign("b", EAST, "v6e-8")
    cloud.faults.inject("delete-late", tpu="a")
    cloud.faults.inject("delete-late", tpu="b", seconds=600)
    for name in "ab":
        cloud.delete(name, EAST)
    clock.advance(60)
    assert [t.name for t in cloud.list(EAST)] == ["b"]
    clock.advance(540)
    assert cloud.list(EAST) == ()


def test_running_nodes_are_struck_in_the_order_of_their_names(rig):
    """Why: which of several nodes is lost must not depend on who was created first."""
    rig.ready("b")
    rig.ready("a")
    rig.cloud.faults.inject("node-lost")
    assert (rig.see("a").is_dead, rig.see("b").is_dead) == (True, False)


def test_a_second_delete_does_not_hurry_a_slow_one(rig):
    """Why: deletes are repeated until not found; the repetition must not hide a slow deletion."""
    rig.ready()
    rig.cloud.faults.inject("delete-late", seconds=600)
    rig.cloud.delete("t", EAST)
    rig.cloud.delete("t", EAST)
    rig.pass_(599)
    assert rig.see() is not None
    rig.pass_(1)
    assert rig.see() is None
