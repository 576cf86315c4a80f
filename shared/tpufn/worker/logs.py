"""The command's output on its way to the bucket, byte for byte: append-only numbered objects.

A pump reads the pipe into a spool on the disk, an uploader takes pieces from the spool: the first at once, then one
per interval or per MiB. While the bucket is slow or gone, pieces grow to 4 MiB and wait on the disk. When the spool is
full, the job waits for a bucket that still takes pieces, and not for one that takes none: then, as past the limit or on
a full disk, bytes are counted as dropped and only the last MiB of them is held; it follows, behind a marker, when there
is room again or at the end.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import time

from .bucket import BucketError
from .protocol import MIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .bucket import Bucket

_SMALL, _LARGE, _HELD = MIB, 4 * MIB, MIB
_STALL = 2.0  # seconds without progress after which the bucket counts as gone


class Spool:
    """Bytes appended at one end, taken as pieces at the other. Memory holds what was dropped last, nothing else."""

    def __init__(self, directory: str, *, interval: float, limit: int, room: int) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self.directory, self.interval, self.limit, self.room = directory, interval, limit, room
        self.total = self.dropped = 0
        self._changed = threading.Condition()
        self._sealed: collections.deque[tuple[int, str, int]] = collections.deque()
        self._number = self._size = self._waiting = 0
        self._file = self._open()
        self._held = bytearray()
        self._due, self._progress = 0.0, time.monotonic()
        self._urgent = self._ended = self._in_flight = False

    def append(self, data: bytes) -> None:
        with self._changed:
            self._await_room()
            if self._has_room() and self._tell_dropped():
                kept = data[: max(0, self.limit - self.total)]
                data = data[len(kept) :] if self._store(kept) else data
            self._drop(data)
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing will be appended any more."""
        with self._changed:
            self._tell_dropped()
            self._ended = self._urgent = True
            self._changed.notify_all()

    def take(self) -> tuple[int, str, int] | None:
        """The oldest piece (number, path, size), once it is due; None after the last. Every piece is to be `forget`."""
        with self._changed:
            while not self._sealed:
                if self._size and self._seconds_to_due() <= 0:
                    self._seal()
                elif self._ended and not self._size:
                    return None
                else:
                    self._changed.wait(self._seconds_to_due() if self._size else None)
            self._progress = time.monotonic()
            self._due = self._progress + self.interval
            self._in_flight = True
            return self._sealed[0]

    def forget(self, piece: tuple[int, str, int]) -> None:
        """The bucket has it."""
        with self._changed:
            self._sealed.popleft()
            self._waiting -= piece[2]
            self._in_flight = False
            with contextlib.suppress(OSError):
                os.unlink(piece[1])
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Have everything taken at once; whether that came about in time."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._urgent = True
            self._changed.notify_all()
            while self._sealed or self._size or self._in_flight:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    break
            self._urgent = self._ended
            return not (self._sealed or self._size)

    def _seconds_to_due(self) -> float:
        return 0.0 if self._urgent or self._size >= _SMALL else self._due - time.monotonic()

    def _await_room(self) -> None:
        """While the bucket takes pieces, a faster writer waits for it; when it takes none, nobody waits."""
        while self.total < self.limit and not self._has_room() and time.monotonic() < self._progress + _STALL:
            self._changed.wait(0.1)

    def _has_room(self) -> bool:
        return self.total < self.limit and self._waiting + self._size < self.room

    def _store(self, data: bytes) -> bool:
        """Whether the disk took it all; a part of it is taken back."""
        if self._size >= _LARGE:
            self._seal()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            return False
        self._size += len(data)
        self.total += len(data)
        return True

    def _drop(self, data: bytes) -> None:
        self.dropped += len(data)
        self._held += data
        if len(self._held) > 2 * _HELD:
            del self._held[:-_HELD]

    def _tell_dropped(self) -> bool:
        """Whether the reader knows of everything that was dropped."""
        if not self.dropped:
            return True
        tail = bytes(self._held[-_HELD:])
        marker = b"\n[tpufn: %d bytes of output dropped here]\n" % (self.dropped - len(tail))
        if not self._store(marker + tail):
            return False
        self.dropped = 0
        self._held.clear()
        return True

    def _seal(self) -> None:
        os.close(self._file)
        self._sealed.append((self._number, self._path(), self._size))
        self._waiting += self._size
        self._number += 1
        self._size = 0
        self._file = self._open()

    def _open(self) -> int:
        return os.open(self._path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def _path(self) -> str:
        return os.path.join(self.directory, f"{self._number:08d}")


class Uploader(threading.Thread):
    """Takes pieces from the spool to the bucket, each as often as it needs, until the spool ends or time is up."""

    def __init__(self, spool: Spool, bucket: Bucket, prefix: str) -> None:
        super().__init__(daemon=True)
        self.spool, self.bucket, self.prefix = spool, bucket, prefix
        self._given_up = threading.Event()

    def run(self) -> None:
        piece = self.spool.take()
        while piece is not None and self._upload(piece):
            self.spool.forget(piece)
            piece = self.spool.take()

    def give_up_after(self, seconds: float) -> bool:
        """Whether all of it is in the bucket by then."""
        self.join(seconds)
        self._given_up.set()
        return not self.is_alive()

    def _upload(self, piece: tuple[int, str, int]) -> bool:
        pause = 0.5
        with open(piece[1], "rb") as file:
            data = file.read()
        while not self._given_up.is_set():
            try:
                self.bucket.put(f"{self.prefix}/{piece[0]:08d}.log", data, once=True)
                return True
            except BucketError:
                self._given_up.wait(pause)
                pause = min(pause * 2, 15.0)
        return False
