"""Workers' output, cut into lines. Pieces arrive in any size, in the middle of a line or of a character.

A line that is not finished is shown all the same while it is followed: a progress bar that returns to its start about
once a second, any other when it has stood still for as long.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tpufn.domain.views import LogPiece

STILL = 1.0
"""Seconds after which an unfinished line is shown."""
_Key = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class OutputLine:
    """One line of one worker, without its end. `partial`: the rest of it is still to come. `shown`: it ends as it was
    shown before, as a partial one: to be counted, and not to be shown again."""

    job: str
    attempt: int
    worker: int
    text: str
    partial: bool = False
    shown: bool = False


@dataclass
class _Rest:
    """An unfinished line: its bytes, what of it is shown already, and since when it shows something else."""

    data: bytes = b""
    shown: bytes = b""
    since: float = 0.0

    @property
    def is_bar(self) -> bool:
        return b"\r" in self.data

    @property
    def visible(self) -> bytes:
        """What a terminal would show: since the last return to the line's start."""
        return _visible(self.data)


def _visible(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\r")[2]


@dataclass
class LineCutter:
    """Keeps the unfinished line of each worker of one job until its rest arrives."""

    job: str
    clock: Callable[[], float] = time.monotonic
    _rests: dict[_Key, _Rest] = field(default_factory=dict)

    def feed(self, piece: LogPiece) -> Iterator[OutputLine]:
        """The lines that `piece` completes; before those of an attempt what the earlier ones left unfinished."""
        if not piece.data:
            yield from self._still()
            return
        yield from self._closed(key for key in self._rests if key[0] < piece.attempt)
        key = (piece.attempt, piece.worker)
        rest = self._rests.setdefault(key, _Rest())
        *whole, left = (rest.data + piece.data).split(b"\n")
        if whole or not rest.is_bar or rest.visible == rest.shown:
            rest.since = self.clock()
        shown, rest.data, rest.shown = rest.shown, left, b"" if whole else rest.shown
        for line in whole:
            yield self._line(key, line, shown=bool(shown) and _visible(line) == shown)
            shown = b""

    def rest(self) -> Iterator[OutputLine]:
        """The last lines, where they had no end."""
        yield from self._closed(tuple(self._rests))

    def _still(self) -> Iterator[OutputLine]:
        """Nothing more for now: the unfinished lines that people should see."""
        now = self.clock()
        for key, rest in sorted(self._rests.items(), key=lambda item: item[0]):
            if now - rest.since < STILL:
                continue
            rest.since, visible = now, rest.visible
            if visible and visible != rest.shown:
                rest.shown = visible
                yield self._line(key, visible, partial=True)

    def _closed(self, keys: Iterable[_Key]) -> Iterator[OutputLine]:
        for key in sorted(keys):
            rest = self._rests.pop(key)
            if rest.data:
                yield self._line(key, rest.data, shown=rest.visible == rest.shown)

    def _line(self, key: _Key, line: bytes, *, partial: bool = False, shown: bool = False) -> OutputLine:
        text = line.decode(errors="replace")
        return OutputLine(job=self.job, attempt=key[0], worker=key[1], text=text, partial=partial, shown=shown)


def lines(job: str, pieces: Iterable[LogPiece]) -> Iterator[OutputLine]:
    """All of a job's output as lines. An empty piece says that there is no more for now."""
    cutter = LineCutter(job)
    for piece in pieces:
        yield from cutter.feed(piece)
    yield from cutter.rest()
