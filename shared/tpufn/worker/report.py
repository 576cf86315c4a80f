"""What a worker tells: results as write-once objects first, then a message that only wakes and may get lost."""

from __future__ import annotations

import contextlib
import json
import os
import time

from .bucket import BucketError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping
    from typing import Any, Protocol

    from .bucket import Bucket
    from .protocol import Order

    class Publisher(Protocol):
        def send(self, topic: str, body: Mapping[str, Any]) -> None:
            """Never raises, never waits long."""

        def flush(self, timeout: float) -> None:
            """Wait for what is still on its way."""


class Reporter:
    """Writes one attempt's objects. What the bucket did not take is kept for `drain`."""

    def __init__(self, order: Order, bucket: Bucket, publisher: Publisher) -> None:
        self.order, self.bucket, self.publisher = order, bucket, publisher
        self.pending: dict[str, bytes] = {}

    def result(self, what: str, body: Mapping[str, Any]) -> None:
        """`status/worker-<i>.<what>.json`, once, then its message."""
        full = {"attempt": self.order.attempt, "worker": self.order.worker, **body}
        self.pending[what] = json.dumps(full).encode()
        self._try(what)

    def heartbeat(self, body: Mapping[str, Any]) -> None:
        with contextlib.suppress(BucketError):
            self.bucket.put(self._status("heartbeat"), json.dumps(body).encode())

    def diagnostics(self, text: str) -> None:
        key = f"{self.order.prefix}/diagnostics/worker-{self.order.worker}.txt"
        with contextlib.suppress(BucketError):
            self.bucket.put(key, text.encode("utf-8", "replace"))

    def notice(self) -> None:
        """The machine will be taken away."""
        lease = self.order.lease
        body = {"slot": lease.get("slot", ""), "generation": self.order.generation}
        self.publisher.send("preemptions", {**body, "attempt": self.order.attempt, "found": "notice"})

    def drain(self, timeout: float) -> None:
        """Try again what was not taken, for so many seconds."""
        deadline, pause = time.monotonic() + timeout, 0.5
        while self.pending and time.monotonic() < deadline:
            for what in list(self.pending):
                self._try(what)
            if self.pending:
                time.sleep(pause)
                pause = min(pause * 2, 15.0)

    def _try(self, what: str) -> None:
        try:
            self.bucket.put(self._status(what), self.pending[what], once=True)
        except BucketError:
            return
        del self.pending[what]
        body = {"attempt": self.order.attempt, "worker": self.order.worker, "what": what}
        self.publisher.send("worker-events", body)

    def _status(self, what: str) -> str:
        return f"{self.order.prefix}/status/worker-{self.order.worker}.{what}.json"


class NoPublisher:
    def send(self, topic: str, body: Mapping[str, Any]) -> None:
        """The bucket alone is enough."""

    def flush(self, timeout: float) -> None:
        """Nothing is on its way."""


class DatagramPublisher:
    """One datagram per message to a local socket; if nobody listens, it is lost."""

    def __init__(self, path: str) -> None:
        self.path = path

    def send(self, topic: str, body: Mapping[str, Any]) -> None:
        import socket

        data = json.dumps({"topic": topic, "body": body}).encode()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            with _short(self.path) as path:
                sender.sendto(data, path)

    def flush(self, timeout: float) -> None:
        """Nothing is on its way."""


@contextlib.contextmanager
def _short(path: str) -> Iterator[str]:
    """A socket's path may have some 100 bytes; on Linux its directory can be named by a descriptor."""
    if len(os.fsencode(path)) < 100:
        yield path
        return
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{directory}/{os.path.basename(path)}"
    finally:
        os.close(directory)


class PubsubPublisher:
    """Pub/Sub by REST, in a thread of its own: a slow answer holds up nothing."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        from .google import Session

        self.source, self.session = source, Session({"tries": 3, "timeout": 10.0, **source})
        self.endpoint = source.get("endpoint", "https://pubsub.googleapis.com")
        self._threads: list[threading.Thread] = []

    def send(self, topic: str, body: Mapping[str, Any]) -> None:
        import base64
        import threading

        data = base64.b64encode(json.dumps(body).encode()).decode()
        name = "projects/{}/topics/{}{}".format(self.source["project"], self.source.get("prefix", ""), topic)
        message = json.dumps({"messages": [{"data": data}]}).encode()
        thread = threading.Thread(target=self._post, args=(name, message), daemon=True)
        thread.start()
        self._threads = [*(each for each in self._threads if each.is_alive()), thread]

    def flush(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _post(self, topic: str, message: bytes) -> None:
        from .google import HttpError

        with contextlib.suppress(HttpError):
            self.session.call("POST", f"{self.endpoint}/v1/{topic}:publish", message, "application/json")


def open_publisher(source: Mapping[str, Any]) -> Publisher:
    """{"kind": "datagram", "path"}, {"kind": "pubsub", "project", "prefix"?, "endpoint"?, "token_url"?} or none."""
    kind = source.get("kind", "none")
    if kind == "datagram":
        return DatagramPublisher(source["path"])
    return PubsubPublisher(source) if kind == "pubsub" else NoPublisher()
