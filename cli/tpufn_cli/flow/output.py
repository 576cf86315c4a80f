"""Workers' output, cut into lines. Pieces arrive in any size, in the middle of a line or of a character."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tpufn.domain.views import LogPiece


@dataclass(frozen=True, kw_only=True)
class OutputLine:
    """One line of one worker, without its end."""

    job: str
    attempt: int
    worker: int
    text: str


@dataclass
class LineCutter:
    """Keeps the unfinished line of each worker of one job until its rest arrives."""

    job: str
    _rest: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def feed(self, piece: LogPiece) -> Iterator[OutputLine]:
        """The lines that `piece` completes."""
        key = (piece.attempt, piece.worker)
        *lines, self._rest[key] = (self._rest.get(key, b"") + piece.data).split(b"\n")
        return (self._line(key, line) for line in lines)

    def rest(self) -> Iterator[OutputLine]:
        """The last lines, where they had no end."""
        left, self._rest = self._rest, {}
        return (self._line(key, line) for key, line in sorted(left.items()) if line)

    def _line(self, key: tuple[int, int], line: bytes) -> OutputLine:
        return OutputLine(job=self.job, attempt=key[0], worker=key[1], text=line.decode(errors="replace"))


def lines(job: str, pieces: Iterable[LogPiece]) -> Iterator[OutputLine]:
    """All of a job's output as lines."""
    cutter = LineCutter(job)
    for piece in pieces:
        yield from cutter.feed(piece)
    yield from cutter.rest()
