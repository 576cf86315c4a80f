"""The contract of the port `TpuCloud`, run over every implementation.

An implementation comes as a `Rig`: the port, the simulated cloud that is behind it in whatever way, and a means to let
time pass. Nothing else here knows what it is talking to.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import pytest
from google.cloud.tpu_v2 import TpuClient

from tpufn.adapters.tpu_api import CloudTpu, connect
from tpufn.domain.cloud import CreateOrder, Health, NodeState, QueuedResourceState, Tpu
from tpufn.domain.errors import Refused, Unknown
from tpufn.ports import TpuCloud
from tpufn.simulation.capacity import Capacity, Place
from tpufn.simulation.clock import VirtualClock
from tpufn.simulation.cloud import SimulatedCloud
from tpufn.simulation.server import Server

ZONE, OTHER = "us-east1-d", "us-east5-a"
ENOUGH = 60.0
QUOTA = {Place("spot", "v6e", "us-east1"): 64}
ORDER = CreateOrder(
    name="tpufn-lab-spot-v6e16-ue1d-1-g1",
    zone=ZONE,
    type="v6e-16",
    runtime="v2-alpha-tpuv6e",
    model="spot",
    request_id="request-1",
    labels={"tpufn": "lab", "tpufn-nonce": "n1", "tpufn-slot": "spot-v6e16-ue1d-1", "tpufn-generation": "1"},
)


@dataclass(frozen=True)
class Rig:
    """One implementation, ready to be tried."""

    cloud: TpuCloud
    behind: SimulatedCloud
    wait: Callable[[float], None]

    def see(self, order: CreateOrder = ORDER) -> Tpu:
        tpu = self.cloud.get(order.name, order.zone)
        assert tpu is not None
        return tpu

    def ready(self, order: CreateOrder = ORDER) -> Tpu:
        self.cloud.create(order)
        self.wait(ENOUGH)
        return self.see(order)


@contextmanager
def in_process() -> Iterator[Rig]:
    clock = VirtualClock()
    cloud = SimulatedCloud(Capacity(quota=QUOTA), clock=clock)
    yield Rig(cloud=cloud, behind=cloud, wait=lambda seconds: void(clock.advance(seconds)))


@contextmanager
def over_the_wire() -> Iterator[Rig]:
    """The real client against a server; pages are short, so that every listing of a few has several. What the adapter
    waits for passes on a clock of its own."""
    clock = VirtualClock()
    behind = SimulatedCloud(Capacity(quota=QUOTA), clock=clock)
    with Server(behind, clock, page=2) as server, closing(connect(server.endpoint).transport) as transport:
        cloud = CloudTpu("sandbox", clock=VirtualClock(), client=lambda: TpuClient(transport=transport))
        yield Rig(cloud=cloud, behind=behind, wait=lambda seconds: void(clock.advance(seconds)))


def void(_: object) -> None:
    """Drop a result."""


IMPLEMENTATIONS = {"simulated": in_process, "wire": over_the_wire}


@pytest.fixture(params=IMPLEMENTATIONS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    with IMPLEMENTATIONS[request.param]() as rig:
        yield rig


def named(name: str, **changes: object) -> CreateOrder:
    return replace(ORDER, name=name, request_id=f"request-{name}", **changes)  # type: ignore[arg-type]


def test_nothing_is_none(rig):
    """Why: None is the proof that frees a slot; it must mean that both halves are not found."""
    assert rig.cloud.get(ORDER.name, ZONE) is None
    assert list(rig.cloud.list(ZONE)) == []


def test_create_returns_before_the_grant(rig):
    """Why: returning means accepted; nobody waits inside a call."""
    rig.cloud.create(ORDER)
    tpu = rig.see()
    assert tpu.request in {QueuedResourceState.CREATING, QueuedResourceState.ACCEPTED}
    assert tpu.node is None
    assert not tpu.is_ready


def test_what_was_ordered_is_what_is_seen(rig):
    """Why: adoption decides by labels, type, zone and model alone."""
    tpu = rig.ready()
    assert (tpu.name, tpu.zone, tpu.type, tpu.model) == (ORDER.name, ZONE, "v6e-16", "spot")
    assert dict(tpu.labels) == dict(ORDER.labels)
    assert tpu.created_at > 0


@pytest.mark.parametrize("model", ["spot", "on-demand"])
def test_the_model_is_seen(rig, model):
    """Why: an order for on-demand capacity must not come back as Spot."""
    assert rig.ready(replace(ORDER, model=model)).model == model


def test_a_granted_tpu_becomes_ready_with_every_worker(rig):
    """Why: launch needs READY, HEALTHY and all endpoints, each with an address of its own."""
    tpu = rig.ready()
    assert (tpu.request, tpu.node, tpu.health) == (QueuedResourceState.ACTIVE, NodeState.READY, Health.HEALTHY)
    assert tpu.is_ready
    assert len({worker.address for worker in tpu.workers}) == 4
    assert all(worker.reach for worker in tpu.workers)


def test_workers_keep_their_order(rig):
    """Why: a worker's number is its place in this tuple."""
    assert rig.ready().workers == rig.see().workers


