"""The Cloud TPU adapter beyond the port's contract: what it sends, how it waits, and what it makes of odd answers."""

from contextlib import closing
from dataclasses import replace

import pytest
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError, RefreshError
from google.cloud import tpu_v2
from google.cloud.tpu_v2 import TpuClient
from google.rpc import error_details_pb2, status_pb2

from tpufn.adapters.tpu_api import BUDGET, CloudTpu, connect
from tpufn.adapters.tpu_api_attributes import CloudAdmission, CloudGuestAttributes
from tpufn.adapters.tpu_api_errors import meaning, refused_by
from tpufn.adapters.tpu_api_request import create_request
from tpufn.adapters.tpu_api_view import merged, view
from tpufn.decide.refusals import classify
from tpufn.domain.capacity import Class
from tpufn.domain.cloud import CreateOrder, Health, NodeState, QueuedResourceState
from tpufn.domain.errors import CloudUnavailable, Refused, Unknown
from tpufn.domain.fleet import Model, Pool
from tpufn.simulation.capacity import Capacity
from tpufn.simulation.clock import VirtualClock
from tpufn.simulation.cloud import SimulatedCloud
from tpufn.simulation.server import Server
from tpufn.simulation.server_wire import order_of

ZONE = "us-east1-d"
ORDER = CreateOrder(
    name="t",
    zone=ZONE,
    type="v6e-16",
    runtime="v2-alpha-tpuv6e",
    model="spot",
    request_id="9d7f2a52-9d5a-4c8c-8a0e-1d3c3a2f6c11",
    labels={"tpufn": "lab", "tpufn-slot": "s"},
    network="projects/p/global/networks/n",
    subnetwork="projects/p/regions/us-east1/subnetworks/s",
    external_ips=False,
    startup_script="#!/bin/bash\necho 'ü' \"$x\"\n",
    service_account="worker@p.iam.gserviceaccount.com",
    valid_for=90.5,
)
POOL = Pool(id="p", type="v6e-16", zone=ZONE, model=Model.SPOT, runtime="r", count=1)
STOCKOUT = f'There is no more capacity in the zone "{ZONE}"; you can try in another zone'


class Site:
    """A server with its cloud, and the adapter whose waiting moves the adapter's own clock."""

    def __init__(self, server: Server, cloud: SimulatedCloud, world: VirtualClock, client: TpuClient) -> None:
        self.server, self.cloud, self.world, self.clock = server, cloud, world, VirtualClock()
        self.tpu = CloudTpu("sandbox", clock=self.clock, client=lambda: client)

    def calls(self) -> list[str]:
        return [call.method for call in self.server.tpu.calls]


@pytest.fixture
def site():
    world = VirtualClock()
    cloud = SimulatedCloud(Capacity(), clock=world)
    with Server(cloud, world, page=2) as server, closing(connect(server.endpoint).transport) as transport:
        yield Site(server, cloud, world, TpuClient(transport=transport))


# What is sent


@pytest.mark.parametrize(
    "order",
    [
        ORDER,
        replace(ORDER, model="on-demand", external_ips=True, startup_script="", service_account="", valid_for=0.0),
        replace(ORDER, model="reserved", reservation="projects/q/locations/us-east1-d/reservations/r"),
    ],
)
def test_an_order_arrives_whole(order):
    """Why: what the API does not get, it cannot do; nothing may be lost on the way."""
    assert order_of(create_request(order, "p")) == order


def test_a_reservations_short_name_is_completed():
    """Why: the API wants the full name; people write the short one."""
    queued = create_request(replace(ORDER, model="reserved", reservation="r"), "p").queued_resource
    assert queued.reservation_name == f"projects/p/locations/{ZONE}/reservations/r"
    assert tpu_v2.QueuedResource.pb(queued).WhichOneof("tier") == "guaranteed"


@pytest.mark.parametrize(("model", "tier"), [("spot", "spot"), ("on-demand", "guaranteed"), ("reserved", "guaranteed")])
def test_tiers(site, model, tier):
    """Why: the tier decides what it costs; and it is told before there is a node as well as after."""
    order = replace(ORDER, model=model, reservation="r" if model == "reserved" else "", valid_for=0.0)
    queued = create_request(order, "p").queued_resource
    assert tpu_v2.QueuedResource.pb(queued).WhichOneof("tier") == tier
    site.tpu.create(order)
    before = site.tpu.get("t", ZONE)
    site.world.advance(60.0)
    after = site.tpu.get("t", ZONE)
    assert (before.node, after.node) == (None, NodeState.READY)
    assert (before.model, after.model) == (model, model)


