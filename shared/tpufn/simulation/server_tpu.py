"""The services google.cloud.tpu.v2.Tpu and google.longrunning.Operations, answered by the simulated cloud.

One queued resource has exactly one node of the same name. A time-out that the cloud simulates is answered at once, as
the status that the client would make of it after its deadline.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc  # type: ignore[import-untyped]  # the package has no types
from google.cloud import tpu_v2
from google.longrunning import operations_pb2  # type: ignore[import-untyped]  # the package has no types
from google.protobuf import empty_pb2  # type: ignore[import-untyped]  # the package has no types
from grpc_status import rpc_status  # type: ignore[import-untyped]  # the package has no types

from tpufn.domain.errors import Refused, Unknown
from tpufn.ports import Clock
from tpufn.simulation.cloud import SimulatedCloud
from tpufn.simulation.life import UNFORCED_DELETE
from tpufn.simulation.resource import Resource
from tpufn.simulation.server_errors import is_of_operation, status_of
from tpufn.simulation.server_operations import End, Operations
from tpufn.simulation.server_wire import node_message, order_of, parent_of, queued_message, zone_of
from tpufn.simulation.texts import EMPTY_OPERATION, permission_on, refusal

PAGE = 100
"""Entries of a page, unless the request asks for fewer."""
_CALLS_KEPT = 10_000
_FOR_EVER = 86_400.0
"""A deadline that is further away than this (seconds) is none."""


@dataclass(frozen=True)
class Heard:
    """A call that came in, with the seconds that its caller gives it; None: it would wait for ever."""

    method: str
    deadline: float | None


@dataclass
class _Said:
    method: str
    answer: Refused
    times: int


class TpuService:
    """The methods, by the API's own names. `calls` is what came in, the newest last."""

    def __init__(self, cloud: SimulatedCloud, clock: Clock, *, project: str, page: int = PAGE) -> None:
        self.cloud, self.project, self.page = cloud, project, page
        self.operations = Operations(clock)
        self.metadata: dict[str, dict[str, str]] = {}  # of nodes whose metadata was changed, by the resource's key
        self.calls: deque[Heard] = deque(maxlen=_CALLS_KEPT)
        self._said: list[_Said] = []
        self._lock = threading.Lock()

    def say(self, method: str, code: int, text: str, *, times: int = 1) -> None:
        """Answer the next calls of a method with this, whatever the cloud would say. `code`: gRPC or HTTP."""
        with self._lock:
            self._said.append(_Said(method, Refused(code, text), times))

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """What a gRPC server needs to serve both services."""
        tpu = {name: self._handler(name, getattr(tpu_v2, f"{name}Request")) for name in _METHODS}
        operations = {"GetOperation": self._handler("GetOperation", operations_pb2.GetOperationRequest)}
        return (
            grpc.method_handlers_generic_handler("google.cloud.tpu.v2.Tpu", tpu),
            grpc.method_handlers_generic_handler("google.longrunning.Operations", operations),
        )

    # Queued resources

    def create_queued_resource(self, request: tpu_v2.CreateQueuedResourceRequest) -> operations_pb2.Operation:
        self._check(request.parent, "create")
        _check_spec(request)
        order, target = order_of(request), f"{request.parent}/queuedResources/{request.queued_resource_id}"
        try:
            self.cloud.create(order)
        except Refused as refused:
            if not is_of_operation(refused):
                raise
            return self.operations.start(request.parent, target, "create", _ends_with(status_of(refused)))
        except Unknown as unknown:
            if str(unknown) != EMPTY_OPERATION:
                raise
            return self.operations.start(request.parent, target, "create", _ends_with(None))
        end = self._created(order.zone, order.name)
        return self.operations.start(request.parent, target, "create", end, request_id=request.request_id)

    def get_queued_resource(self, request: tpu_v2.GetQueuedResourceRequest) -> tpu_v2.QueuedResource:
        resource = self._get(request.name)
        if resource is None or resource.request is None:
            raise _missing(request.name)
        return queued_message(resource, self.project)

    def list_queued_resources(self, request: tpu_v2.ListQueuedResourcesRequest) -> tpu_v2.ListQueuedResourcesResponse:
        there = [each for each in self._list(request.parent) if each.request is not None]
        page, token = self._page(there, request.page_size, request.page_token)
        messages = [queued_message(each, self.project) for each in page]
        return tpu_v2.ListQueuedResourcesResponse(queued_resources=messages, next_page_token=token)

    def delete_queued_resource(self, request: tpu_v2.DeleteQueuedResourceRequest) -> operations_pb2.Operation:
        zone, name = self._check(request.name, "delete"), _last(request.name)
        resource = self._look(zone, name)
        if resource is not None and not resource.queued:
            raise _missing(request.name)
        if resource is not None and not request.force and resource.request not in UNFORCED_DELETE:
            raise refusal("delete-refused", key=request.name, state=resource.request)
        self.cloud.delete(name, zone)
        return self._deleting(request.name)

    # Nodes

    def get_node(self, request: tpu_v2.GetNodeRequest) -> tpu_v2.Node:
        resource = self._get(request.name)
        if resource is None or resource.node is None:
            raise _missing(request.name)
        return self._node(resource)

    def list_nodes(self, request: tpu_v2.ListNodesRequest) -> tpu_v2.ListNodesResponse:
        there = [each for each in self._list(request.parent) if each.node is not None]
        page, token = self._page(there, request.page_size, request.page_token)
        return tpu_v2.ListNodesResponse(nodes=[self._node(e) for e in page], next_page_token=token)

    def delete_node(self, request: tpu_v2.DeleteNodeRequest) -> operations_pb2.Operation:
        """A node without a queued resource. One that has one goes with it."""
        zone, name = self._check(request.name, "delete"), _last(request.name)
        resource = self._look(zone, name)
        if resource is None or resource.node is None:
            raise _missing(request.name)
        if resource.queued:
            raise Refused(9, f"The node belongs to the queued resource {name}: delete that, with force.")
        self.cloud.delete(name, zone)
        return self._deleting(request.name)

    def update_node(self, request: tpu_v2.UpdateNodeRequest) -> operations_pb2.Operation:
        """Only the metadata can be changed here; the real API also takes tags, labels and more."""
        zone, name = self._check(request.node.name, "update"), _last(request.node.name)
        if list(request.update_mask.paths) != ["metadata"]:
            raise Refused(3, f"This simulation changes a node's metadata only, not {list(request.update_mask.paths)}.")
        resource = self._look(zone, name)
        if resource is None or resource.node is None:
            raise _missing(request.node.name)
        self.metadata[resource.key] = dict(request.node.metadata)
        return self.operations.start(
            parent_of(self.project, zone), request.node.name, "update", _ends_with(self._node(resource))
        )

    def _node(self, resource: Resource) -> tpu_v2.Node:
        node = node_message(resource, self.project)
        node.metadata = self.metadata.get(resource.key, dict(node.metadata))
        return node

    # Operations

    def get_operation(self, request: operations_pb2.GetOperationRequest) -> operations_pb2.Operation:
        self._check(request.name, "get")
        operation = self.operations.get(request.name)
        if operation is None:
            raise _missing(request.name)
        return operation

    # Inside

    def _handler(self, method: str, request_type: Any) -> grpc.RpcMethodHandler:
        answer: Callable[[Any], Any] = getattr(self, _METHODS.get(method, "get_operation"))

        def call(request: Any, context: grpc.ServicerContext) -> Any:
            left = context.time_remaining()
            self.calls.append(Heard(method, left if left < _FOR_EVER else None))
            try:
                self._speak(method)
                return answer(request)
            except Refused as refused:
                _abort(context, refused)
            except Unknown:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

        return grpc.unary_unary_rpc_method_handler(
            call, request_deserializer=_decoder(request_type), response_serializer=_encode
        )

    def _speak(self, method: str) -> None:
        with self._lock:
            said = next((each for each in self._said if each.method == method), None)
            if said is None:
                return
            said.times -= 1
            if said.times <= 0:
                self._said.remove(said)
        raise said.answer

    def _check(self, name: str, call: str) -> str:
        """The zone of a full name. Somebody else's project is not ours to look at."""
        parts = name.split("/")
        if len(parts) < 4 or (parts[0], parts[2]) != ("projects", "locations"):
            raise Refused(3, f"Invalid resource name: {name!r}")
        if parts[1] != self.project:
            permission, resource = permission_on(call, project=parts[1], zone=parts[3], name=_last(name))
            raise refusal("permission", permission=permission, resource=resource)
        return zone_of(name)

    def _get(self, name: str) -> Resource | None:
        zone = self._check(name, "get")
        return self._look(zone, _last(name)) if self.cloud.get(_last(name), zone) else None

    def _list(self, parent: str) -> Sequence[Resource]:
        zone = self._check(parent, "list")
        names = {tpu.name for tpu in self.cloud.list(zone)}
        return [each for each in self.cloud.snapshot().resources if each.zone == zone and each.name in names]

    def _look(self, zone: str, name: str) -> Resource | None:
        """What there is, without making a call of it."""
        there = self.cloud.snapshot().resources
        return next((r for r in there if (r.zone, r.name) == (zone, name) and r.is_visible), None)

    def _page(self, there: Sequence[Resource], size: int, token: str) -> tuple[Sequence[Resource], str]:
        """One page in the order of names; the token is the last name of the page before."""
        limit = min(size or self.page, self.page)
        rest = sorted((each for each in there if each.name > token), key=lambda each: each.name)
        return rest[:limit], rest[limit - 1].name if len(rest) > limit else ""

    def _created(self, zone: str, name: str) -> Callable[[], End]:
        def end() -> End:
            resource = self._look(zone, name)
            return queued_message(resource, self.project) if resource else _missing_status(self.project, zone, name)

        return end

    def _deleting(self, name: str) -> operations_pb2.Operation:
        parent = parent_of(self.project, zone_of(name))
        return self.operations.start(parent, name, "delete", _ends_with(empty_pb2.Empty()))


