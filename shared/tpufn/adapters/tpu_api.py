"""TPUs through the Cloud TPU API (v2): a queued resource with one node, both of the order's name.

The client sets no time-out and no retry by itself, so each call here gets both, and a call of the port ends after
`BUDGET` seconds, however many calls it makes. Only a create waits for its operation, for what is left of the budget: a
stockout shows at once that way. All other progress is read from the resources.

Newer TPU generations come only through Compute Engine. An implementation for them fits the same port beside this one:
an order becomes a managed instance group with a workload policy (or a flex-start resize request), `Tpu.request` tells
where that request stands (WAITING_FOR_RESOURCES until instances are granted, FAILED with the error's own code and
words), `Tpu.node` is the group's state (READY when every instance runs, PREEMPTED once one was reclaimed), and workers
are its instances by number. Labels, names and zones are the same. A cloud of both routes `create` by the order's type,
asks both in `get` and `delete`, and joins their lists; nothing outside of the adapters can tell them apart.
"""

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]  # the package has no types
from google.api_core.exceptions import ServiceUnavailable
from google.api_core.retry import Retry, if_exception_type
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport
from google.longrunning import operations_pb2  # type: ignore[import-untyped]  # the package has no types

from tpufn.adapters.tpu_api_errors import CAUSES, NOT_FOUND, meaning, refused_by
from tpufn.adapters.tpu_api_request import create_request, location
from tpufn.adapters.tpu_api_view import merged, view
from tpufn.domain.cloud import CreateOrder, Tpu
from tpufn.domain.errors import Refused, Unknown
from tpufn.ports import Clock

BUDGET = 30.0
"""Seconds that one call of the port may take."""
ATTEMPT = 10.0
"""Seconds that one try of one call of the API may take."""
PAGE = 100
_FIRST_PAUSE, _LAST_PAUSE = 0.25, 4.0
_EMPTY = "Unexpected state: Long-running operation had neither response nor error set."
_IS_DELETING = re.compile(r"not supported (?:when|while in) state (?:is )?DELETING")

T = TypeVar("T")


def connect(endpoint: str = "") -> tpu_v2.TpuClient:
    """The client of the real service, or with an endpoint (host:port, no encryption) of a simulated one."""
    if not endpoint:
        return tpu_v2.TpuClient()
    return tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=grpc.insecure_channel(endpoint)))


class CloudTpu:
    """Implements `TpuCloud`. `client` is made on the first call, so that importing and forking cost nothing."""

    def __init__(
        self,
        project: str,
        *,
        clock: Clock,
        client: Callable[[], tpu_v2.TpuClient] = connect,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._project, self._clock, self._new_id = project, clock, new_id
        self._make_client = client

    def create(self, order: CreateOrder) -> None:
        until, what = self._until(), f"create {order.name} in {order.zone}"
        request = create_request(order, self._project)
        started = self._call(self._client.create_queued_resource, request, until, what)
        self._await(started.operation, until, what)

    def get(self, name: str, zone: str) -> Tpu | None:
        until, what, parent = self._until(), f"get {name} in {zone}", location(self._project, zone)
        queued = self._found(
            self._client.get_queued_resource,
            tpu_v2.GetQueuedResourceRequest(name=f"{parent}/queuedResources/{name}"),
            until,
            what,
        )
        node = self._found(self._client.get_node, tpu_v2.GetNodeRequest(name=f"{parent}/nodes/{name}"), until, what)
        return view(name, zone, queued, node) if queued is not None or node is not None else None

    def list(self, zone: str) -> Sequence[Tpu]:
        until, what, parent = self._until(), f"list {zone}", location(self._project, zone)
        asked = tpu_v2.ListQueuedResourcesRequest(parent=parent, page_size=PAGE)
        built = tpu_v2.ListNodesRequest(parent=parent, page_size=PAGE)
        requests = self._pages(self._client.list_queued_resources, asked, until, what)
        nodes = self._pages(self._client.list_nodes, built, until, what)
        return merged(
            zone,
            (each for page in requests for each in page.queued_resources),
            (each for page in nodes for each in page.nodes),
        )

    def delete(self, name: str, zone: str) -> None:
        """The queued resource, with force: that takes its node along. A node without one is deleted by itself."""
        until, what, parent = self._until(), f"delete {name} in {zone}", location(self._project, zone)
        queued = tpu_v2.DeleteQueuedResourceRequest(
            name=f"{parent}/queuedResources/{name}", force=True, request_id=self._new_id()
        )
        if self._deletes(self._client.delete_queued_resource, queued, until, what):
            return
        node = tpu_v2.DeleteNodeRequest(name=f"{parent}/nodes/{name}")
        if not self._deletes(self._client.delete_node, node, until, what):
            raise Refused(min(NOT_FOUND), f"Resource '{queued.name}' was not found, nor a node of that name")

    @cached_property
    def _client(self) -> tpu_v2.TpuClient:
        try:
            return self._make_client()
        except CAUSES as error:
            raise meaning(error, "Cloud TPU API") from error

    def _until(self) -> float:
        return self._clock.now() + BUDGET

    def _call(self, method: Callable[..., T], request: object, until: float, what: str) -> T:
        """One call of the API within what is left of the budget. A connection that cannot be made is tried again."""
        left = until - self._clock.now()
        if left <= 0:
            raise Unknown(f"{what}: no answer within {BUDGET:g} s")
        retry = Retry(predicate=if_exception_type(ServiceUnavailable), initial=0.2, maximum=2.0, timeout=left)
        try:
            return method(request=request, timeout=min(ATTEMPT, left), retry=retry)
        except CAUSES as error:
            raise meaning(error, what) from error

    def _found(self, method: Callable[..., T], request: object, until: float, what: str) -> T | None:
        """One half of a TPU; None only if the API says not found."""
        try:
            return self._call(method, request, until, what)
        except Refused as error:
            if error.code in NOT_FOUND:
                return None
            raise

    def _deletes(self, method: Callable[..., object], request: object, until: float, what: str) -> bool:
        """Whether it is being deleted now; False if there is nothing."""
        try:
            return self._call(method, request, until, what) is not None
        except Refused as error:
            if error.code in NOT_FOUND:
                return False
            if _IS_DELETING.search(error.text):
                return True
            raise

    def _pages(self, method: Callable[..., Any], request: Any, until: float, what: str) -> Iterator[Any]:
        """A listing, page by page, each within what is left of the budget: the client's own paging would not end."""
        while True:
            page = self._call(method, request, until, what)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def _await(self, operation: operations_pb2.Operation, until: float, what: str) -> None:
        """Wait for a create's operation. It was accepted: from here on only the operation's own error says no."""
        pause = _FIRST_PAUSE
        while not operation.done:
            left = until - self._clock.now()
            if left <= pause:
                return
            self._clock.sleep(pause)
            pause = min(_LAST_PAUSE, pause * 2)
            request = operations_pb2.GetOperationRequest(name=operation.name)
            try:
                operation = self._call(self._client.get_operation, request, until, what)
            except (Refused, Unknown):
                return
        self._judge(operation, what)

    def _judge(self, operation: operations_pb2.Operation, what: str) -> None:
        match operation.WhichOneof("result"):
            case "error":
                raise refused_by(operation.error)
            case None:
                raise Unknown(f"{what}: {_EMPTY}")