def test_the_same_request_id_asks_once(rig):
    """Why: a call that is sent again must not take twice, nor fail."""
    rig.cloud.create(ORDER)
    rig.cloud.create(ORDER)
    assert [tpu.name for tpu in rig.cloud.list(ZONE)] == [ORDER.name]
    rig.wait(ENOUGH)
    rig.cloud.create(ORDER)
    assert rig.see().is_ready


def test_a_taken_name_is_already_exists(rig):
    """Why: the caller then reads the labels to see whose it is."""
    rig.cloud.create(ORDER)
    with pytest.raises(Refused) as refused:
        rig.cloud.create(replace(ORDER, request_id="request-2"))
    assert refused.value.code == 6


def test_a_name_is_free_again_only_when_gone(rig):
    """Why: the next generation would otherwise meet its predecessor."""
    again = replace(ORDER, request_id="request-2")
    rig.ready()
    rig.cloud.delete(ORDER.name, ZONE)
    with pytest.raises(Refused) as refused:
        rig.cloud.create(again)
    assert refused.value.code == 6
    rig.wait(ENOUGH)
    rig.cloud.create(again)
    assert rig.see().request is not None


def test_names_are_the_zones_own(rig):
    """Why: a slot is of one zone; another zone's TPU of that name is another TPU."""
    rig.cloud.create(ORDER)
    assert rig.cloud.get(ORDER.name, OTHER) is None
    assert list(rig.cloud.list(OTHER)) == []


def test_a_list_shows_what_get_shows(rig):
    """Why: the sweep sees the same as the look by name."""
    for name in ("b", "a", "c"):
        rig.cloud.create(named(name))
    rig.wait(ENOUGH)
    listed = {tpu.name: tpu for tpu in rig.cloud.list(ZONE)}
    assert sorted(listed) == ["a", "b", "c"]
    assert all(rig.cloud.get(name, ZONE) == tpu for name, tpu in listed.items())


def test_a_list_shows_others_tpus_and_half_ones(rig):
    """Why: others' are reported, never deleted; a node may outlive its queued resource."""
    rig.behind.add_foreign("bare", ZONE, "v6e-8", labels={"team": "x"}, queued=False)
    (tpu,) = rig.cloud.list(ZONE)
    assert (tpu.name, tpu.request, tpu.node) == ("bare", None, NodeState.READY)
    assert dict(tpu.labels) == {"team": "x"}


@pytest.mark.parametrize("moment", [0.0, 0.5, 2.0, 4.0, ENOUGH])
def test_a_delete_works_at_any_time_and_ends_in_none(rig, moment):
    """Why: losers of a race are released in whatever state they are."""
    rig.cloud.create(ORDER)
    rig.wait(moment)
    rig.cloud.delete(ORDER.name, ZONE)
    assert rig.see().request is QueuedResourceState.DELETING
    rig.wait(ENOUGH)
    assert rig.cloud.get(ORDER.name, ZONE) is None
    assert list(rig.cloud.list(ZONE)) == []


