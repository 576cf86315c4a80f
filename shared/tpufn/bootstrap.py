"""Settings -> ports: the only module that names an adapter, and the only one that knows what a mode is made of."""

import hashlib
import os
import random
import secrets
import shutil
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path


from tpufn.adapters.files import FileBlobs
from tpufn.adapters.local_bus import LocalBus, Mailbox
from tpufn.adapters.lock import EngineLock
from tpufn.adapters.sqlite import SqliteStore
from tpufn.domain.errors import CloudUnavailable, InputError
from tpufn.domain.fleet import Fleet, Mode
from tpufn.domain.notes import Note
from tpufn.domain.policy import SANDBOX
from tpufn.embedded import EmbeddedClient
from tpufn.engine import EmbeddedEngine
from tpufn.flows.effects import PERFORMERS
from tpufn.ports import Clock, Commit, Ports
from tpufn.runner import Runner
from tpufn.settings import Settings
from tpufn.simulation.clock import WallClock
from tpufn.simulation.regions import SandboxRegions

WORKER_CAP = 4
"""Local workers per simulated TPU: a v6e-64 does not start 16 of them."""
_KEEP_RUNS = 10


@dataclass(frozen=True, kw_only=True)
class Place:
    """A state directory and the fleet that the deployment file declares for it (None: only what is stored)."""

    mode: Mode
    directory: Path
    fleet: Fleet | None

    @property
    def where(self) -> str:
        shown = str(self.directory).replace(str(Path.home()), "~", 1)
        return f"{self.mode} {self.directory.name} in {shown}"


def choose(settings: Settings, *, sandbox: bool, starts: bool, fresh: bool = False) -> Place:
    """Mode and deployment: --deployment, TPUFN_DEPLOYMENT, ./deployment.yaml; else only what starts a sandbox may go on.

    `starts`: the command starts an engine (demo, run, up). `fresh`: with a state directory of its own.
    """
    named = settings.home / "sandbox" / settings.deployment if settings.deployment else None
    if named is not None and not Path(settings.deployment).exists() and (named / "state.sqlite").exists():
        return Place(mode=Mode.SANDBOX, directory=named, fleet=None)
    fleet = _declared(settings)
    if fleet is None and not (sandbox or starts):
        raise InputError(_NOTHING_SAYS)
    if fleet is not None and fleet.mode is Mode.LAPTOP and not sandbox:
        return Place(mode=Mode.LAPTOP, directory=settings.home / "laptop" / fleet.name, fleet=fleet)
    fleet = fleet or default_fleet()
    place = Place(mode=Mode.SANDBOX, directory=settings.home / "sandbox" / fleet.name, fleet=fleet)
    if fresh:
        return replace(place, directory=_fresh(settings.home / "sandbox", fleet.name))
    if not sandbox and not starts and not EngineLock(place.directory / "engine.lock").is_held():
        raise CloudUnavailable(
            f"deployment {fleet.name} has mode cloud, and no sandbox engine of it runs here: "
            "add --sandbox, or start one with `tpufn up --sandbox`"
        )
    return place


_NOTHING_SAYS = (
    "nothing says which deployment is meant: write one with `tpufn init`, name one with --deployment PATH, "
    "or add --sandbox to use simulated TPUs on this machine"
)


def _declared(settings: Settings) -> Fleet | None:
    path = settings.deployment or ("deployment.yaml" if Path("deployment.yaml").exists() else "")
    if not path:
        return None
    from tpufn.spec.deployment import load_deployment

    return load_deployment(path).fleet


def default_fleet() -> Fleet:
    """The sandbox's fleet where no file declares one: two slots of many types, in the zones that sell them."""
    from tpufn.domain.accelerators import FAMILIES
    from tpufn.domain.fleet import Pool, pool_id

    sizes = {"v4": (8, 16, 32, 64), "v5e": (4, 8, 16, 64), "v5p": (8, 16, 32), "v6e": (4, 8, 16, 64)}
    pools = [
        Pool(
            id=pool_id(Pool.model, f"{family.prefix}-{size}", zone),
            type=f"{family.prefix}-{size}",
            zone=zone,
            count=2,
            runtime=family.runtimes[0],
        )
        for name, family in FAMILIES.items()
        for size in sizes.get(name, ())
        for zone in family.zones[:3]
    ]
    return Fleet(name="sandbox", project="sandbox", mode=Mode.SANDBOX, pools=tuple(pools), idle_timeout=60.0)