def test_an_unknown_model_is_a_defect():
    """Why: on-demand capacity must never be bought by a slip."""
    with pytest.raises(ValueError, match="cheap"):
        create_request(replace(ORDER, model="cheap"), "p")


def test_every_call_has_a_deadline(site):
    """Why: the client sets none by itself, and a call without one blocks its function for ever."""
    site.server.tpu.operations.delay = 1.0
    site.cloud.add_foreign("bare", ZONE, "v6e-8", queued=False)
    site.tpu.create(ORDER)
    site.tpu.get("t", ZONE)
    site.tpu.list(ZONE)
    site.tpu.delete("t", ZONE)
    site.tpu.delete("bare", ZONE)
    assert {
        "CreateQueuedResource",
        "GetOperation",
        "GetQueuedResource",
        "GetNode",
        "ListQueuedResources",
        "ListNodes",
        "DeleteQueuedResource",
        "DeleteNode",
    } == set(site.calls())
    assert all(call.deadline is not None and 0 < call.deadline <= BUDGET for call in site.server.tpu.calls)


def test_every_page_has_a_deadline(site):
    """Why: the client's own paging would go on for as long as there are pages."""
    for number in range(5):
        site.cloud.add_foreign(f"t{number}", ZONE, "v6e-8")
    assert [tpu.name for tpu in site.tpu.list(ZONE)] == ["t0", "t1", "t2", "t3", "t4"]
    assert site.calls() == ["ListQueuedResources"] * 3 + ["ListNodes"] * 3
    assert all(call.deadline is not None for call in site.server.tpu.calls)


# Waiting and trying again


def test_a_create_does_not_wait_for_a_slow_operation(site):
    """Why: a slow create is no failed one; what becomes of it is read from the resources."""
    site.server.tpu.operations.delay = 3600.0
    begin = site.clock.now()
    site.tpu.create(ORDER)
    assert 20.0 <= site.clock.now() - begin <= BUDGET
    assert site.cloud.get("t", ZONE) is not None


def test_a_stockout_shows_at_once(site):
    """Why: the other legs need to know now, not a tick later."""
    site.cloud.faults.inject("stockout")
    with pytest.raises(Refused, match="no more capacity") as refused:
        site.tpu.create(ORDER)
    assert refused.value.code == 8
    assert site.calls() == ["CreateQueuedResource", "GetOperation"]


@pytest.mark.parametrize("code", [403, 404, 500, 504])
def test_once_accepted_a_silent_operation_is_no_refusal(site, code):
    """Why: the operation's name is the acceptance; not being able to look at it says nothing of the resource."""
    site.server.tpu.say("GetOperation", code, "no")
    site.tpu.create(ORDER)
    assert site.cloud.get("t", ZONE) is not None


def test_a_delete_does_not_wait(site):
    """Why: gone is what `get` says; a deleting TPU takes minutes."""
    site.tpu.create(ORDER)
    site.server.tpu.calls.clear()
    site.tpu.delete("t", ZONE)
    assert site.calls() == ["DeleteQueuedResource"]


@pytest.mark.parametrize("method", ["GetQueuedResource", "GetNode", "ListNodes", "CreateQueuedResource"])
def test_an_unavailable_service_is_asked_again(site, method):
    """Why: a connection is lost now and then; reads are harmless and a create carries its request id."""
    site.server.tpu.say(method, 503, "try again")
    site.tpu.create(ORDER)
    assert site.tpu.get("t", ZONE) is not None
    assert [tpu.name for tpu in site.tpu.list(ZONE)] == ["t"]
    assert site.calls().count(method) == 2


def test_a_refusal_is_not_asked_again(site):
    """Why: 429 means fewer calls."""
    site.server.tpu.say("ListNodes", 429, "Resource has been exhausted (e.g. check quota).")
    with pytest.raises(Refused) as refused:
        site.tpu.list(ZONE)
    assert (refused.value.code, site.calls().count("ListNodes")) == (429, 1)


