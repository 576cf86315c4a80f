"""Every fault: what it does to a caller, and that all can be cleared away afterwards."""

import re

import pytest

from tpufn.domain.cloud import Health, NodeState, QueuedResourceState
from tpufn.domain.errors import Refused, Unknown
from tpufn.simulation.capacity import Place
from tpufn.simulation.faults import FAULTS
from tpufn.simulation.texts import EMPTY_OPERATION

EAST = "us-east1-d"
Q, N = QueuedResourceState, NodeState


def refused(call, *args):
    """The code and the words, without the error id."""
    with pytest.raises(Refused) as caught:
        call(*args)
    return caught.value.code, re.sub(r" \[EID: 0x[0-9a-f]{16}\]$", "", caught.value.text)


def every_call(rig, order):
    cloud = rig.cloud
    return [
        (cloud.create, order("new")),
        (cloud.get, "t", EAST),
        (cloud.list, EAST),
        (cloud.delete, "t", EAST),
    ]


def zone_dead(rig, order):
    rig.ready()
    rig.cloud.faults.inject("zone-dead", zone=EAST, times=None)
    for call in every_call(rig, order):
        with pytest.raises(Unknown, match="no answer before the deadline"):
            call[0](*call[1:])
    assert rig.cloud.list("us-east5-a") == ()
    rig.cloud.faults.clear("zone-dead")
    assert [t.name for t in rig.cloud.list(EAST)] == ["t"]


def zone_forbidden(rig, order):
    rig.ready()
    rig.cloud.faults.inject("zone-forbidden", zone=EAST, times=None)
    words = f"Permission denied on 'locations/{EAST}' (or it may not exist)."
    for call in every_call(rig, order):
        code, text = refused(*call)
        assert code == 403
        assert text.startswith(words)
        assert "LOCATION_POLICY_VIOLATED" in text
    assert rig.cloud.list("us-east5-a") == ()


def permission(rig, _order):
    rig.ready()
    rig.cloud.faults.inject("permission", times=2)
    node = f"projects/sandbox/locations/{EAST}/nodes/t"
    assert refused(rig.cloud.get, "t", EAST) == (403, f"Permission 'tpu.nodes.get' denied on '{node}'")
    assert refused(rig.cloud.list, EAST)[1].startswith("Permission 'tpu.nodes.list' denied on ")
    assert rig.see().is_ready


def rate_limit(rig, order):
    rig.cloud.faults.inject("rate-limit")
    code, text = refused(rig.cloud.create, order())
    assert code == 429
    assert "'" not in text  # no quota metric: that is what tells it from a quota
    rig.cloud.create(order())


def timeout_lost(rig, order):
    rig.cloud.faults.inject("timeout-lost")
    with pytest.raises(Unknown):
        rig.cloud.create(order())
    assert rig.see() is None
    rig.ready()
    rig.cloud.faults.inject("timeout-lost", call="delete")
    with pytest.raises(Unknown):
        rig.cloud.delete("t", EAST)
    assert rig.see().is_ready


def timeout_applied(rig, order):
    rig.cloud.faults.inject("timeout-applied")
    with pytest.raises(Unknown):
        rig.cloud.create(order())
    rig.pass_()
    assert rig.see().is_ready
    rig.cloud.faults.inject("timeout-applied", call="delete")
    with pytest.raises(Unknown):
        rig.cloud.delete("t", EAST)
    rig.pass_()
    assert rig.see() is None


def timeout_late(rig, order):
    rig.cloud.faults.inject("timeout-late", seconds=300)
    with pytest.raises(Unknown):
        rig.cloud.create(order())
    rig.pass_(299)
    assert rig.see() is None
    assert rig.cloud.list(EAST) == ()
    assert refused(rig.cloud.delete, "t", EAST)[0] == 5
    rig.pass_(1)
    assert rig.see().request is Q.CREATING
    rig.pass_()
    assert rig.see().is_ready


def empty_operation(rig, order):
    rig.cloud.faults.inject("empty-operation")
    with pytest.raises(Unknown) as caught:
        rig.cloud.create(order())
    assert str(caught.value) == EMPTY_OPERATION
    assert rig.see() is not None


def stockout(rig, order):
    rig.cloud.faults.inject("stockout", zone=EAST, type="v6e-16", times=2)
    words = (
        f'There is no more capacity in the zone "{EAST}"; you can try in another zone where Cloud TPU Nodes are offered'
    )
    for _ in range(2):
        code, text = refused(rig.cloud.create, order())
        assert (code, text.startswith(words)) == (8, True)
    rig.cloud.create(order())