def _fresh(parent: Path, name: str) -> Path:
    """A new state directory `<name>-<n>`; the oldest of its kind go, as far as no engine runs on them."""
    parent.mkdir(parents=True, exist_ok=True)
    mine = sorted((d for d in parent.glob(f"{name}-run*") if d.is_dir()), key=lambda d: d.stat().st_mtime)
    for old in mine[: max(0, len(mine) - _KEEP_RUNS + 1)]:
        if not EngineLock(old / "engine.lock").is_held():
            shutil.rmtree(old, ignore_errors=True)
    for number in range(1, 100_000):
        directory = parent / f"{name}-run{number}"
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        return directory
    raise InputError(f"{parent} is full of old runs: remove some")


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


def parts(place: Place, settings: Settings) -> Parts:
    if place.mode is not Mode.SANDBOX:
        raise CloudUnavailable(f"mode {place.mode} is not available in this build: add --sandbox")
    clock, directory = WallClock(), place.directory
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
    )
    return Parts(place=place, clock=clock, store=store, bus=bus, blobs=blobs, lock=lock, client=client)


class Sandbox:
    """The embedded engine over simulated TPUs whose jobs really run. See `client.Engine` for the contract."""

    def __init__(self, place: Place, settings: Settings, *, seed: int | None, speed: float) -> None:
        from tpufn.simulation.capacity import Capacity
        from tpufn.simulation.cloud import SimulatedCloud
        from tpufn.simulation.workers import LocalWorkers

        self._parts = p = parts(place, settings)
        self.client = p.client
        directory = place.directory
        mailbox = _mailbox_path(directory)
        workers = LocalWorkers(directory / "hosts", directory / "buckets", socket=mailbox)
        chance = secrets.randbits(32) if seed is None else seed
        self.simulation = SimulatedCloud(
            Capacity(seed=chance, speed=speed, worker_cap=WORKER_CAP),
            clock=p.clock,
            hosts=workers,
            path=directory / "cloud.sqlite",
        )
        ports = Ports(
            store=p.store, bus=p.bus, cloud=self.simulation, workers=workers, blobs=p.blobs, clock=p.clock
        )
        runner = make_runner(ports)
        self._engine = EmbeddedEngine(
            runner,
            p.bus,
            clock=p.clock,
            lock=p.lock,
            mailbox=Mailbox(mailbox, lambda topic, body: self._engine.deliver(topic, body)),
            log=directory / "engine.log",
            advance=self.simulation.advance,
        )
        p.store.on_commit(self._engine.on_commit)

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
        deadline = self._parts.clock.now() + timeout
        while self.simulation.provisioned() and self._parts.clock.now() < deadline:
            self._parts.clock.sleep(0.05)
        return int(self.simulation.provisioned())

    def _apply(self) -> None:
        if self._parts.place.fleet is not None:
            apply_fleet(self._parts.store, self._parts.place.fleet)


def make_runner(ports: Ports) -> Runner:
    return Runner(
        ports,
        policy=SANDBOX,
        performers=dict(PERFORMERS),
        new_id=lambda: uuid.uuid4().hex,
        jitter=lambda attempt: random.uniform(0.0, 0.01 * 2**attempt),
    )


def apply_fleet(store: SqliteStore, fleet: Fleet) -> Fleet:
    """Declare the fleet: a new revision where anything differs. The deployment's nonce is made once and kept."""
    with store.cut() as cut:
        there = cut.fleet()
    nonce = there.nonce if there else secrets.token_hex(4)
    revision, version = (there.revision, there.version) if there else (0, "")
    fresh = replace(fleet, nonce=nonce, revision=revision, version=version)
    if fresh == there:
        return fresh
    fresh = replace(fresh, revision=revision + 1)
    store.commit(Commit(id=uuid.uuid4().hex, writes=(fresh,)))
    return fresh


def _mailbox_path(directory: Path) -> Path:
    """A short path of its own for each state directory: socket addresses are limited to about 100 bytes."""
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tpufn-{os.getuid()}-{name}.sock"


