"""Store reads and writes per kind of event, with a short and with a long queue. Prints one JSON line last.

    python tests/benchmarks/event_cost.py --pending 100000
    python tests/benchmarks/event_cost.py --store firestore --pending 5000

A read is a document returned, and at least one a query; a write is a document written or deleted. The figures must not
depend on how many jobs are pending. With `--store firestore` they are what Firestore's emulator is asked for, as
production would charge it; its milliseconds say nothing, because it has no indexes and looks at every job.
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "shared"), str(ROOT)]

from tpufn.adapters.local_bus import LocalBus
from tpufn.adapters.sqlite import SqliteStore
from tpufn.decide.autoscale import new_slot
from tpufn.domain.cloud import ownership_labels
from tpufn.domain.events import Command, Event, Submission, Tick, WorkerEvent, Written
from tpufn.domain.fleet import Fleet, Pool, pool_id
from tpufn.domain.job import Job, JobSpec, Priority, rank
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotEvent, SlotState, Worker, cloud_name
from tpufn.flows.effects import PERFORMERS
from tpufn.flows.registry import woken_by
from tpufn.ports import Commit, Ports
from tpufn.runner import Runner
from tpufn.simulation.clock import VirtualClock, WallClock

ZONES = ("us-east5-a", "us-east5-b", "us-east1-d", "europe-west4-a")
REGIONS = ("us-east5", "us-east1", "europe-west4")


class CountingStore:
    """A store that counts what goes through it."""

    def __init__(self, store: Any) -> None:
        self._store, self.reads, self.writes = store, 0, 0

    @contextmanager
    def cut(self) -> Iterator[Any]:
        with self._store.cut() as cut:
            yield CountingCut(cut, self)

    def commit(self, commit: Commit) -> None:
        self.writes += len(commit.writes) + len(commit.deletes) + len(commit.notes)
        self._store.commit(commit)

    def applied(self, commit: Commit) -> bool:
        return self._store.applied(commit)


class CountingCut:
    def __init__(self, cut: Any, counter: CountingStore) -> None:
        self._cut, self._counter = cut, counter

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cut, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = found(*args, **kwargs)
            self._counter.reads += max(1, len(answer)) if isinstance(answer, list) else 1
            return answer

        return call


class CountingFirestore:
    """Counts documents and queries at the database: a cut asks for more than its caller does."""

    def __init__(self, store: Any) -> None:
        self._store, self.reads, self.writes = store, 0, 0
        database = store._database
        database.get, database.query = self._counted(database.get), self._counted(database.query)

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            found = method(*args, **kwargs)
            self.reads += max(1, len(found))
            return found

        return call

    def cut(self) -> Any:
        return self._store.cut()

    def commit(self, commit: Commit) -> None:
        self.writes += len(commit.writes) + len(commit.deletes) + len(commit.notes)
        self._store.commit(commit)

    def applied(self, commit: Commit) -> bool:
        return bool(self._store.applied(commit))


class QuietCloud:
    """Every TPU that the slots claim is there and READY."""

    def __init__(self, tpus: Mapping[str, Any]) -> None:
        self._tpus = dict(tpus)

    def get(self, name: str, zone: str) -> Any:
        return self._tpus.get(name)

    def list(self, zone: str) -> Sequence[Any]:
        return [t for t in self._tpus.values() if t.zone == zone]

    def create(self, order: Any) -> None: ...
    def delete(self, name: str, zone: str) -> None:
        self._tpus.pop(name, None)


class QuietWorkers:
    def usable(self, tpu: Any) -> frozenset[int]:
        return frozenset(range(len(tpu.workers)))

    def launch(self, order: Any) -> dict[int, str]:
        return {}

    stop = launch

    def alive(self, tpu: Any, attempt: str) -> dict[int, bool]:
        return {}


class QuietBlobs:
    def list(self, bucket: str, prefix: str) -> list[Any]:
        return []

    def put(self, *args: Any, **kwargs: Any) -> bool:
        return True


def fleet() -> Fleet:
    pools = tuple(
        Pool(id=pool_id(Pool.model, "v6e-16", zone), type="v6e-16", zone=zone, count=5, runtime="v2-alpha-tpuv6e")
        for zone in ZONES
    )
    return Fleet(name="cost", pools=pools, nonce="n", revision=1)


def fill(store: Any, pending: int, now: float, *, size: int = 5000) -> None:
    """The fleet, its slots (one idle, one free, the others asked for) and the queue."""
    declared = fleet()
    slots = [_slot(name, pool, i, now) for i, (name, pool) in enumerate(declared.slots())]
    store.commit(Commit(id="fleet", writes=(declared, *slots)))
    numbers = iter(range(pending))
    while chunk := list(itertools.islice(numbers, size)):
        jobs = [job(f"queued-{n:06d}", now + n / 1000) for n in chunk]
        store.commit(Commit(id=f"jobs-{chunk[0]}", writes=(*jobs, *(JobSpec(id=j.id, command="true") for j in jobs))))


def job(id: str, at: float) -> Job:
    accepts = tuple(f"v6e-16@{region}" for region in REGIONS)
    buckets = {region: f"b-{region}" for region in REGIONS}
    stamped = rank(Priority.NORMAL, 4, at, id)
    return Job(id=id, submitted_at=at, rank=stamped, accepts=accepts, unpinned=accepts, buckets=buckets)


def _slot(name: str, pool: Pool, index: int, now: float) -> Slot:
    slot = new_slot(name, pool, now=now)
    if index == 0:
        return slot
    tpu = cloud_name("cost", name, 1)
    slot = slot.on(SlotEvent.REQUEST, now=now, generation=1, tpu=tpu, requested_at=now, create_settled=True)
    if index > 1:
        return slot.on(SlotEvent.QUEUED, now=now)
    workers = tuple(Worker(address=f"10.0.0.{i}") for i in range(4))
    return (
        slot.on(SlotEvent.GRANTED, now=now)
        .on(SlotEvent.STARTED, now=now)
        .on(SlotEvent.USABLE, now=now, workers=workers, idle_since=now)
    )


def observed(slots: Sequence[Slot]) -> dict[str, Any]:
    from tpufn.domain.cloud import Health, NodeState, QueuedResourceState, Tpu

    waiting, active = QueuedResourceState.WAITING_FOR_RESOURCES, QueuedResourceState.ACTIVE
    return {
        s.tpu: Tpu(
            name=s.tpu,
            zone=s.zone,
            type=s.type,
            request=active if s.workers else waiting,
            node=NodeState.READY if s.workers else None,
            health=Health.HEALTHY if s.workers else Health.UNSPECIFIED,
            workers=s.workers,
            labels=ownership_labels("cost", "n", s.name, 1),
        )
        for s in slots
        if s.tpu
    }


def body(name: str) -> dict[str, Any]:
    from tpufn.spec.submission import VERSION

    bucket = {region: f"gs://b-{region}" for region in REGIONS}
    return {
        "v": VERSION,
        "submission_id": name,
        "jobs": [{"id": name, "tpu": "v6e-16", "command": "true", "buckets": bucket, "bundle": {}}],
    }


@contextmanager
def sqlite(pending: int) -> Iterator[tuple[Any, Any, Any]]:
    """A filled store, its counter, and its clock."""
    clock = VirtualClock()
    with tempfile.TemporaryDirectory() as directory:
        store = SqliteStore(Path(directory) / "state.sqlite", clock)
        fill(store, pending, clock.now())
        yield store, CountingStore(store), clock
        store.close()


@contextmanager
def firestore(pending: int) -> Iterator[tuple[Any, Any, Any]]:
    """The same in a fresh database of a fresh emulator."""
    from tests.emulators import run_firestore

    from tpufn.adapters.firestore import FirestoreStore

    with run_firestore() as emulator:
        os.environ["FIRESTORE_EMULATOR_HOST"] = emulator.host
        store = FirestoreStore(emulator.project, "cost", timeout=60.0)
        fill(store, pending, time.time(), size=200)
        yield store, CountingFirestore(store), WallClock()
        store.close()


STORES: Mapping[str, Callable[[int], Any]] = {"sqlite": sqlite, "firestore": firestore}


def measure(kind: str, pending: int) -> dict[str, dict[str, float]]:
    """kind of event -> reads, writes, milliseconds."""
    with STORES[kind](pending) as (store, counter, clock), tempfile.TemporaryDirectory() as directory:
        with store.cut() as cut:
            cloud = QuietCloud(observed(cut.slots()))
        bus = LocalBus(Path(directory) / "bus.sqlite", clock)
        ports = Ports(
            store=counter,
            bus=bus,
            cloud=cloud,
            workers=QuietWorkers(),
            blobs=QuietBlobs(),
            clock=clock,  # type: ignore[arg-type]
        )
        ids = itertools.count()
        runner = Runner(
            ports,
            policy=Policy(),
            performers=dict(PERFORMERS),
            new_id=lambda: f"commit-{next(ids)}",
            jitter=lambda attempt: 0.0,
        )
        return {kind: one(runner, counter, make(store)) for kind, make in EVENTS.items()}


def one(runner: Runner, counter: Any, event: Event) -> dict[str, float]:
    before = (counter.reads, counter.writes, time.perf_counter())
    for function in woken_by(event):
        runner.handle(function, event)
    after = (counter.reads, counter.writes, time.perf_counter())
    reads, writes, seconds = (b - a for a, b in zip(before, after, strict=True))
    return {"reads": reads, "writes": writes, "ms": round(seconds * 1000, 1)}


def running(store: Any) -> str:
    with store.cut() as cut:
        return next(s.lease.attempt for s in cut.slots() if s.lease)


def freed(store: Any) -> str:
    """A slot whose TPU has just gone."""
    with store.cut() as cut:
        slot = cut.slots()[-1]
    store.commit(Commit(id="freed", writes=(replace(slot, state=SlotState.FREE),)))
    return slot.name


EVENTS: Mapping[str, Callable[[Any], Event]] = {
    "submission": lambda store: Submission(id="new", body=body("new")),
    "job pending": lambda store: Written(kind="job", id="new"),
    "slot free": lambda store: Written(kind="slot", id=freed(store)),
    "attempt written": lambda store: Written(kind="attempt", id=running(store)),
    "worker event": lambda store: WorkerEvent(attempt=running(store), worker=0, what="prepared"),
    "tick": lambda store: Tick(),
    "cancel": lambda store: Command(verb="cancel", target="new", id="c"),
    "set-priority": lambda store: Command(verb="set-priority", target="queued-000050", args={"priority": "high"}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=sorted(STORES), default="sqlite")
    parser.add_argument("--pending", type=int, default=100_000)
    args = parser.parse_args()
    short, long = measure(args.store, 100), measure(args.store, args.pending)
    for kind, figures in long.items():
        print(f"{kind:16} {figures}   with 100: {short[kind]}", file=sys.stderr)
    plain = {kind: {k: v for k, v in f.items() if k != "ms"} for kind, f in long.items()}
    flat = all(plain[k] == {n: v for n, v in f.items() if n != "ms"} for k, f in short.items())
    print(json.dumps({"pending": args.pending, "store": args.store, "events": long, "flat": flat}))


if __name__ == "__main__":
    main()
