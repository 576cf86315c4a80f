"""Events as they come to a function's door, sent by a test, as many at once as it likes; again until they are taken."""

import base64
import itertools
import json
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from .deployment import Deployment

_DOCUMENT = {
    "ce-specversion": "1.0",
    "ce-type": "google.cloud.firestore.document.v1.written",
    "ce-time": "2026-01-01T00:00:00Z",
    "content-type": "application/protobuf",
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """One event's request."""

    path: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def written(deployment: Deployment, document: str) -> Request:
    """A change of one of the deployment's documents."""
    return document_change(f"projects/{deployment.cloud.project}/databases/tpufn-{deployment.name}", document)


def document_change(database: str, document: str) -> Request:
    """A document's change. Its body does not matter: nobody reads it."""
    source = f"//firestore.googleapis.com/{database}"
    own = {"ce-id": uuid.uuid4().hex, "ce-source": source, "ce-document": document}
    return Request(headers={**_DOCUMENT, **own, "ce-subject": f"documents/{document}"}, body=b"\x00")


def message(deployment: Deployment, topic: str, body: Mapping[str, Any]) -> Request:
    """A push of one of the deployment's messages."""
    return push(deployment.topic(topic), body)


def push(topic: str, body: Mapping[str, Any]) -> Request:
    """A push, as a subscription's own body; `topic` is the whole name."""
    coded, id = base64.b64encode(json.dumps(body).encode()).decode(), uuid.uuid4().hex
    sent = {"message": {"data": coded, "messageId": id, "publishTime": "2026-01-01T00:00:00Z"}, "subscription": "s"}
    headers = {"content-type": "application/json"}
    return Request(path=f"/{topic}", headers=headers, body=json.dumps(sent).encode())


def post(url: str, request: Request) -> int:
    """The status."""
    target = urllib.request.Request(url.rstrip("/") + request.path, request.body, dict(request.headers))
    try:
        with urllib.request.urlopen(target, timeout=120) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def deliver(urls: Sequence[str], requests: Iterable[Request], *, at_once: int = 50) -> Counter[int]:
    """All of them over the instances, each again until it is taken. How often which status was answered."""
    statuses: Counter[int] = Counter()

    def one(url: str, request: Request) -> None:
        deadline = time.monotonic() + 120
        while (status := post(url, request)) != 200:
            statuses[status] += 1
            assert time.monotonic() < deadline, f"{url} answers {status}"
            time.sleep(0.1)
        statuses[200] += 1

    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(one, url, each) for url, each in zip(itertools.cycle(urls), requests, strict=False)]:
            done.result()
    return statuses