def test_a_spent_budget_ends_the_call(site):
    """Why: a function has a deadline, too; endless paging is no answer."""

    def slow(**_: object) -> tpu_v2.ListNodesResponse:
        site.clock.advance(20.0)
        return tpu_v2.ListNodesResponse(next_page_token="more")

    client = TpuClient(transport=connect(site.server.endpoint).transport)
    with closing(client.transport):
        client.list_nodes = slow
        with pytest.raises(Unknown, match="list us-east1-d: no answer within 30 s"):
            CloudTpu("sandbox", clock=site.clock, client=lambda: client).list(ZONE)


# Both halves, each by itself


def test_a_forbidden_half_is_never_gone(site):
    """Why: not found for one half and 403 for the other proves nothing."""
    site.server.tpu.say("GetNode", 403, "Permission 'tpu.nodes.get' denied on 'projects/P/locations/Z/nodes/N'")
    with pytest.raises(Refused) as refused:
        site.tpu.get("t", ZONE)
    assert refused.value.code == 403


def test_a_node_left_alone_is_deleted(site):
    """Why: it costs as much as with its queued resource."""
    site.cloud.add_foreign("bare", ZONE, "v6e-8", queued=False)
    site.tpu.delete("bare", ZONE)
    assert site.tpu.get("bare", ZONE).node is NodeState.DELETING
    site.world.advance(60.0)
    assert site.tpu.get("bare", ZONE) is None


def test_a_delete_under_way_is_a_delete(site):
    """Why: the service refuses a second delete in that state; to us it is what we asked for."""
    site.server.tpu.say("DeleteQueuedResource", 9, "DeleteQueuedResource is not supported when state is DELETING")
    site.tpu.delete("t", ZONE)


def test_somebody_elses_project_is_refused(site):
    """Why: a wrong project in the deployment file is told, not read as an empty cloud."""
    with closing(connect(site.server.endpoint).transport) as transport:
        other = CloudTpu("other", clock=site.clock, client=lambda: TpuClient(transport=transport))
        with pytest.raises(Refused, match=r"denied on 'projects/other/locations/us-east1-d'") as refused:
            other.list(ZONE)
    assert refused.value.code == 403


# What answers mean


def node(**changes: object) -> tpu_v2.Node:
    ends = [tpu_v2.NetworkEndpoint(ip_address=f"10.0.0.{i}") for i in range(6)]
    return tpu_v2.Node(name=f"projects/p/locations/{ZONE}/nodes/t", network_endpoints=ends, **changes)


@pytest.mark.parametrize(("configs", "addresses"), [(0, 6), (1, 6), (2, 3), (3, 2)])
def test_every_nth_endpoint_is_a_worker(configs, addresses):
    """Why: each network configuration adds an endpoint to every worker, not a worker."""
    tpu = view("t", ZONE, None, node(network_configs=[tpu_v2.NetworkConfig()] * configs))
    assert len(tpu.workers) == addresses
    assert tpu.workers[1].address == f"10.0.0.{max(1, configs)}"


def test_a_worker_is_reached_by_its_public_address():
    """Why: siblings talk over the private one; we may be outside."""
    end = tpu_v2.NetworkEndpoint(ip_address="10.0.0.2", access_config=tpu_v2.AccessConfig(external_ip="203.0.113.2"))
    [worker] = view("t", ZONE, None, tpu_v2.Node(network_endpoints=[end])).workers
    assert (worker.address, worker.reach) == ("10.0.0.2", "203.0.113.2")


def test_unknown_states_prove_nothing():
    """Why: a state of a later API version is neither usable nor lost."""
    queued = tpu_v2.QueuedResource(state=tpu_v2.QueuedResourceState(state=99))
    with pytest.warns(UserWarning, match="Unrecognized"):
        tpu = view("t", ZONE, queued, node(state=99, health=99))
    assert (tpu.request, tpu.node, tpu.health) == (
        QueuedResourceState.CREATING,
        NodeState.CREATING,
        Health.UNSPECIFIED,
    )
    assert [tpu.is_ready, tpu.is_dead, tpu.proves_stop] == [False] * 3


@pytest.mark.parametrize("state", NodeState)
def test_every_node_state_is_known(state):
    """Why: a state that is not read is a TPU that is not seen."""
    assert view("t", ZONE, None, node(state=getattr(tpu_v2.Node.State, state))).node is state


