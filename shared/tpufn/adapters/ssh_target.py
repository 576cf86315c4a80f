"""A worker as the SSH adapter sees it, why one was not reached, and until when to try."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from tpufn.domain.slot import Worker

SSH_PORT = 22


@dataclass(frozen=True, kw_only=True)
class Host:
    """One worker of a TPU. The cloud name carries the generation: (tpu, worker) is an identity, an address is not."""

    tpu: str
    zone: str
    worker: int
    reach: str  # host or host:port

    @property
    def endpoint(self) -> tuple[str, int]:
        """Address and port. IPv6 addresses with a port are in brackets."""
        name, colon, port = self.reach.rpartition(":")
        is_bare = not colon or (":" in name and not name.endswith("]"))
        return (self.reach.strip("[]"), SSH_PORT) if is_bare else (name.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"worker {self.worker} of {self.tpu}"


def hosts_of(tpu: str, zone: str, workers: Iterable[Worker]) -> list[Host]:
    return [
        Host(tpu=tpu, zone=zone, worker=index, reach=worker.reach or worker.address)
        for index, worker in enumerate(workers)
    ]


class Unreached(Exception):
    """A worker was not reached. `again`: trying once more, soon, may help; nothing is lost by it. `refused`: it is
    there, and does not know our key."""

    def __init__(self, cause: str, *, again: bool = False, refused: bool = False) -> None:
        self.cause, self.again, self.refused = cause, again, refused
        super().__init__(cause)


class Deadline:
    """A point in time, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds, never below 0."""
        return max(0.0, self.until - time.monotonic())

    def within(self, seconds: float) -> "Deadline":
        """The earlier of this one and that many seconds from now."""
        return Deadline(min(seconds, self.left))

    def check(self, doing: str) -> float:
        """Seconds left. Raises Unreached where there are none."""
        left = self.left
        if not left:
            raise Unreached(f"no time left while {doing}")
        return left
