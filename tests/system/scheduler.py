"""Cloud Scheduler's jobs of a deployment, served as its REST interface: they pause and resume the ticker."""

import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

from ..contracts.rest_server import Answer, error, rest_server


class Beat(Protocol):
    on: bool
    last: float  # when the last tick was published; 0: never


@contextmanager
def scheduler(beats: MutableMapping[str, Beat]) -> Iterator[str]:
    """`beats`: a job's name -> what it switches. Yields the endpoint."""

    def answer(method: str, path: str) -> Answer:
        name, _, verb = path.rpartition("/")[2].partition(":")
        beat = beats.get(name)
        if beat is None:
            return error(404, "Job not found.")
        if verb:
            beat.on = verb == "resume"
        return 200, {"name": path.removeprefix("/v1/").partition(":")[0], **state(beat)}

    with rest_server(answer) as server:
        yield server.endpoint


def state(beat: Beat) -> dict[str, str]:
    """As the service shows it."""
    known = {"state": "ENABLED" if beat.on else "PAUSED", "scheduleTime": moment(time.time() + 1.0)}
    return {**known, "lastAttemptTime": moment(beat.last)} if beat.last else known


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
