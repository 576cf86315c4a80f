"""A bucket in Cloud Storage, by its JSON interface."""

from __future__ import annotations

import urllib.parse

from .bucket import BucketError
from .google import HttpError, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_CHUNK = 1 << 20


class CloudBucket:
    """Write-once is `ifGenerationMatch=0`. A put tried again after a lost answer finds its own object: False.

    An object takes one write a second (https://cloud.google.com/storage/quotas#objects), else it answers 429.
    """

    poll, interval, rewrite = 1.0, 1.0, 1.0

    def __init__(self, source: Mapping[str, Any], session: Session | None = None) -> None:
        self.source, self.name = source, str(source["bucket"])
        self.endpoint = str(source.get("endpoint", "https://storage.googleapis.com"))
        self.session = session or Session(source)
        self.poll = float(source.get("poll", self.poll))
        self.interval = float(source.get("interval", self.interval))
        self.rewrite = float(source.get("rewrite", self.rewrite))

    def url(self, key: str = "") -> str:
        return f"gs://{self.name}/{key}" if key else f"gs://{self.name}"

    def put(self, key: str, data: bytes, *, once: bool = False) -> bool:
        query = {"uploadType": "media", "name": key}
        if once:
            query["ifGenerationMatch"] = "0"
        url = f"{self.endpoint}/upload/storage/v1/b/{self.name}/o?{urllib.parse.urlencode(query)}"
        try:
            self.session.call("POST", url, data)
        except HttpError as error:
            if once and error.status == 412:
                return False
            raise self._failure(key, error) from error
        return True

    def exists(self, key: str) -> bool:
        try:
            self.session.call("GET", self._object(key) + "?fields=generation")
        except HttpError as error:
            if error.status == 404:
                return False
            raise self._failure(key, error) from error
        return True

    def download(self, key: str, path: str, check: Callable[[], None]) -> None:
        for attempt in range(self.session.tries):
            try:
                return self._stream(key, path, check)
            except (HttpError, OSError) as error:
                is_final = isinstance(error, HttpError) and error.status in (400, 401, 403, 404)
                if is_final or attempt + 1 == self.session.tries:
                    raise self._failure(key, error) from error
        return None

    def sibling(self, name: str) -> CloudBucket:
        return CloudBucket({**self.source, "bucket": name}, self.session)

    def make_prefix(self, prefix: str) -> None:
        """Cloud Storage has no directories."""

    def _stream(self, key: str, path: str, check: Callable[[], None]) -> None:
        with self.session.open("GET", self._object(key) + "?alt=media") as answer, open(path, "wb") as file:
            while True:
                check()
                chunk = answer.read(_CHUNK)
                if not chunk:
                    return
                file.write(chunk)

    def _object(self, key: str) -> str:
        return "{}/storage/v1/b/{}/o/{}".format(self.endpoint, self.name, urllib.parse.quote(key, safe=""))

    def _failure(self, key: str, error: Exception) -> BucketError:
        return BucketError(f"{self.url(key)}: {error}")