def test_deleting_twice_is_one_delete(rig):
    """Why: a delete is repeated until not found."""
    rig.ready()
    rig.cloud.delete(ORDER.name, ZONE)
    rig.cloud.delete(ORDER.name, ZONE)
    rig.wait(ENOUGH)
    assert rig.cloud.get(ORDER.name, ZONE) is None


def test_deleting_nothing_is_not_found(rig):
    """Why: the API's own words; not found by delete is no error of anyone."""
    with pytest.raises(Refused) as refused:
        rig.cloud.delete(ORDER.name, ZONE)
    assert refused.value.code == 5


def test_a_preempted_tpu_stays_until_it_is_deleted(rig):
    """Why: it still eats quota, and its name is not free."""
    rig.ready()
    rig.behind.preempt(ORDER.name)
    rig.wait(ENOUGH)
    tpu = rig.see()
    assert (tpu.request, tpu.node) == (QueuedResourceState.SUSPENDED, NodeState.PREEMPTED)
    assert tpu.is_dead
    assert tpu.proves_stop
    assert [t.name for t in rig.cloud.list(ZONE)] == [ORDER.name]
    rig.cloud.delete(ORDER.name, ZONE)
    rig.wait(ENOUGH)
    assert rig.cloud.get(ORDER.name, ZONE) is None


@pytest.mark.parametrize("state", [NodeState.TERMINATED, NodeState.REPAIRING, NodeState.UNKNOWN, NodeState.HIDDEN])
def test_every_way_to_lose_a_node_is_seen(rig, state):
    """Why: the queued resource may still say ACTIVE."""
    rig.ready()
    rig.behind.faults.inject("node-lost", end_state=state)
    assert (rig.see().node, rig.see().request, rig.see().is_dead) == (state, QueuedResourceState.ACTIVE, True)


def test_failed_data_carries_code_and_words(rig):
    """Why: a late stockout is classified from them."""
    rig.behind.faults.inject("stockout-late")
    rig.cloud.create(ORDER)
    rig.wait(ENOUGH)
    tpu = rig.see()
    assert (tpu.request, tpu.node, tpu.error_code) == (QueuedResourceState.FAILED, None, 8)
    assert tpu.error.startswith(f'There is no more capacity in the zone "{ZONE}"; you can try in another zone')


def test_missing_health_is_unspecified(rig):
    """Why: a field that is not there is not HEALTHY."""
    rig.behind.faults.inject("missing-health")
    tpu = rig.ready()
    assert (tpu.node, tpu.health, tpu.is_ready) == (NodeState.READY, Health.UNSPECIFIED, False)


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("stockout", 8, f'There is no more capacity in the zone "{ZONE}"; '),
        ("reserved-stockout", 9, "Insufficient reserved capacity."),
        (
            "quota-zero",
            429,
            "'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0 in region us-east1.",
        ),
        (
            "quota-full",
            8,
            "Quota 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' exhausted. Limit 64 in region us-east1",
        ),
        ("structural-type", 3, "Cloud TPU received a bad request. The requested accelerator configuration"),
        ("structural-location", 403, f"Permission denied on 'locations/{ZONE}' (or it may not exist)."),
    ],
)
def test_a_refused_create_says_why_and_leaves_nothing(rig, fault, code, words):
    """Why: classes and scopes are read from the code and the words; a refusal needs no clearing away."""
    rig.behind.faults.inject(fault)
    with pytest.raises(Refused) as refused:
        rig.cloud.create(ORDER)
    assert refused.value.code == code
    assert words in refused.value.text
    assert rig.cloud.get(ORDER.name, ZONE) is None


def test_quota_is_full_until_husks_are_gone(rig):
    """Why: our own release arms a full quota again, and nothing else does."""
    for i in range(4):
        rig.cloud.create(named(f"t{i}"))
    rig.wait(ENOUGH)
    rig.behind.preempt("t0")
    with pytest.raises(Refused, match=r"exhausted\. Limit 64 in region us-east1"):
        rig.cloud.create(named("t4"))
    rig.cloud.delete("t0", ZONE)
    rig.wait(ENOUGH)
    rig.cloud.create(named("t4"))


