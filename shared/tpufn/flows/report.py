"""Reading one attempt's objects from its bucket: the truth about its workers."""

import re
from typing import Any

import msgspec

from tpufn.domain.attempt import Attempt
from tpufn.domain.orders import Closed, Exited, WorkerReport
from tpufn.ports import Blobs, Object

_STATUS = re.compile(r".*/worker-(\d+)\.(accepted|prepared|exited|closed|heartbeat)\.json")


def read_report(blobs: Blobs, attempt: Attempt) -> WorkerReport:
    """One listing, and one read for each end that was recorded. Times are the bucket's."""
    found: dict[str, dict[int, Object]] = {}
    for item in blobs.list(attempt.bucket, f"{attempt.prefix}/status/"):
        match = _STATUS.fullmatch(item.key)
        if match:
            found.setdefault(match[2], {})[int(match[1])] = item
    return WorkerReport(
        count=len(attempt.workers),
        accepted=frozenset(found.get("accepted", ())),
        prepared=frozenset(found.get("prepared", ())),
        exited={i: _read(blobs, attempt, o, i, Exited) for i, o in found.get("exited", {}).items()},
        closed={i: _read(blobs, attempt, o, i, Closed) for i, o in found.get("closed", {}).items()},
        heartbeats={i: o.updated for i, o in found.get("heartbeat", {}).items()},
    )


_LONGEST = 2000
"""Characters of a worker's words that are taken over: they end in documents, and those have a limit."""


def _read(blobs: Blobs, attempt: Attempt, item: Object, worker: int, type: type[Any]) -> Any:
    body = msgspec.json.decode(blobs.get(attempt.bucket, item.key))
    bounded = {key: _bounded(key, value) for key, value in body.items()}
    return msgspec.convert({**bounded, "worker": worker, "at": item.updated}, type)


def _bounded(key: str, value: Any) -> Any:
    """Of an output the end is kept, of all other words the beginning."""
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value
    return value[-_LONGEST:] if key == "tail" else value[:_LONGEST]