_METHODS: Mapping[str, str] = {
    "CreateQueuedResource": "create_queued_resource",
    "GetQueuedResource": "get_queued_resource",
    "ListQueuedResources": "list_queued_resources",
    "DeleteQueuedResource": "delete_queued_resource",
    "GetNode": "get_node",
    "ListNodes": "list_nodes",
    "DeleteNode": "delete_node",
    "UpdateNode": "update_node",
}


def _check_spec(request: tpu_v2.CreateQueuedResourceRequest) -> None:
    specs = request.queued_resource.tpu.node_spec
    if len(specs) != 1 or specs[0].node_id != request.queued_resource_id or specs[0].parent != request.parent:
        raise Refused(3, "This simulation serves one node per queued resource, in its zone and of the same name.")


def _ends_with(end: End) -> Callable[[], End]:
    return lambda: end


def _missing(name: str) -> Refused:
    return refusal("missing", key=name, resource=name)


def _missing_status(project: str, zone: str, name: str) -> Any:
    return status_of(_missing(f"{parent_of(project, zone)}/queuedResources/{name}"))


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _abort(context: grpc.ServicerContext, refused: Refused) -> NoReturn:
    context.abort_with_status(rpc_status.to_status(status_of(refused)))
    raise AssertionError("abort raises")


def _decoder(request_type: Any) -> Callable[[bytes], Any]:
    decode: Callable[[bytes], Any] = getattr(request_type, "deserialize", None) or request_type.FromString
    return decode


def _encode(message: Any) -> bytes:
    kind = type(message)
    encoded: bytes = kind.serialize(message) if hasattr(kind, "serialize") else message.SerializeToString()
    return encoded