def reserved_stockout(rig, order):
    rig.cloud.faults.inject("reserved-stockout")
    rig.cloud.faults.inject("reserved-stockout", code=8)
    words = "Insufficient reserved capacity. Contact customer support to increase your reservation."
    assert refused(rig.cloud.create, order()) == (9, words)
    assert refused(rig.cloud.create, order()) == (8, words)


def quota_zero(rig, order):
    rig.cloud.faults.inject("quota-zero")
    words = (
        "Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0 in region us-east1."
    )
    assert refused(rig.cloud.create, order()) == (429, words)


def quota_zero_operation(rig, order):
    rig.cloud.faults.inject("quota-zero-operation")
    words = "Quota 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' exhausted. Limit 0 in region us-east1"
    assert refused(rig.cloud.create, order()) == (8, words)


def quota_full(rig, order):
    rig.ready("a")
    rig.ready("b")
    rig.cloud.faults.inject("quota-full")
    words = "Quota 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' exhausted. Limit 32 in region us-east1"
    assert refused(rig.cloud.create, order()) == (8, words)


def quota_full_http(rig, order):
    rig.cloud.faults.inject("quota-full-http")
    code, text = refused(rig.cloud.create, order())
    assert (code, text.endswith("has been exceeded. Limit: 16 in region us-east1.")) == (429, True)


def quota_address_create(rig, order):
    rig.cloud.faults.inject("quota-address-create")
    words = "Quota 'IN_USE_ADDRESSES' exceeded. Limit: 8.0 in region us-east1"
    assert refused(rig.cloud.create, order()) == (403, words)


def structural_type(rig, order):
    rig.cloud.faults.inject("structural-type", type="v6e-16")
    code, text = refused(rig.cloud.create, order())
    assert code == 3
    assert text.endswith(f"; the accelerator v6e-16 was not found in zone {EAST}")
    rig.cloud.create(order("other", type="v6e-8"))


def structural_location(rig, order):
    rig.cloud.faults.inject("structural-location", times=None)
    assert refused(rig.cloud.create, order())[0] == 403
    assert rig.cloud.list(EAST) == ()


def delete_refused(rig, _order):
    rig.ready()
    rig.cloud.faults.inject("delete-refused", times=None)
    words = (
        "DeleteQueuedResource is not supported when state is {} "
        "(must be one of [ACCEPTED WAITING_FOR_RESOURCES SUSPENDED FAILED])"
    )
    assert refused(rig.cloud.delete, "t", EAST) == (9, words.format("ACTIVE"))
    rig.create("u")
    while rig.see("u").request is not Q.PROVISIONING:
        rig.clock.advance_to(rig.cloud.next_event_at())
    assert refused(rig.cloud.delete, "u", EAST) == (9, words.format("PROVISIONING"))
    rig.cloud.preempt("t")
    rig.pass_()
    rig.cloud.delete("t", EAST)
    rig.pass_()
    assert rig.see("t") is None
    assert rig.see("u").is_ready


def delete_late(rig, _order):
    rig.ready()
    rig.cloud.faults.inject("delete-late")
    rig.cloud.delete("t", EAST)
    rig.pass_(599)
    assert rig.see().request is Q.DELETING
    rig.pass_(1)
    assert rig.see() is None


def list_omits(rig, _order):
    rig.create("a")
    rig.create("b")
    rig.cloud.faults.inject("list-omits", tpu="a")
    assert [t.name for t in rig.cloud.list(EAST)] == ["b"]
    assert rig.see("a") is not None
    assert [t.name for t in rig.cloud.list(EAST)] == ["a", "b"]


def stockout_late(rig, _order):
    rig.cloud.faults.inject("stockout-late")
    rig.create()
    rig.pass_()
    tpu = rig.see()
    assert (tpu.request, tpu.node, tpu.error_code) == (Q.FAILED, None, 8)
    assert tpu.error.startswith(f'There is no more capacity in the zone "{EAST}"; ')
    rig.pass_(100_000)
    assert rig.cloud.provisioned() == 1


def quota_address(rig, _order):
    rig.cloud.faults.inject("quota-address")
    rig.create()
    rig.pass_()
    tpu = rig.see()
    assert (tpu.request, tpu.error_code) == (Q.FAILED, 8)
    assert tpu.error.startswith("Quota 'IN_USE_ADDRESSES' exceeded. Limit: 8.0 in region us-east1")


def husk(rig, _order):
    rig.cloud.faults.inject("husk")
    rig.create()
    rig.pass_(100_000)
    assert (rig.see().request, rig.see().node) == (Q.SUSPENDED, None)
    snapshot = rig.cloud.snapshot()
    assert snapshot.used == {}
    assert snapshot.held[Place("spot", "v6e", "us-east1")] == 16


def late_grant(rig, _order):
    rig.cloud.faults.inject("late-grant")
    rig.create()
    rig.pass_(70 * 60)
    assert rig.see().request is Q.WAITING_FOR_RESOURCES
    rig.pass_(10 * 60)
    assert rig.see().is_ready


def preempt_while_creating(rig, _order):
    rig.cloud.faults.inject("preempt-while-creating")
    rig.create()
    rig.pass_()
    tpu = rig.see()
    assert (tpu.request, tpu.node, tpu.error_code) == (Q.FAILED, N.PREEMPTED, 3)
    assert tpu.error.startswith("Cloud TPU received a bad request. update is not supported while in state PREEMPTED")
    assert rig.cloud.snapshot().used == {}


def create_late(rig, _order):
    rig.cloud.faults.inject("create-late")
    rig.create()
    rig.pass_(1800)
    assert (rig.see().request, rig.see().is_ready) == (Q.PROVISIONING, True)
    rig.pass_(700)
    assert (rig.see().request, rig.see().is_ready) == (Q.ACTIVE, True)


def ready_no_endpoints(rig, _order):
    rig.cloud.faults.inject("ready-no-endpoints")
    rig.create()
    rig.pass_(170)
    assert (rig.see().node, rig.see().workers, rig.see().is_ready) == (N.READY, (), False)
    rig.pass_(30)
    assert rig.see().is_ready


def partial_endpoints(rig, _order):
    rig.cloud.faults.inject("partial-endpoints")
    rig.create()
    rig.pass_(3600)
    assert (len(rig.see().workers), rig.see().health) == (3, Health.HEALTHY)


def missing_health(rig, _order):
    rig.cloud.faults.inject("missing-health")
    rig.create()
    rig.pass_(3600)
    tpu = rig.see()
    assert (tpu.node, len(tpu.workers), tpu.health, tpu.is_ready) == (N.READY, 4, Health.UNSPECIFIED, False)


def ready_unhealthy(rig, _order):
    rig.ready("a")
    rig.cloud.faults.inject("ready-unhealthy", tpu="a", seconds=100)
    rig.cloud.faults.inject("ready-unhealthy", tpu="b")
    rig.create("b")
    rig.pass_(99)
    sick = {t.name: (t.node, t.health) for t in rig.cloud.list(EAST)}
    assert sick == dict.fromkeys("ab", (N.READY, Health.UNHEALTHY_MAINTENANCE))
    rig.pass_(3600)
    assert (rig.see("a").health, rig.see("b").health) == (Health.HEALTHY, Health.UNHEALTHY_MAINTENANCE)


def node_lost(rig, _order):
    states = (N.PREEMPTED, N.TERMINATED, N.REPAIRING, N.UNKNOWN, N.HIDDEN)
    for state in states:
        rig.ready(state.lower())
        rig.cloud.faults.inject("node-lost", tpu=state.lower(), end_state=state)
    seen = {rig.see(state.lower()).node: rig.see(state.lower()).request for state in states}
    assert seen == dict.fromkeys(states, Q.ACTIVE)
    assert {name for what, name in rig.hosts.told if what == "kill"} == {state.lower() for state in states}
    assert rig.cloud.snapshot().used == {}


def preempt(rig, _order):
    rig.ready()
    rig.cloud.faults.inject("preempt", times=None)
    assert rig.see().is_ready
    rig.pass_(20)
    rig.see()
    rig.pass_(10)
    assert rig.see().node is N.PREEMPTED
    assert [what for what, _ in rig.hosts.told] == ["provision", "notice", "kill"]


def api_lags(rig, _order):
    rig.ready()
    rig.cloud.faults.inject("api-lags")
    rig.cloud.advance()
    assert rig.hosts.told[-1] == ("kill", "t")
    rig.pass_(59)
    assert rig.see().is_ready
    rig.pass_(1)
    assert rig.see().node is N.PREEMPTED


SCENARIOS = {name: globals()[name.replace("-", "_")] for name in FAULTS}
"""One scenario for each fault, by its name: a fault that nobody tries is an error right here."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_does_what_it_says(name, rig, order):
    """Why: each is a report from the field."""
    SCENARIOS[name](rig, order)


@pytest.mark.parametrize("name", FAULTS)
def test_after_any_fault_everything_can_be_deleted(name, rig, order):
    """Why: no fault may leave something behind that nobody can remove."""
    SCENARIOS[name](rig, order)
    rig.cloud.faults.clear()
    rig.pass_(10_000)
    for tpu in rig.cloud.list(EAST):
        rig.cloud.delete(tpu.name, EAST)
    rig.pass_(10_000)
    snapshot = rig.cloud.snapshot()
    assert (snapshot.resources, snapshot.used, snapshot.held) == ((), {}, {})
    assert rig.cloud.provisioned(foreign=True) == 0
