"""Laptop mode: the embedded engine over the Cloud TPU API, Cloud Storage and SSH. Nothing is deployed.

The workers have no topic to report to: what they write into the job's bucket is found by the ticks. The state is this
machine's, so the engine may be away for hours: jobs run on, and what became of them is read when it is back.
"""

import time
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path

from tpufn.adapters.files import FileBlobs
from tpufn.adapters.gcs import CloudBlobs
from tpufn.adapters.gcs import connect as connect_storage
from tpufn.bootstrap.embedded import Parts, declare, keep_nothing, make_parts, make_runner
from tpufn.bootstrap.remote import CloudSite, local_workers, runner_key, ssh_workers
from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet
from tpufn.domain.notes import Note
from tpufn.domain.policy import SANDBOX, Policy
from tpufn.embedded import EmbeddedClient
from tpufn.engine import EmbeddedEngine
from tpufn.place import Place
from tpufn.ports import NoSite, Ports, Site, TpuCloud, Workers
from tpufn.runner import side_by_side
from tpufn.settings import Deployed, Settings, laptop
from tpufn.simulation.clock import WallClock

THREADS = 8
"""Events handled side by side: a call of the cloud may take half a minute."""
PATIENCE = 900.0
"""Seconds for TPUs to go at the end of a run: a delete takes minutes."""
_TICK = 10.0
_PINS = "host-keys"


def parts(place: Place, settings: Settings) -> Parts:
    """Raises InputError where the file says no project."""
    fleet = place.fleet
    if fleet is None or not fleet.project:
        raise InputError("the deployment file does not say which `project` the TPUs are in")
    storage = partial(connect_storage, fleet.project, settings.storage_endpoint)
    return make_parts(place, settings, clock=WallClock(), blobs=lambda _: CloudBlobs(storage))


def client(place: Place, settings: Settings) -> EmbeddedClient:
    return parts(place, settings).client


class Laptop:
    """The embedded engine over Google's services. See `client.Engine` for the contract."""

    simulation = None

    def __init__(self, place: Place, settings: Settings) -> None:
        self._parts = p = parts(place, settings)
        assert place.fleet is not None
        self.client = p.client
        reach = _Reach(place.fleet, p)
        ports = Ports(
            store=p.store,
            bus=p.bus,
            cloud=reach.cloud,
            workers=reach.workers,
            blobs=p.blobs,
            clock=p.clock,
            site=reach.site,
        )
        self._ready = reach.ready
        self._engine = EmbeddedEngine(
            make_runner(ports, reach.policy, together=side_by_side),
            p.bus,
            clock=p.clock,
            lock=p.lock,
            log=place.directory / "engine.log",
            threads=THREADS,
        )
        p.store.on_commit(self._engine.on_commit)

    def start(self) -> None:
        self._engine.start_on(self._prepare)

    def _prepare(self) -> None:
        self._ready()
        declare(self._parts)

    def stop(self) -> None:
        self._engine.stop()

    def subscribe(self, listener: Callable[[Note], None]) -> None:
        self._engine.subscribe(listener)

    def drain(self, *, timeout: float = PATIENCE) -> int:
        """Release every TPU that no live job uses, and wait until the cloud has let them go."""
        keep_nothing(self._parts)
        deadline = time.monotonic() + timeout
        while (held := self._held()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return held

    def _held(self) -> int:
        with self._parts.store.cut() as cut:
            return sum(slot.holds_chips for slot in cut.slots() if not slot.hold and not slot.adopted)


class _Reach:
    """What reaches the cloud from this machine, each made when it is first used."""

    def __init__(self, fleet: Fleet, parts: Parts) -> None:
        self._fleet, self._parts = fleet, parts
        transport = fleet.settings.get("ssh_transport") or "direct"
        self._told: Deployed = laptop(fleet.name, fleet.project, ssh_transport=transport)

    @property
    def policy(self) -> Policy:
        """Production's, but the cloud and the buckets are looked at as often as the file says."""
        if self._told.policy == "sandbox":
            return SANDBOX
        return Policy(tick=float(self._fleet.settings.get("poll_interval") or _TICK))

    @cached_property
    def cloud(self) -> TpuCloud:
        from tpufn.adapters.tpu_api import CloudTpu, connect

        endpoint = self._told.tpu_endpoint
        return CloudTpu(self._fleet.project, clock=self._parts.clock, client=lambda: connect(endpoint))

    @cached_property
    def workers(self) -> Workers:
        if self._home is not None:
            return local_workers(self._told, self._home)
        pins = FileBlobs(self._parts.place.directory, {_PINS: "here"})
        return ssh_workers(self._told, self._parts.blobs, pins=pins, pin_bucket=_PINS)

    @cached_property
    def site(self) -> Site:
        return NoSite() if self._home is not None else CloudSite(self._told)

    def ready(self) -> None:
        """The runner's key pair, made once, straight into Secret Manager."""
        if self._home is None:
            runner_key(self._told).ensure()

    @property
    def _home(self) -> Path | None:
        return self._told.local_home
