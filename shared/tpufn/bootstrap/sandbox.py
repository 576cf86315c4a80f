"""The sandbox: SQLite, in-process bus, simulated TPUs whose jobs really run."""

import hashlib
import os
import random
import secrets
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tpufn.adapters.files import FileBlobs
from tpufn.adapters.local_bus import LocalBus, Mailbox
from tpufn.adapters.lock import EngineLock
from tpufn.adapters.sqlite import SqliteStore
from tpufn.declare import apply_fleet
from tpufn.domain.attempt import Attempt
from tpufn.domain.errors import CloudUnavailable
from tpufn.domain.fleet import Mode
from tpufn.domain.notes import Note
from tpufn.domain.policy import SANDBOX
from tpufn.embedded import EmbeddedClient
from tpufn.engine import EmbeddedEngine
from tpufn.flows.effects import PERFORMERS
from tpufn.place import Place
from tpufn.ports import Clock, Commit, Ports
from tpufn.runner import Runner
from tpufn.settings import Settings
from tpufn.simulation.clock import WallClock
from tpufn.simulation.paced import Holder, PacedClock
from tpufn.simulation.regions import SandboxRegions

WORKER_CAP = 4
"""Local workers per simulated TPU: a v6e-64 does not start 16 of them."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What every embedded mode is made of."""

    place: Place
    clock: Clock
    store: SqliteStore
    bus: LocalBus
    blobs: FileBlobs
    lock: EngineLock
    client: EmbeddedClient


def parts(place: Place, settings: Settings, *, clock: Clock | None = None, seed: int | None = None) -> Parts:
    """The embedded parts of a place. With a seed the ids of submissions follow from it."""
    if place.mode is not Mode.SANDBOX:
        raise CloudUnavailable(f"mode {place.mode} is not available in this build: add --sandbox")
    clock, directory = clock or WallClock(), place.directory
    store, bus = SqliteStore(directory / "state.sqlite", clock), LocalBus(directory / "bus.sqlite", clock)
    with store.cut() as cut:
        fleet = place.fleet or cut.fleet()
    regions = SandboxRegions(
        directory / "buckets.json",
        declared=dict(fleet.buckets) if fleet else {},
        regions=fleet.regions if fleet else (),
    )
    blobs, lock = FileBlobs(directory / "buckets", regions), EngineLock(directory / "engine.lock")
    client = EmbeddedClient(
        mode=place.mode,
        where=place.where,
        fleet=fleet,
        store=store,
        bus=bus,
        blobs=blobs,
        clock=clock,
        lock=lock,
        user=settings.user,
        scratch=directory / "bundles",
        new_id=(lambda: uuid.uuid4().hex) if seed is None else (lambda: f"seed-{seed}"),
    )
    return Parts(place=place, clock=clock, store=store, bus=bus, blobs=blobs, lock=lock, client=client)


class Sandbox:
    """The embedded engine over simulated TPUs whose jobs really run. See `client.Engine` for the contract."""

    def __init__(self, place: Place, settings: Settings, *, seed: int | None, speed: float) -> None:
        from tpufn.simulation.capacity import Capacity, Supply
        from tpufn.simulation.capacity import Place as Supplied
        from tpufn.simulation.cloud import SimulatedCloud
        from tpufn.simulation.workers import LocalWorkers

        clock = WallClock() if seed is None else PacedClock(SANDBOX.tick)
        self._parts = p = parts(place, settings, clock=clock, seed=seed)
        self._holder = Holder(clock) if isinstance(clock, PacedClock) else None
        self.client = p.client
        directory = place.directory
        mailbox = _mailbox_path(directory)
        workers = LocalWorkers(
            directory / "hosts",
            directory / "buckets",
            socket=mailbox,
            secret=lambda name: sandbox_secret(settings.home, name),
        )
        pools = p.client.fleet().pools  # whatever the catalogue says: what the file declares is to be had here
        supply = {Supplied(pool.model, pool.accelerator.family, pool.zone): Supply() for pool in pools}
        chance = secrets.randbits(32) if seed is None else seed
        self.simulation = SimulatedCloud(
            Capacity(seed=chance, speed=speed, worker_cap=WORKER_CAP, supply=supply),
            clock=p.clock,
            hosts=workers,
            path=directory / "cloud.sqlite",
        )
        ports = Ports(store=p.store, bus=p.bus, cloud=self.simulation, workers=workers, blobs=p.blobs, clock=p.clock)
        runner = make_runner(ports)
        self._engine = EmbeddedEngine(
            runner,
            p.bus,
            clock=p.clock,
            lock=p.lock,
            mailbox=Mailbox(mailbox, self._deliver),
            log=directory / "engine.log",
            advance=self.simulation.advance,
            pace=clock.advance if isinstance(clock, PacedClock) else lambda: False,
        )
        p.store.on_commit(self._on_commit)

    def _on_commit(self, commit: Commit) -> None:
        for document in commit.writes if self._holder else ():
            if isinstance(document, Attempt) and self._holder:
                self._holder.saw(document.id, document.state)
        self._engine.on_commit(commit)

    def _deliver(self, topic: str, body: Mapping[str, Any]) -> None:
        self._engine.deliver(topic, body)

    def start(self) -> None:
        self._engine.start_on(self._apply)

    def stop(self) -> None:
        self._engine.stop()
        self.simulation.close()

    def subscribe(self, listener: Callable[[Note], None]) -> None:
        self._engine.subscribe(listener)

    def drain(self, *, timeout: float = 60.0) -> int:
        """From here on nothing is kept warm or idle; the ticks release what no live job uses."""
        with self._parts.store.cut() as cut:
            fleet = cut.fleet()
        if fleet is not None:
            pools = tuple(replace(pool, keep_warm=0) for pool in fleet.pools)
            apply_fleet(self._parts.store, replace(fleet, pools=pools, idle_timeout=0.0))
        deadline = time.monotonic() + timeout
        while self._is_held() and time.monotonic() < deadline:
            time.sleep(0.02)
        return int(self.simulation.provisioned())

    def _is_held(self) -> bool:
        """Whether the cloud or a slot still has a TPU that no live job uses."""
        with self._parts.store.cut() as cut:
            return self.simulation.provisioned() > 0 or any(slot.holds_chips for slot in cut.slots())

    def _apply(self) -> None:
        if self._parts.place.fleet is not None:
            apply_fleet(self._parts.store, self._parts.place.fleet)


def sandbox_secret(home: Path, name: str) -> str:
    """A secret's value in the sandbox: the file `secrets/NAME` of the home directory, else a text that says so."""
    bare = name.partition("@")[0]
    try:
        return (home / "secrets" / bare).read_text().rstrip("\n")
    except OSError:
        return f"sandbox value of {bare}"


def make_runner(ports: Ports) -> Runner:
    return Runner(
        ports,
        policy=SANDBOX,
        performers=dict(PERFORMERS),
        new_id=lambda: uuid.uuid4().hex,
        jitter=lambda attempt: random.uniform(0.0, 0.01 * 2**attempt),
    )


def _mailbox_path(directory: Path) -> Path:
    """A short path of its own for each state directory: socket addresses are limited to about 100 bytes."""
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tpufn-{os.getuid()}-{name}.sock"
