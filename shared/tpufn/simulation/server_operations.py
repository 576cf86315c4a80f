"""Long-running operations: how the API says later what became of a create or a delete.

An operation is done `delay` seconds after it began. Its end is found once, when somebody first asks after that moment.
"""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from google.cloud import tpu_v2
from google.longrunning import operations_pb2  # type: ignore[import-untyped]  # the package has no types
from google.rpc import status_pb2  # type: ignore[import-untyped]  # the package has no types

from tpufn.ports import Clock
from tpufn.simulation.server_wire import moment

End = object
"""A response (`QueuedResource`, `Empty`), an error (`Status`), or None, which is neither: that has been seen, too."""


@dataclass
class _Running:
    message: operations_pb2.Operation
    due: float
    end: Callable[[], End] = field(repr=False)


class Operations:
    """All operations of a server, by their full names."""

    def __init__(self, clock: Clock, delay: float = 0.0) -> None:
        self._clock, self.delay = clock, delay
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}
        self._by_request: dict[str, str] = {}

    def start(
        self, parent: str, target: str, verb: str, end: Callable[[], End], *, request_id: str = ""
    ) -> operations_pb2.Operation:
        """Begin one. With a request id that was seen before: the one that began then, in its present state."""
        with self._lock:
            if request_id in self._by_request:
                return self._looked_at(self._by_request[request_id])
            name = f"{parent}/operations/operation-{uuid.uuid4().hex}"
            message = operations_pb2.Operation(name=name)
            message.metadata.Pack(self._metadata(target, verb))
            self._running[name] = _Running(message, self._clock.now() + self.delay, end)
            if request_id:
                self._by_request[request_id] = name
            return message

    def get(self, name: str) -> operations_pb2.Operation | None:
        with self._lock:
            return self._looked_at(name) if name in self._running else None

    def _looked_at(self, name: str) -> operations_pb2.Operation:
        running = self._running[name]
        if not running.message.done and self._clock.now() >= running.due:
            _finish(running.message, running.end())
        return running.message

    def _metadata(self, target: str, verb: str) -> object:
        metadata = tpu_v2.OperationMetadata(
            create_time=moment(self._clock.now()), target=target, verb=verb, api_version="v2"
        )
        return tpu_v2.OperationMetadata.pb(metadata)


def _finish(message: operations_pb2.Operation, end: End) -> None:
    message.done = True
    if isinstance(end, status_pb2.Status):
        message.error.CopyFrom(end)
    elif isinstance(end, tpu_v2.QueuedResource):
        message.response.Pack(tpu_v2.QueuedResource.pb(end))
    elif end is not None:
        message.response.Pack(end)
