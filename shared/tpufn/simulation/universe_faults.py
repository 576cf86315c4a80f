"""Trouble between any two lines of the core: ports that can be stopped at every commit and effect.

A boundary is the moment just before or just after a commit or an effect. Whoever plans trouble is asked at each and
answers what happens there. Reads are no boundaries: nothing in the world depends on whether they happened.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tpufn.domain.cloud import CreateOrder, Tpu
from tpufn.domain.errors import CloudUnavailable, CommitUnknown, Stale, Unknown
from tpufn.domain.orders import LaunchOrder, StopOrder
from tpufn.ports import Blobs, Bus, Clock, Commit, Cut, Object, Ports, Store, TpuCloud, Workers


class SimulatedCrash(BaseException):
    """The process that handles an event is dead. Not an Exception: nothing in the core may survive it."""


class When(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """One place where trouble can strike. `number` counts them over a universe's life, from 0."""

    number: int
    when: When
    what: str  # commit, create, delete, launch, stop, put, publish
    about: str

    def __str__(self) -> str:
        return f"{self.number} {self.when} {self.what} {self.about}".rstrip()


class Trouble(StrEnum):
    CRASH = "crash"  # the process dies here
    LOSE = "lose"  # the call's answer is lost: before it, it was not applied; after it, it was
    CONTEND = "contend"  # a commit is refused as stale though nobody was faster
    INTERLEAVE = "interleave"  # another event is handled to its end here
    FREEZE = "freeze"  # this handler stands still for long, and wakes again
    TICK = "tick"  # another tick runs to its end here
    OUTAGE = "outage"  # the store answers nobody for a while


CALL = 30.0
"""Seconds that a call lasts at most; a handler that stands still for longer within one is a frozen one."""
Plan = Callable[[Boundary], Trouble | None]


def no_trouble(boundary: Boundary) -> Trouble | None:
    return None


class Gate:
    """Counts boundaries and lets the planned trouble happen. `meanwhile` handles other events: one, or for so long;
    `tick` is another tick."""

    def __init__(self, clock: Clock, *, meanwhile: Callable[[float], None], tick: Callable[[], None]) -> None:
        self.plan: Plan = no_trouble
        self.standstill = 3600.0  # how long a frozen handler stands still (seconds)
        self.outage = 180.0  # how long the store answers nobody (seconds)
        self.passed = 0
        self.overlaps: list[str] = []  # effects that two handlers performed at once
        self._clock, self._meanwhile, self._tick = clock, meanwhile, tick
        self._out_until = 0.0
        self._under_way: dict[tuple[str, str], float] = {}

    def look(self) -> None:
        """Raises CloudUnavailable while the store answers nobody."""
        if self._clock.now() < self._out_until:
            raise CloudUnavailable("the store does not answer")

    def mend(self) -> None:
        """End an outage."""
        self._out_until = 0.0

    @contextmanager
    def around(self, what: str, about: str) -> Iterator[None]:
        """One effect, from a handler's call until it has the answer."""
        now, key = self._clock.now(), (what, about)
        begun = self._under_way.get(key)
        if begun is not None and now - begun < CALL:
            self.overlaps.append(f"{what} {about}")
        self._under_way[key] = now
        try:
            self.at(When.BEFORE, what, about)
            yield
            self.at(When.AFTER, what, about)
        finally:
            self._under_way.pop(key, None)

    def at(self, when: When, what: str, about: str) -> None:
        """Raises SimulatedCrash, Stale, CommitUnknown, CloudUnavailable or Unknown where the plan says so."""
        boundary = Boundary(number=self.passed, when=when, what=what, about=about)
        self.passed += 1
        match self.plan(boundary):
            case Trouble.CRASH:
                raise SimulatedCrash(str(boundary))
            case Trouble.LOSE:
                _lose(boundary)
            case Trouble.CONTEND if what == "commit" and when is When.BEFORE:
                raise Stale(f"too much contention: {boundary}")
            case Trouble.INTERLEAVE:
                self._meanwhile(0.0)
            case Trouble.FREEZE:
                self._meanwhile(self.standstill)
            case Trouble.TICK:
                self._tick()
            case Trouble.OUTAGE if what == "commit":
                self._out_until = self._clock.now() + self.outage
                if when is When.BEFORE:
                    self.look()
            case _:
                return


