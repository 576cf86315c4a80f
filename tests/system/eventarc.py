"""What stands between Firestore and the functions: document events, delivered as Eventarc does, or worse.

The Firestore emulator calls its triggers once each, in order, one after the other, and forgets those that fail; its
calls are also slightly wrong (the body is base64 text, `projects/` stands twice in the source). Production delivers at
least once, in any order, again with a growing pause until it is answered with 2xx. This stands at the emulator's
triggers port, answers at once, repairs the events, and delivers them over threads of its own.

A *plan* says for each event when its copies leave, in seconds from now: `[0]` is the good case, `[]` a lost event,
`[0, 0.2]` a double one, `[0.5]` one that others overtake.
"""

import base64
import http.client
import random
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Self

from ..emulators import FirestoreEmulator

WRITTEN = "google.cloud.firestore.document.v1.written"


@dataclass(frozen=True, kw_only=True)
class DocumentEvent:
    """One event of one trigger, as production would send it."""

    trigger: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["ce-id"]

    @property
    def document(self) -> str:
        return self.headers["ce-document"]


Plan = Callable[[DocumentEvent], Sequence[float]]


def calm(event: DocumentEvent) -> Sequence[float]:
    """Each event once, at once."""
    return (0.0,)


class Chaos:
    """Chances per event: lost, doubled, and late by up to `window` seconds, so that others overtake it."""

    def __init__(
        self, seed: int, *, drop: float = 0.0, duplicate: float = 0.0, late: float = 0.0, window: float = 0.5
    ) -> None:
        self._random, self._lock = random.Random(seed), threading.Lock()
        self._drop, self._duplicate, self._late, self._window = drop, duplicate, late, window

    def __call__(self, event: DocumentEvent) -> Sequence[float]:
        with self._lock:
            if self._random.random() < self._drop:
                return ()
            copies = 2 if self._random.random() < self._duplicate else 1
            return [self._delay() for _ in range(copies)]

    def _delay(self) -> float:
        return self._random.uniform(0.0, self._window) if self._random.random() < self._late else 0.0


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One try to deliver. `status` is HTTP's; 0 where there was no answer."""

    event: DocumentEvent
    attempt: int
    status: int = 0
    at: float = field(default_factory=time.monotonic)

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """The pause doubles up to `most`. Production's are 10 s and 600 s, for 24 hours
    (https://cloud.google.com/eventarc/docs/retry-events)."""

    first: float = 0.1
    most: float = 5.0
    tries: int = 50

    def pause(self, attempt: int) -> float:
        return float(min(self.first * 2 ** (attempt - 1), self.most))


class TriggersServer(ThreadingHTTPServer):
    """Listens at a port that is kept for it."""

    allow_reuse_port = True


class Eventarc:
    """Use as a context manager. `connect` makes triggers; `plan` may be changed at any time."""

    def __init__(
        self,
        emulator: FirestoreEmulator,
        *,
        plan: Plan = calm,
        backoff: Backoff = Backoff(),  # frozen
        concurrency: int = 16,
        timeout: float = 600.0,
    ) -> None:
        self.plan = plan
        self.deliveries: list[Delivery] = []
        self.received: list[DocumentEvent] = []
        self.lost: list[Delivery] = []
        self._emulator, self._backoff, self._timeout = emulator, backoff, timeout
        self._urls: dict[str, str] = {}
        self._due: list[tuple[float, int, Delivery]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._in_hand, self._stopping = 0, False
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="eventarc")
        self._server = TriggersServer(("127.0.0.1", emulator.triggers_port), self._handler())
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._serve, self._dispatch)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._pool.shutdown(cancel_futures=True)

    def connect(self, name: str, url: str, *, database: str, document: str, event_type: str = WRITTEN) -> None:
        """A trigger: changes of documents that match the pattern go to the function at `url`."""
        trigger = f"{database}-{name}"
        self._urls[trigger] = url
        self._emulator.watch(trigger, database=database, document=document, event_type=event_type)

    def wait_quiet(self, timeout: float = 30.0) -> bool:
        """Until everything that has come in is delivered or given up. False if it takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._due and not self._in_hand, timeout)

    def wait_for(self, condition: Callable[[], bool], timeout: float = 30.0) -> bool:
        """Until a condition on what came in or was delivered holds. False if it takes longer."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def statuses(self) -> Counter[int]:
        """How often which answer was given."""
        return Counter(delivery.status for delivery in self.deliveries)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receive = self._receive

        class Handler(BaseHTTPRequestHandler):
            """The emulator's calls: POST /functions/projects/P/triggers/TRIGGER."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receive(self.path.rpartition("/")[2], dict(self.headers.items()), body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing on the terminal."""

        return Handler

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def _receive(self, trigger: str, headers: Mapping[str, str], body: bytes) -> None:
        """Triggers of earlier tests go on for ever: nobody asked for theirs here."""
        trigger = urllib.parse.unquote(trigger)
        if trigger not in self._urls:
            return
        event = repaired(trigger, headers, body)
        with self._changed:
            self.received.append(event)
            for delay in self.plan(event):
                self._later(Delivery(event=event, attempt=1), delay)
            self._changed.notify_all()

    def _later(self, delivery: Delivery, delay: float) -> None:
        heappush(self._due, (time.monotonic() + delay, next(self._numbers), delivery))
        self._changed.notify_all()

    def _dispatch(self) -> None:
        """Hands over what is due to the pool, in the order of time."""
        with self._changed:
            while not self._stopping:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                self._in_hand += 1
                self._pool.submit(self._deliver, heappop(self._due)[2])

    def _deliver(self, delivery: Delivery) -> None:
        event = delivery.event
        done = replace(delivery, status=post(self._urls[event.trigger], event, self._timeout), at=time.monotonic())
        with self._changed:
            self._in_hand -= 1
            self.deliveries.append(done)
            if not done.succeeded:
                self._again(done)
            self._changed.notify_all()

    def _again(self, failed: Delivery) -> None:
        if failed.attempt >= self._backoff.tries:
            self.lost.append(failed)
            return
        self._later(replace(failed, attempt=failed.attempt + 1, status=0), self._backoff.pause(failed.attempt))


def repaired(trigger: str, headers: Mapping[str, str], body: bytes) -> DocumentEvent:
    """The emulator's call as production's event."""
    own = {name.lower(): value for name, value in headers.items() if name.lower().startswith("ce-")}
    own["ce-source"] = own["ce-source"].replace("/projects/projects/", "/projects/")
    own["content-type"] = "application/protobuf"
    return DocumentEvent(trigger=trigger, headers=own, body=base64.b64decode(body))


def post(url: str, event: DocumentEvent, timeout: float) -> int:
    """The status, or 0 where no function answered."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    try:
        connection.request("POST", parts.path or "/", event.body, dict(event.headers))
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