@pytest.mark.parametrize("state", QueuedResourceState)
def test_every_request_state_is_known(state):
    """Why: as for nodes."""
    shown = tpu_v2.QueuedResourceState(state=getattr(tpu_v2.QueuedResourceState.State, state))
    assert view("t", ZONE, tpu_v2.QueuedResource(state=shown), None).request is state


@pytest.mark.parametrize(
    ("version", "topology", "type"),
    [
        ("V4", "2x2x4", "v4-32"),
        ("V5P", "4x4x4", "v5p-128"),
        ("V5LITE_POD", "4x4", "v5litepod-16"),
        ("V6E", "2x4", "v6e-8"),
    ],
)
def test_a_type_given_as_a_topology(version, topology, type):
    """Why: other people's TPUs, and adopted ones, may have been made that way."""
    config = tpu_v2.AcceleratorConfig(type_=getattr(tpu_v2.AcceleratorConfig.Type, version), topology=topology)
    assert view("t", ZONE, None, node(accelerator_config=config)).type == type


def test_nodes_of_a_multislice_are_listed_alone():
    """Why: they are others'; the sweep reports them and touches nothing."""
    queued = tpu_v2.QueuedResource(
        name=f"projects/p/locations/{ZONE}/queuedResources/q", spot=tpu_v2.QueuedResource.Spot()
    )
    nodes = [tpu_v2.Node(name=f"projects/p/locations/{ZONE}/nodes/q-{i}", queued_resource=queued.name) for i in (1, 0)]
    tpus = merged(ZONE, [queued], nodes)
    assert [(tpu.name, tpu.request is None, tpu.node is None) for tpu in tpus] == [
        ("q", False, True),
        ("q-0", True, False),
        ("q-1", True, False),
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (exceptions.PermissionDenied("m"), 403),
        (exceptions.ResourceExhausted("m"), 429),
        (exceptions.AlreadyExists("m"), 6),
        (exceptions.NotFound("m"), 5),
        (exceptions.FailedPrecondition("m"), 9),
        (exceptions.InvalidArgument("m"), 3),
        (exceptions.Aborted("m"), 10),
        (exceptions.Conflict("m"), 409),
    ],
)
def test_codes_of_refused_calls(error, code):
    """Why: classes are read from these numbers."""
    refused = meaning(error, "get")
    assert isinstance(refused, Refused)
    assert (refused.code, refused.text) == (code, "m")


@pytest.mark.parametrize(
    "error",
    [
        exceptions.DeadlineExceeded("m"),
        exceptions.ServiceUnavailable("m"),
        exceptions.InternalServerError("m"),
        exceptions.Cancelled("m"),
        exceptions.RetryError("m", cause=None),
        exceptions.GatewayTimeout("m"),
        RefreshError("connection reset"),
    ],
)
def test_no_answer_is_unknown(error):
    """Why: the call may have taken effect; it is read before anything destructive."""
    assert isinstance(meaning(error, "create t"), Unknown)


@pytest.mark.parametrize(
    "error",
    [
        DefaultCredentialsError("none found"),
        RefreshError("invalid_grant: Bad Request"),
        exceptions.Unauthenticated("m"),
    ],
)
def test_a_missing_login_says_how_to_log_in(error):
    """Why: no tick and no retry mends it, one command does."""
    unavailable = meaning(error, "Cloud TPU API")
    assert isinstance(unavailable, CloudUnavailable)
    assert "gcloud auth application-default login" in str(unavailable)


def test_a_client_that_cannot_be_made(site):
    """Why: the login is looked for on the first call, not on import."""

    def fail() -> TpuClient:
        raise DefaultCredentialsError("Your default credentials were not found.")

    with pytest.raises(CloudUnavailable, match="default credentials were not found"):
        CloudTpu("p", clock=site.clock, client=fail).list(ZONE)


def test_reasons_are_read_from_details(site):
    """Why: a location policy is told by its reason, which is no part of the message."""
    site.cloud.faults.inject("zone-forbidden")
    with pytest.raises(Refused, match=r'it may not exist\)\. \[reason: "LOCATION_POLICY_VIOLATED"\]'):
        site.tpu.list(ZONE)


