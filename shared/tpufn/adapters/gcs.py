"""Buckets in Cloud Storage. Every request has a time-out and a bounded retry with growing pauses (429 included).

Write-once is `if_generation_match=0`: the service decides. A put that is tried again after a lost answer finds its own
object and says False, as the worker's does: then nobody has won, which callers must survive anyway.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import BinaryIO

import requests
from google.api_core import exceptions
from google.cloud import storage  # type: ignore[attr-defined]  # the package has no types
from google.cloud.storage.retry import DEFAULT_RETRY  # type: ignore[import-untyped]  # the same

from tpufn.adapters.google_access import anonymous, told
from tpufn.domain.errors import CloudUnavailable
from tpufn.ports import Object

PATIENCE = 30.0
"""Seconds for which a request is tried again."""
FIRST_PAUSE = 1.0
"""One object takes one mutation a second: sooner is of no use after a 429."""
_TIMEOUT = (5.0, 20.0)  # to connect, and between two pieces of an answer
_CHUNK = 1 << 20  # of an upload; a multiple of 256 KiB, as the service asks
_FIELDS = "items(name,size,updated,generation),nextPageToken"


def connect(project: str, endpoint: str = "") -> storage.Client:
    """The client of the real service, or with an endpoint (http://host:port) of another one, without a login."""
    options = {"credentials": anonymous(), "client_options": {"api_endpoint": endpoint}} if endpoint else {}
    client = storage.Client(project=project, **options)
    client._bucket_metadata_cache = None  # else a thread asks for each bucket's metadata, for traces that nobody makes
    return client


class CloudBlobs:
    """Implements `Blobs`. `client` is made on the first call."""

    def __init__(
        self, client: Callable[[], storage.Client], *, patience: float = PATIENCE, first_pause: float = FIRST_PAUSE
    ) -> None:
        self._make_client = client
        retry = DEFAULT_RETRY.with_timeout(patience).with_delay(initial=first_pause, maximum=8.0, multiplier=2.0)
        self._bounds = {"timeout": _TIMEOUT, "retry": retry}
        self._regions: dict[str, str] = {}

    def region(self, bucket: str) -> str:
        """Of a multi-region its own name (`us`, `nam4`). A bucket never moves, so each is asked for once."""
        if bucket not in self._regions:
            with _talking(f"gs://{bucket}"):
                self._regions[bucket] = self._client.get_bucket(bucket, **self._bounds).location.lower()
        return self._regions[bucket]

    def put(self, bucket: str, key: str, data: bytes, *, once: bool = False) -> bool:
        with _talking(f"gs://{bucket}/{key}"):
            try:
                self._blob(bucket, key).upload_from_string(
                    data,
                    content_type="application/octet-stream",
                    if_generation_match=0 if once else None,
                    **self._bounds,
                )
            except exceptions.PreconditionFailed:
                return False
        return True

    def upload(self, bucket: str, key: str, path: str, *, progress: Callable[[int], None] | None = None) -> bool:
        """In pieces, each tried again by itself. An upload that is broken off leaves no object."""
        size = os.path.getsize(path)
        with _talking(f"gs://{bucket}/{key}"), open(path, "rb") as file:
            blob = self._blob(bucket, key)
            if blob.exists(**self._bounds):
                return False
            watched = _Watched(file, progress or _ignore)
            try:
                self._send(blob, watched, size)
            except exceptions.PreconditionFailed:
                return False
        watched.tell_all(size)
        return True

    def get(self, bucket: str, key: str, *, start: int = 0) -> bytes:
        with _talking(f"gs://{bucket}/{key}"):
            try:
                blob = self._blob(bucket, key)
                data: bytes = blob.download_as_bytes(start=start or None, raw_download=True, **self._bounds)
            except exceptions.RequestRangeNotSatisfiable:
                return b""
        return data

    def list(self, bucket: str, prefix: str) -> Sequence[Object]:
        with _talking(f"gs://{bucket}"):
            found = self._client.list_blobs(bucket, prefix=prefix, fields=_FIELDS, **self._bounds)
            return sorted(map(_object, found), key=lambda each: each.key)

    @cached_property
    def _client(self) -> storage.Client:
        return self._make_client()

    def _blob(self, bucket: str, key: str) -> storage.Blob:
        return self._client.bucket(bucket).blob(key)

    def _send(self, blob: storage.Blob, source: "_Watched", size: int) -> None:
        """A size that is not told makes a resumable upload; small files go in one request."""
        blob.chunk_size = _CHUNK
        blob.upload_from_file(
            source,
            size=size if size <= _CHUNK else None,
            content_type="application/octet-stream",
            if_generation_match=0,
            **self._bounds,
        )


class _Watched:
    """A file that tells how much of it was sent: whoever asks for the next piece has sent those before."""

    def __init__(self, file: BinaryIO, progress: Callable[[int], None]) -> None:
        self._file, self._progress, self._told = file, progress, 0

    def read(self, size: int = -1) -> bytes:
        if self._file.tell() > self._told:  # less, where a piece is sent again
            self._tell(self._file.tell())
        return self._file.read(size)

    def tell_all(self, size: int) -> None:
        """All of it was sent."""
        if size > self._told or not size:
            self._tell(size)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def _tell(self, sent: int) -> None:
        self._told = sent
        self._progress(sent)


def _ignore(_sent: int) -> None:
    """Nobody watches."""


def _object(blob: storage.Blob) -> Object:
    return Object(key=blob.name, size=blob.size, updated=blob.updated.timestamp(), generation=blob.generation)


@contextmanager
def _talking(what: str) -> Iterator[None]:
    """The client's errors as ours; `what` is the bucket or object that the call is about."""
    try:
        with told(what, role="roles/storage.objectUser on the bucket"):
            yield
    except requests.RequestException as error:
        raise CloudUnavailable(f"{what}: Cloud Storage cannot be reached: {error}") from error
