"""HTTP to Google's services with the machine's own identity: bounded, retried, and no library needed."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.error
import urllib.request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, BinaryIO

METADATA = "http://metadata.google.internal/computeMetadata/v1"
TOKEN_URL = METADATA + "/instance/service-accounts/default/token"
FLAVOR = {"Metadata-Flavor": "Google"}
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})


class HttpError(Exception):
    """An answer that is not a success, or none at all (status 0)."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(f"HTTP {status}: {text}")


class Session:
    """Calls with a token from the metadata server, which is fetched anew a minute before it ends.

    With an empty `token_url` without one: a server of tests asks for none.
    """

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.token_url = str(source.get("token_url", TOKEN_URL))
        self.tries = int(source.get("tries", 4))
        self.backoff = float(source.get("backoff", 0.5))
        self.timeout = float(source.get("timeout", 10.0))
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0

    def call(self, method: str, url: str, data: bytes | None = None, type: str = "application/octet-stream") -> bytes:
        """The answer's body. Raises HttpError after the last try, or at once where trying again is no use."""
        for attempt in range(self.tries):
            try:
                with self.open(method, url, data, type) as answer:
                    return answer.read()
            except HttpError as error:
                if attempt + 1 == self.tries or error.status not in _RETRIED | {0}:
                    raise
                time.sleep(self._pause(attempt, error.status))
        raise HttpError(0, "not tried: " + url)

    def open(self, method: str, url: str, data: bytes | None = None, type: str = "") -> BinaryIO:
        """One try; the answer as a stream."""
        headers = {"Authorization": "Bearer " + self.token()} if self.token_url else {}
        if data is not None:
            headers["Content-Type"] = type
        return _open(urllib.request.Request(url, data=data, headers=headers, method=method), self.timeout)

    def token(self) -> str:
        with self._lock:
            if time.monotonic() >= self._until:
                request = urllib.request.Request(self.token_url, headers=FLAVOR)
                with _open(request, self.timeout) as answer:
                    body = json.loads(answer.read())
                self._token = str(body["access_token"])
                self._until = time.monotonic() + float(body.get("expires_in", 300)) - 60.0
            return self._token

    def _pause(self, attempt: int, status: int) -> float:
        least = 1.0 if status == 429 else 0.0
        return float(max(least * self.backoff * 2, self.backoff * 2**attempt) * (0.5 + random.random()))


def _open(request: urllib.request.Request, timeout: float) -> BinaryIO:
    try:
        answer: BinaryIO = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            raise HttpError(error.code, error.read(500).decode("utf-8", "replace")) from None
    except (OSError, ValueError) as error:
        raise HttpError(0, str(error)) from None
    return answer


def read_secret(session: Session, source: Mapping[str, Any], name: str) -> str:
    """A secret's value from Secret Manager; `name` is `secret` or `secret@version`. Raises HttpError."""
    import base64

    secret, _, version = name.partition("@")
    endpoint = source.get("endpoint", "https://secretmanager.googleapis.com")
    path = "/v1/projects/{}/secrets/{}/versions/{}:access".format(source["project"], secret, version or "latest")
    body = json.loads(session.call("GET", endpoint + path))
    return base64.b64decode(body["payload"]["data"]).decode("utf-8", "surrogateescape")