def test_quotas_are_read_from_details():
    """Why: the message may say no more than that a quota is exhausted."""
    quota = error_details_pb2.QuotaFailure.Violation(
        description="Quota 'TPUV6EPerProjectPerZoneForTPUAPI' exhausted. Limit 4 in zone us-east1-d"
    )
    status = status_pb2.Status(code=8, message="Quota exceeded.")
    status.details.add().Pack(error_details_pb2.QuotaFailure(violations=[quota]))
    refused = refused_by(status)
    assert refused.code == 8
    assert classify(refused.code, refused.text, POOL).cls is Class.QUOTA


@pytest.mark.parametrize(
    ("fault", "cls"),
    [
        ("stockout", Class.STOCKOUT),
        ("rate-limit", Class.RATE_LIMIT),
        ("quota-zero", Class.STRUCTURAL),
        ("quota-zero-operation", Class.STRUCTURAL),
        ("quota-full", Class.QUOTA),
        ("quota-full-http", Class.QUOTA),
        ("structural-type", Class.STRUCTURAL),
        ("structural-location", Class.STRUCTURAL),
        ("quota-address-create", Class.STRUCTURAL),
        ("zone-forbidden", Class.STRUCTURAL),
    ],
)
def test_refusals_mean_the_same_over_the_wire(site, fault, cls):
    """Why: what the classifier learnt in the simulation must hold for what the client makes of the same answer."""
    site.cloud.faults.inject(fault, times=2)
    refusals = []
    for cloud in (site.cloud, site.tpu):
        with pytest.raises(Refused) as refused:
            cloud.create(ORDER)
        refusals.append(classify(refused.value.code, refused.value.text, POOL))
    assert refusals[0] == refusals[1]
    assert refusals[1].cls is cls


def test_guest_attributes_are_read_by_worker() -> None:
    """Host keys are pinned, and IAP finds machines, by what each worker says of itself."""
    told = tpu_v2.GetGuestAttributesResponse(
        guest_attributes=[
            {"query_value": {"items": [{"namespace": "hostkeys", "key": "ssh-ed25519", "value": f"AAAA{i}"}]}}
            for i in range(2)
        ]
    )
    asked: list[tpu_v2.GetGuestAttributesRequest] = []

    class Client:
        def get_guest_attributes(
            self, request: tpu_v2.GetGuestAttributesRequest, timeout: float
        ) -> tpu_v2.GetGuestAttributesResponse:
            asked.append(request)
            assert timeout
            return told

    attributes = CloudGuestAttributes("p", Client)  # type: ignore[arg-type]  # one method is all that it needs
    assert attributes.host_keys("t", "us-east5-a") == {0: "ssh-ed25519 AAAA0", 1: "ssh-ed25519 AAAA1"}
    assert asked[0].name == "projects/p/locations/us-east5-a/nodes/t"
    assert attributes.hostnames("t", "us-east5-a") == {}


def test_somebody_is_let_in_by_the_metadata(site):
    """Why: an existing TPU's workers know our key only from there; everything else in it is its owner's."""
    site.cloud.add_foreign("mine", ZONE, "v6e-8", queued=False)
    client = site.tpu._client
    name = f"projects/sandbox/locations/{ZONE}/nodes/mine"
    theirs = tpu_v2.Node(name=name, metadata={"other": "x", "ssh-keys": "ada:ssh-ed25519 A ada\ntpufn:ssh-ed25519 OLD"})
    client.update_node(request=tpu_v2.UpdateNodeRequest(node=theirs, update_mask={"paths": ["metadata"]}))
    door = CloudAdmission("sandbox", lambda: client)
    for _ in range(2):
        door.admit("mine", ZONE, "tpufn", ("ssh-ed25519 NEW", "ssh-ed25519 FORMER"))
    lines = ["ada:ssh-ed25519 A ada", "tpufn:ssh-ed25519 NEW", "tpufn:ssh-ed25519 FORMER"]
    node = client.get_node(request=tpu_v2.GetNodeRequest(name=name))
    assert dict(node.metadata) == {"other": "x", "ssh-keys": "\n".join(lines)}
    assert site.calls().count("UpdateNode") == 2, "what is there already is not written again"
    with pytest.raises(Refused, match="not found"):
        door.admit("gone", ZONE, "tpufn", ("ssh-ed25519 NEW",))