def test_a_type_that_is_not_there_is_refused_at_once(rig):
    """Why: a specification error is terminal, not waited for."""
    with pytest.raises(Refused, match="the accelerator v4-32 was not found in zone us-east1-d") as refused:
        rig.cloud.create(replace(ORDER, type="v4-32"))
    assert refused.value.code == 3


def test_a_refused_delete_changes_nothing(rig):
    """Why: the slot stays releasing, and the TPU may still be adopted."""
    rig.ready()
    rig.behind.faults.inject("delete-refused")
    with pytest.raises(Refused, match="DeleteQueuedResource is not supported when state is ACTIVE") as refused:
        rig.cloud.delete(ORDER.name, ZONE)
    assert refused.value.code == 9
    assert rig.see().is_ready


@pytest.mark.parametrize("fault", ["permission", "zone-forbidden"])
def test_a_403_is_never_gone(rig, fault):
    """Why: not allowed to look is not the same as nothing there."""
    rig.ready()
    rig.behind.faults.inject(fault, times=2)
    with pytest.raises(Refused) as by_name:
        rig.cloud.get(ORDER.name, ZONE)
    with pytest.raises(Refused) as listed:
        rig.cloud.list(ZONE)
    assert by_name.value.code == listed.value.code == 403
    assert rig.see().is_ready


@pytest.mark.parametrize(("fault", "applied"), [("timeout-applied", True), ("timeout-lost", False)])
def test_a_timeout_is_unknown_for_create(rig, fault, applied):
    """Why: both happen, and only a look tells which."""
    rig.behind.faults.inject(fault, call="create")
    with pytest.raises(Unknown):
        rig.cloud.create(ORDER)
    assert (rig.cloud.get(ORDER.name, ZONE) is not None) == applied
    rig.cloud.create(ORDER)
    rig.wait(ENOUGH)
    assert rig.see().is_ready


@pytest.mark.parametrize(("fault", "applied"), [("timeout-applied", True), ("timeout-lost", False)])
def test_a_timeout_is_unknown_for_delete(rig, fault, applied):
    """Why: as for create."""
    rig.ready()
    rig.behind.faults.inject(fault, call="delete")
    with pytest.raises(Unknown):
        rig.cloud.delete(ORDER.name, ZONE)
    rig.wait(ENOUGH)
    assert (rig.cloud.get(ORDER.name, ZONE) is None) == applied


def test_a_dead_zone_is_unknown_and_alone(rig):
    """Why: one zone's silence must not stop the others, and proves nothing."""
    rig.ready()
    rig.behind.faults.inject("zone-dead", zone=ZONE, times=None)
    with pytest.raises(Unknown):
        rig.cloud.get(ORDER.name, ZONE)
    with pytest.raises(Unknown):
        rig.cloud.list(ZONE)
    assert list(rig.cloud.list(OTHER)) == []


def test_an_empty_operation_is_unknown(rig):
    """Why: neither response nor error says nothing about the resource."""
    rig.behind.faults.inject("empty-operation")
    with pytest.raises(Unknown):
        rig.cloud.create(ORDER)
    rig.wait(ENOUGH)
    assert rig.see().is_ready


def test_a_rate_limit_names_no_quota(rig):
    """Why: a 429 without a metric is about calls, not about chips."""
    rig.behind.faults.inject("rate-limit")
    with pytest.raises(Refused) as refused:
        rig.cloud.create(ORDER)
    assert refused.value.code == 429
    assert "ForTPUAPI" not in refused.value.text


def test_an_order_that_expires_ends_failed(rig):
    """Why: valid_for bounds the wait; what is left stays until deleted."""
    rig.cloud.create(replace(ORDER, valid_for=0.01))
    rig.wait(ENOUGH)
    assert (rig.see().request, rig.see().node) == (QueuedResourceState.FAILED, None)
