"""The sandbox: SQLite, in-process bus, simulated TPUs whose jobs really run."""

import hashlib
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tpufn.adapters.files import FileBlobs
from tpufn.adapters.local_bus import Mailbox
from tpufn.bootstrap.embedded import Parts, declare, keep_nothing, make_parts, make_runner
from tpufn.domain.attempt import Attempt
from tpufn.domain.fleet import Fleet
from tpufn.domain.notes import Note
from tpufn.domain.policy import SANDBOX
from tpufn.engine import EmbeddedEngine
from tpufn.place import Place
from tpufn.ports import Blobs, Clock, Commit, Ports
from tpufn.settings import Settings
from tpufn.simulation.clock import WallClock
from tpufn.simulation.paced import Holder, PacedClock
from tpufn.simulation.regions import SandboxRegions

WORKER_CAP = 4
"""Local workers per simulated TPU: a v6e-64 does not start 16 of them."""


def parts(place: Place, settings: Settings, *, clock: Clock | None = None, seed: int | None = None) -> Parts:
    """The embedded parts of a place. With a seed the ids of submissions follow from it."""
    directory = place.directory

    def blobs(fleet: Fleet | None) -> Blobs:
        declared = dict(fleet.buckets) if fleet else {}
        regions = SandboxRegions(directory / "buckets.json", declared=declared, regions=fleet.regions if fleet else ())
        return FileBlobs(directory / "buckets", regions)

    named = {} if seed is None else {"new_id": lambda: f"seed-{seed}"}
    return make_parts(place, settings, clock=clock or WallClock(), blobs=blobs, **named)


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
        runner = make_runner(ports, SANDBOX)
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
        self._engine.start_on(lambda: declare(self._parts))

    def stop(self) -> None:
        self._engine.stop()
        self.simulation.close()

    def subscribe(self, listener: Callable[[Note], None]) -> None:
        self._engine.subscribe(listener)

    def drain(self, *, timeout: float = 60.0) -> int:
        """From here on nothing is kept warm or idle; the ticks release what no live job uses."""
        keep_nothing(self._parts)
        deadline = time.monotonic() + timeout
        while self._is_held() and time.monotonic() < deadline:
            time.sleep(0.02)
        return int(self.simulation.provisioned())

    def _is_held(self) -> bool:
        """Whether the cloud or a slot still has a TPU that no live job uses."""
        with self._parts.store.cut() as cut:
            return self.simulation.provisioned() > 0 or any(slot.holds_chips for slot in cut.slots())


def sandbox_secret(home: Path, name: str) -> str:
    """A secret's value in the sandbox: the file `secrets/NAME` of the home directory, else a text that says so."""
    bare = name.partition("@")[0]
    try:
        return (home / "secrets" / bare).read_text().rstrip("\n")
    except OSError:
        return f"sandbox value of {bare}"


def _mailbox_path(directory: Path) -> Path:
    """A short path of its own for each state directory: socket addresses are limited to about 100 bytes."""
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tpufn-{os.getuid()}-{name}.sock"
