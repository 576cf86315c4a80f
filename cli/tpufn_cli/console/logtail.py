"""A job's output in pages: what came after a cursor, at most so many bytes.

The cursor says how far each worker of each attempt was read: `1.0:5321,1.1:80`. It is opaque to whoever keeps it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tpufn.client import Client
from tpufn.domain.errors import InputError
from tpufn.domain.views import LogPiece

Place = tuple[int, int]


@dataclass(frozen=True)
class Page:
    """`more`: there was more than fitted."""

    pieces: tuple[LogPiece, ...]
    cursor: str
    more: bool


def page(
    client: Client,
    id: str,
    *,
    attempt: int | None = None,
    worker: int | None = None,
    cursor: str = "",
    limit: int = 65536,
) -> Page:
    """The next page. Raises NotFound, InputError for a cursor that is none."""
    read, passed, left = _parse(cursor), dict[Place, int](), limit
    pieces: list[LogPiece] = []
    more = False
    for piece in client.logs(id, attempt=attempt, worker=worker):
        place = (piece.attempt, piece.worker)
        begin = passed.get(place, 0)
        passed[place] = begin + len(piece.data)
        fresh = piece.data[max(0, read.get(place, 0) - begin) :]
        if not fresh:
            continue
        if left <= 0:
            more = True
            break
        taken = fresh[:left]
        more = more or len(taken) < len(fresh)
        left -= len(taken)
        read[place] = passed[place] - len(fresh) + len(taken)
        pieces.append(LogPiece(attempt=piece.attempt, worker=piece.worker, data=taken))
        if more:
            break
    return Page(tuple(pieces), _text(read), more)


def _parse(cursor: str) -> dict[Place, int]:
    found: dict[Place, int] = {}
    try:
        for part in cursor.split(",") if cursor else ():
            place, offset = part.split(":")
            attempt, worker = place.split(".")
            found[int(attempt), int(worker)] = int(offset)
    except ValueError:
        raise InputError(f"{cursor!r} is not a cursor: give back the one that came with the last page") from None
    return found


def _text(read: Mapping[Place, int]) -> str:
    return ",".join(f"{attempt}.{worker}:{offset}" for (attempt, worker), offset in sorted(read.items()))
