"""An order as the Cloud TPU API wants it: one queued resource with one node, both of the same name."""

from google.cloud import tpu_v2
from google.protobuf import duration_pb2  # type: ignore[import-untyped]  # the package has no types

from tpufn.domain.cloud import CreateOrder
from tpufn.domain.fleet import Model

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def location(project: str, zone: str) -> str:
    """The parent of everything in a zone."""
    return f"projects/{project}/locations/{zone}"


def create_request(order: CreateOrder, project: str) -> tpu_v2.CreateQueuedResourceRequest:
    """Raises ValueError for a provisioning model that is none."""
    parent = location(project, order.zone)
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=parent, node_id=order.name, node=_node(order))
    queued = tpu_v2.QueuedResource(tpu=tpu_v2.QueuedResource.Tpu(node_spec=[spec]))
    _choose_tier(queued, order, parent)
    if order.valid_for:
        queued.queueing_policy.valid_until_duration = _duration(order.valid_for)
    return tpu_v2.CreateQueuedResourceRequest(
        parent=parent, queued_resource_id=order.name, queued_resource=queued, request_id=order.request_id
    )


def _choose_tier(queued: tpu_v2.QueuedResource, order: CreateOrder, parent: str) -> None:
    """Spot is a tier of its own; on-demand and reserved are the guaranteed tier, reserved with its reservation. The
    node's own scheduling options stay unset, as gcloud leaves them: the service derives them from the tier."""
    if Model(order.model) is Model.SPOT:
        queued.spot = tpu_v2.QueuedResource.Spot()
        return
    queued.guaranteed = tpu_v2.QueuedResource.Guaranteed()
    if order.model == Model.RESERVED:
        full = "/" in order.reservation or not order.reservation
        queued.reservation_name = order.reservation if full else f"{parent}/reservations/{order.reservation}"


def _node(order: CreateOrder) -> tpu_v2.Node:
    node = tpu_v2.Node(
        accelerator_type=order.type,
        runtime_version=order.runtime,
        network_config=_network(order),
        labels=dict(order.labels),
        metadata=_metadata(order),
    )
    if order.service_account:
        node.service_account = tpu_v2.ServiceAccount(email=order.service_account, scope=[_SCOPE])
    return node


def _metadata(order: CreateOrder) -> dict[str, str]:
    """With the start-up script the guest attributes are on, in which the guest agent tells the host keys."""
    if not order.startup_script:
        return {}
    return {"startup-script": order.startup_script, "enable-guest-attributes": "TRUE"}


def _network(order: CreateOrder) -> tpu_v2.NetworkConfig:
    return tpu_v2.NetworkConfig(
        network=order.network, subnetwork=order.subnetwork, enable_external_ips=order.external_ips
    )


def _duration(seconds: float) -> duration_pb2.Duration:
    duration = duration_pb2.Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration
