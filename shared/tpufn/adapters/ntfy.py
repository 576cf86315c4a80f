"""Messages over ntfy (https://docs.ntfy.sh/publish): one JSON POST each, bounded, and never a reason to stop anything.

Topics are public to whoever guesses their name on the public server; an own server takes an access token, from
`TOKEN@https://host`. The message's key goes along as the sequence id, so that a message that is sent twice shows once.
"""

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from tpufn.decide.notify import Message

TIMEOUT = 5.0
_MOST = 3000
"""Bytes of text: ntfy makes a file of a message above 4096 bytes."""

Post = Callable[[urllib.request.Request, float], None]


def _post(request: urllib.request.Request, timeout: float) -> None:
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        answer.read()


class Ntfy:
    """One topic of one server."""

    def __init__(self, topic: str, server: str = "https://ntfy.sh", *, post: Post = _post) -> None:
        token, at, host = server.rpartition("@")
        self._topic, self._url, self._token, self._post = topic, host.rstrip("/"), token if at else "", post

    def send(self, message: Message) -> str:
        """Send it; why that did not work, in words, "" where it did."""
        try:
            self._post(self._request(message), TIMEOUT)
        except (OSError, ValueError, urllib.error.URLError) as error:
            return f"ntfy at {self._url} did not take a message: {error}"
        return ""

    def _request(self, message: Message) -> urllib.request.Request:
        body: dict[str, Any] = {
            "topic": self._topic,
            "title": message.title,
            "message": message.text.encode()[:_MOST].decode("utf-8", "ignore") or message.title,
            "priority": message.urgency,
            "tags": [message.tag] if message.tag else [],
            "sequence_id": hashlib.sha256(message.key.encode()).hexdigest()[:32],
        }
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return urllib.request.Request(f"{self._url}/", json.dumps(body).encode(), headers, method="POST")
