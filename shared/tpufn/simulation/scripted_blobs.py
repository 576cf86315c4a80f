"""Buckets in memory: the port `Blobs` with update times from the clock.

`catch_up` lets whoever writes by a script come to the clock's now first, so that everybody else finds what a bucket
would have by now; `on_put` is told each new object.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpufn.domain.errors import NotFound
from tpufn.ports import Clock, Object


@dataclass(frozen=True)
class _Stored:
    data: bytes
    updated: float
    generation: int


class MemoryBlobs:
    """`region_of` knows the buckets there are: a mapping, or a function that answers "" for an unknown name. `skew` is
    how far the service's clock is ahead of the given one (seconds)."""

    def __init__(self, clock: Clock, region_of: Mapping[str, str] | Callable[[str], str], *, skew: float = 0.0) -> None:
        self._clock, self._skew = clock, skew
        self._region_of = region_of if callable(region_of) else lambda bucket: region_of.get(bucket, "")
        self._buckets: dict[str, dict[str, _Stored]] = {}
        self._writes = 0
        self.catch_up: Callable[[], None] = lambda: None
        self.on_put: Callable[[str, str], None] = lambda bucket, key: None

    def region(self, bucket: str) -> str:
        region = self._region_of(bucket)
        if not region:
            raise NotFound(f"no bucket {bucket}")
        return region

    def put(self, bucket: str, key: str, data: bytes, *, once: bool = False, at: float | None = None) -> bool:
        """`at` is when it was really written (Unix seconds), for writers that catch up."""
        if at is None:
            self.catch_up()
        objects = self._objects(bucket)
        if once and key in objects:
            return False
        self._writes += 1
        moment = self._clock.now() if at is None else at
        objects[key] = _Stored(data, moment + self._skew, self._writes)
        self.on_put(bucket, key)
        return True

    def upload(self, bucket: str, key: str, path: str, *, progress: Callable[[int], None] | None = None) -> bool:
        data = Path(path).read_bytes()
        if progress:
            progress(len(data))
        return self.put(bucket, key, data, once=True)

    def get(self, bucket: str, key: str, *, start: int = 0) -> bytes:
        self.catch_up()
        stored = self._objects(bucket).get(key)
        if stored is None:
            raise NotFound(f"no object gs://{bucket}/{key}")
        return stored.data[start:]

    def list(self, bucket: str, prefix: str) -> Sequence[Object]:
        self.catch_up()
        found = sorted((key, stored) for key, stored in self._objects(bucket).items() if key.startswith(prefix))
        return [Object(key=k, size=len(s.data), updated=s.updated, generation=s.generation) for k, s in found]

    def forget(self, prefix: str) -> None:
        """Drop what nobody will look at again, in every bucket: what a long simulation leaves makes lists slow."""
        for objects in self._buckets.values():
            for key in [key for key in objects if key.startswith(prefix)]:
                del objects[key]

    def exists(self, bucket: str, key: str) -> bool:
        """Whether the object is there, without catching up first: for the writers themselves."""
        return key in self._objects(bucket)

    def peek(self, bucket: str, key: str) -> bytes:
        """What the object holds, b"" where there is none; without catching up first."""
        stored = self._objects(bucket).get(key)
        return stored.data if stored else b""

    def _objects(self, bucket: str) -> dict[str, _Stored]:
        self.region(bucket)
        return self._buckets.setdefault(bucket, {})
