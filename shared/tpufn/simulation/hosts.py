"""The hosts behind a simulated node: what the cloud starts, warns, kills and clears away.

The cloud calls these with its lock held and before the change is on disk: after a crash a call may come a second time,
so each must be idempotent by the TPU's name, and none may wait for another thread that calls the cloud. They may look
at the cloud, and change nothing in it.
"""

import zlib
from typing import Protocol

from tpufn.domain.slot import Worker


class Hosts(Protocol):
    """The machines of simulated TPUs, by the TPU's name."""

    def provision(self, name: str, zone: str, count: int) -> tuple[Worker, ...]:
        """Start `count` hosts and say where they are; the same answer when they run already."""

    def notice(self, name: str) -> None:
        """Tell every host that its TPU will be reclaimed soon."""

    def kill(self, name: str) -> None:
        """The TPU is reclaimed: everything on its hosts ends at once, as on a power cut."""

    def destroy(self, name: str) -> None:
        """The TPU is deleted: end what still runs and remove its disks."""


class NoHosts:
    """Addresses without machines (10.x.y.i). `told` records every call, for tests."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def provision(self, name: str, zone: str, count: int) -> tuple[Worker, ...]:
        self.told.append(("provision", name))
        return addresses(f"{zone}/{name}", count)

    def notice(self, name: str) -> None:
        self.told.append(("notice", name))

    def kill(self, name: str) -> None:
        self.told.append(("kill", name))

    def destroy(self, name: str) -> None:
        self.told.append(("destroy", name))


def addresses(key: str, count: int) -> tuple[Worker, ...]:
    """Made-up private addresses, the same for the same key."""
    start = zlib.crc32(key.encode()) % (2**24 - count)
    numbers = range(start, start + count)
    return tuple(_worker(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}") for n in numbers)


def _worker(address: str) -> Worker:
    return Worker(address=address, reach=address)
