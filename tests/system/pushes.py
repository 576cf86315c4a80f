"""What stands between Pub/Sub and the functions: pushes as they come, or lost, doubled and late.

A push is answered with the function's own answer, so that a failure is delivered again; a lost one is answered with
success. The emulator applies no filters: functions get wakes that are not theirs, and ignore them.
"""

import base64
import http.client
import json
import random
import threading
import time
import urllib.parse
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Push:
    """One push to one function."""

    function: str
    topic: str  # its short name
    path: str  # as the function gets it
    body: bytes

    @property
    def message(self) -> Mapping[str, Any]:
        return dict(json.loads(self.body)["message"])

    @property
    def data(self) -> bytes:
        return base64.b64decode(self.message["data"])


Plan = Callable[[Push], Sequence[float]]
"""When its copies leave, in seconds from now: `[0]` is the good case, `[]` a lost one."""


def calm(push: Push) -> Sequence[float]:
    """Each once, at once."""
    return (0.0,)


class Chaos:
    """Chances per push, as `eventarc.Chaos` has them; only topics in `loses` lose any."""

    def __init__(
        self, seed: int, *, loses: Collection[str], drop: float, duplicate: float, late: float, window: float
    ) -> None:
        self._random, self._lock, self._loses = random.Random(seed), threading.Lock(), loses
        self._drop, self._duplicate, self._late, self._window = drop, duplicate, late, window

    def __call__(self, push: Push) -> Sequence[float]:
        with self._lock:
            lost = self._random.random() < self._drop and push.topic in self._loses
            copies = 2 if self._random.random() < self._duplicate else 1
            return () if lost else [self._delay() for _ in range(copies)]

    def _delay(self) -> float:
        return self._random.uniform(0.0, self._window) if self._random.random() < self._late else 0.0


@dataclass
class Pushes:
    """Use as a context manager. `plan` and `failing` may be changed at any time. `targets`: a function's port."""

    targets: Mapping[str, int]
    prefix: str
    plan: Plan = calm
    failing: str = ""  # a topic whose pushes reach nobody
    seen: list[Push] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def endpoint(self, function: str, topic: str) -> str:
        """Where a subscription pushes to: it ends as in production."""
        return f"http://127.0.0.1:{self._server.server_port}/{function}/{topic}"

    def deliver(self, path: str, body: bytes) -> int:
        """The status for Pub/Sub."""
        function, _, rest = path.strip("/").partition("/")
        topic = rest.rpartition("/topics/")[2].removeprefix(self.prefix)
        push = Push(function=function, topic=topic, path=f"/{urllib.parse.unquote(rest)}", body=body)
        self.seen.append(push)
        if topic == self.failing:
            return 503
        first, *others = sorted(self.plan(push)) or [-1.0]
        if first < 0:
            return 204
        for delay in others:
            threading.Timer(delay, self._send, (push,)).start()
        time.sleep(first)
        return self._send(push)

    def _send(self, push: Push) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.targets[push.function], timeout=300)
        try:
            connection.request("POST", push.path, push.body, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return 503
        finally:
            connection.close()
        return answer.status

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        deliver = self.deliver

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                status = deliver(self.path, self.rfile.read(int(self.headers["content-length"])))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing on the terminal."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512
