"""The simulated cloud's resources as messages of the Cloud TPU API (v2), and its requests as orders.

States are the API's enumeration values by name. External addresses are shown where the order asked for them.
"""

import zlib
from datetime import UTC, datetime

from google.cloud import tpu_v2
from google.rpc import status_pb2  # type: ignore[import-untyped]  # the package has no types

from tpufn.domain.cloud import CreateOrder, QueuedResourceState, Tpu
from tpufn.domain.fleet import Model
from tpufn.domain.slot import Worker
from tpufn.simulation.resource import Resource

_PORT = 8470
_S = QueuedResourceState
_STATES = tpu_v2.QueuedResourceState
_DATA = {
    _S.CREATING: "creating_data",
    _S.ACCEPTED: "accepted_data",
    _S.PROVISIONING: "provisioning_data",
    _S.FAILED: "failed_data",
    _S.DELETING: "deleting_data",
    _S.ACTIVE: "active_data",
    _S.SUSPENDING: "suspending_data",
    _S.SUSPENDED: "suspended_data",
}
"""The member of `state_data` that comes with a state; WAITING_FOR_RESOURCES has none."""


def order_of(request: tpu_v2.CreateQueuedResourceRequest) -> CreateOrder:
    """The order that a request with exactly one node spec makes."""
    queued = request.queued_resource
    node = queued.tpu.node_spec[0].node
    network = node.network_config
    return CreateOrder(
        name=request.queued_resource_id,
        zone=zone_of(request.parent),
        type=node.accelerator_type,
        runtime=node.runtime_version,
        model=_model(queued),
        request_id=request.request_id,
        labels=dict(node.labels),
        network=network.network,
        subnetwork=network.subnetwork,
        external_ips=network.enable_external_ips,
        reservation=queued.reservation_name,
        startup_script=node.metadata.get("startup-script", ""),
        service_account=node.service_account.email,
        valid_for=queued.queueing_policy.valid_until_duration.total_seconds(),
    )


def queued_message(resource: Resource, project: str) -> tpu_v2.QueuedResource:
    """A queued resource as the API shows it."""
    parent, order = parent_of(project, resource.zone), resource.order
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=parent, node_id=order.name, node=_asked(order))
    message = tpu_v2.QueuedResource(
        name=f"{parent}/queuedResources/{order.name}",
        create_time=moment(resource.created_at),
        tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec]),
        reservation_name=order.reservation,
        state=_state(resource.view()),
    )
    if order.model == Model.SPOT:
        message.spot = tpu_v2.QueuedResource.Spot()
    else:
        message.guaranteed = tpu_v2.QueuedResource.Guaranteed()
    return message


def node_message(resource: Resource, project: str) -> tpu_v2.Node:
    """A node as the API shows it: what was asked for, and what became of it."""
    parent, order, tpu = parent_of(project, resource.zone), resource.order, resource.view()
    node = _asked(order)
    node.name = f"{parent}/nodes/{order.name}"
    node.id = zlib.crc32(resource.key.encode())
    node.scheduling_config = tpu_v2.SchedulingConfig(
        spot=order.model == Model.SPOT, reserved=order.model == Model.RESERVED
    )
    node.create_time = moment(resource.created_at if resource.granted_at is None else resource.granted_at)
    node.state = getattr(tpu_v2.Node.State, tpu.node or "STATE_UNSPECIFIED")
    node.health = getattr(tpu_v2.Node.Health, tpu.health or "HEALTH_UNSPECIFIED")
    node.queued_resource = f"{parent}/queuedResources/{order.name}" if resource.queued else ""
    node.network_endpoints = [_endpoint(worker, order.external_ips) for worker in tpu.workers]
    return node


def parent_of(project: str, zone: str) -> str:
    return f"projects/{project}/locations/{zone}"


def zone_of(name: str) -> str:
    """The zone in a full resource name, or in the name of a location."""
    return name.split("/")[3]


def moment(seconds: float) -> datetime:
    """Unix seconds as the API's timestamps."""
    return datetime.fromtimestamp(seconds, UTC)


def _model(queued: tpu_v2.QueuedResource) -> str:
    if "spot" in queued:
        return Model.SPOT
    return Model.RESERVED if queued.reservation_name else Model.ON_DEMAND


def _asked(order: CreateOrder) -> tpu_v2.Node:
    node = tpu_v2.Node(
        accelerator_type=order.type,
        runtime_version=order.runtime,
        network_config=tpu_v2.NetworkConfig(
            network=order.network, subnetwork=order.subnetwork, enable_external_ips=order.external_ips
        ),
        labels=dict(order.labels),
        metadata={"startup-script": order.startup_script} if order.startup_script else {},
    )
    if order.service_account:
        node.service_account = tpu_v2.ServiceAccount(email=order.service_account)
    return node


def _state(tpu: Tpu) -> tpu_v2.QueuedResourceState:
    shown = tpu.request or QueuedResourceState.CREATING
    by_service = shown in {QueuedResourceState.SUSPENDING, QueuedResourceState.SUSPENDED}
    initiator = _STATES.StateInitiator.SERVICE if by_service else _STATES.StateInitiator.STATE_INITIATOR_UNSPECIFIED
    state = _STATES(state=getattr(_STATES.State, shown), state_initiator=initiator)
    if shown in _DATA:
        setattr(state, _DATA[shown], {})
    if shown is QueuedResourceState.FAILED:
        state.failed_data.error = status_pb2.Status(code=tpu.error_code, message=tpu.error)
    return state


def _endpoint(worker: Worker, external: bool) -> tpu_v2.NetworkEndpoint:
    access = tpu_v2.AccessConfig(external_ip=worker.reach if external else "")
    return tpu_v2.NetworkEndpoint(ip_address=worker.address, port=_PORT, access_config=access)