def _lose(boundary: Boundary) -> None:
    if boundary.what == "commit":
        raise CommitUnknown(str(boundary))
    if boundary.what in ("create", "delete"):
        raise Unknown(str(boundary))


class TroubledStore:
    def __init__(self, inner: Store, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    def cut(self) -> AbstractContextManager[Cut]:
        self._gate.look()
        return self._inner.cut()

    def commit(self, commit: Commit) -> None:
        about = ", ".join(note.event for note in commit.notes)
        self._gate.look()
        self._gate.at(When.BEFORE, "commit", about)
        self._inner.commit(commit)
        self._gate.at(When.AFTER, "commit", about)

    def applied(self, commit: Commit) -> bool:
        self._gate.look()
        return self._inner.applied(commit)


class TroubledCloud:
    def __init__(self, inner: TpuCloud, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    def create(self, order: CreateOrder) -> None:
        with self._gate.around("create", order.name):
            self._inner.create(order)

    def get(self, name: str, zone: str) -> Tpu | None:
        return self._inner.get(name, zone)

    def list(self, zone: str) -> Sequence[Tpu]:
        return self._inner.list(zone)

    def delete(self, name: str, zone: str) -> None:
        with self._gate.around("delete", name):
            self._inner.delete(name, zone)


class TroubledWorkers:
    def __init__(self, inner: Workers, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    def usable(self, tpu: Tpu) -> frozenset[int]:
        return self._inner.usable(tpu)

    def launch(self, order: LaunchOrder) -> Mapping[int, str]:
        with self._gate.around("launch", order.attempt):
            return self._inner.launch(order)

    def stop(self, order: StopOrder) -> Mapping[int, str]:
        with self._gate.around("stop", order.attempt):
            return self._inner.stop(order)

    def alive(self, tpu: Tpu, attempt: str) -> Mapping[int, bool]:
        return self._inner.alive(tpu, attempt)

    def introduce(self, tpu: str, worker: int, host_key: str) -> None:
        self._inner.introduce(tpu, worker, host_key)


class TroubledBlobs:
    def __init__(self, inner: Blobs, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    def region(self, bucket: str) -> str:
        return self._inner.region(bucket)

    def put(self, bucket: str, key: str, data: bytes, *, once: bool = False) -> bool:
        with self._gate.around("put", key):
            return self._inner.put(bucket, key, data, once=once)

    def upload(self, bucket: str, key: str, path: str, *, progress: Callable[[int], None] | None = None) -> bool:
        return self._inner.upload(bucket, key, path, progress=progress)

    def get(self, bucket: str, key: str, *, start: int = 0) -> bytes:
        return self._inner.get(bucket, key, start=start)

    def list(self, bucket: str, prefix: str) -> Sequence[Object]:
        return self._inner.list(bucket, prefix)


class TroubledBus:
    def __init__(self, inner: Bus, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    def publish(self, topic: str, body: Mapping[str, Any]) -> str:
        self._gate.at(When.BEFORE, "publish", topic)
        return self._inner.publish(topic, body)

    def publish_all(self, topic: str, bodies: Iterable[Mapping[str, Any]]) -> None:
        self._gate.at(When.BEFORE, "publish", topic)
        self._inner.publish_all(topic, bodies)


def troubled(ports: Ports, gate: Gate) -> Ports:
    """The same ports with every commit and effect passing the gate."""
    return replace(
        ports,
        store=TroubledStore(ports.store, gate),
        bus=TroubledBus(ports.bus, gate),
        cloud=TroubledCloud(ports.cloud, gate),
        workers=TroubledWorkers(ports.workers, gate),
        blobs=TroubledBlobs(ports.blobs, gate),
    )
