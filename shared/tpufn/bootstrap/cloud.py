"""The deployed functions: Firestore, Pub/Sub, Cloud Storage, the Cloud TPU API, and the workers over SSH.

Each port is made when it is first used: a function pays only for what it touches, and importing stays importing.
"""

import random
import uuid
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from tpufn import __version__
from tpufn.adapters.firestore import FirestoreStore
from tpufn.adapters.pubsub import PubSubBus
from tpufn.declare import stamp_functions
from tpufn.domain.effects import Kind
from tpufn.domain.errors import CloudUnavailable
from tpufn.domain.notes import Note
from tpufn.domain.policy import SANDBOX, Policy
from tpufn.flows import registry
from tpufn.ports import Blobs, Clock, NoSite, Ports, Site, Store, TpuCloud, Workers
from tpufn.runner import Performer, Runner, side_by_side
from tpufn.settings import Deployed
from tpufn.simulation.clock import WallClock


class CloudPorts(Ports):
    """Ports that are made on first use."""

    _settings: Deployed

    def __init__(self, settings: Deployed) -> None:  # not the dataclass's own: nothing is given, all is made
        self.__dict__["_settings"] = settings

    @cached_property
    def store(self) -> Store:
        return FirestoreStore(self._settings.project, self._settings.name, database=self._settings.database)

    @cached_property
    def bus(self) -> PubSubBus:
        return PubSubBus(self._settings.project, self._settings.name)

    @cached_property
    def clock(self) -> Clock:
        return WallClock()

    @cached_property
    def cloud(self) -> TpuCloud:
        from tpufn.adapters.tpu_api import CloudTpu, connect

        endpoint = self._settings.tpu_endpoint
        return CloudTpu(self._settings.project, clock=self.clock, client=lambda: connect(endpoint))

    @cached_property
    def blobs(self) -> Blobs:
        from tpufn.adapters.gcs import CloudBlobs, connect

        project, endpoint = self._settings.project, self._settings.storage_endpoint
        return CloudBlobs(lambda: connect(project, endpoint))

    @cached_property
    def workers(self) -> Workers:
        """The workers over SSH, or the local ones of a simulated cloud on this machine."""
        from tpufn.bootstrap.remote import local_workers, ssh_workers

        if self._settings.local_home is not None:
            return local_workers(self._settings, self._settings.local_home)
        return ssh_workers(self._settings, self.blobs)

    @cached_property
    def site(self) -> Site:
        if self._settings.local_home is not None:
            return NoSite()
        from tpufn.bootstrap.remote import CloudSite

        return CloudSite(self._settings)


def performers(function: str) -> dict[Kind, Performer]:
    """Those of the effects that the function owns: most own none, and need nothing of what performing takes."""
    owned = registry.function(function).owns
    if not owned:
        return {}
    from tpufn.flows.effects import PERFORMERS

    return {kind: performer for kind, performer in PERFORMERS.items() if kind in owned}


def runner(settings: Deployed, *, function: str, complain: Callable[[str], None]) -> Runner:
    """The one loop over the cloud's ports. `autoscale` says for all functions of which version they are.

    A feed that cannot be reached is told to `complain` and stops nothing: effects that are claimed want to be
    performed, and what happened is in the history anyway.
    """
    ports = CloudPorts(settings)
    if function == "autoscale":
        stamp_functions(ports.store, __version__)

    def announce(notes: Sequence[Note]) -> None:
        try:
            ports.bus.publish_all("notices", [msgspec.to_builtins(note) for note in notes])
        except CloudUnavailable as error:
            complain(f"{len(notes)} notices are lost: {error}")

    return Runner(
        ports,
        policy=SANDBOX if settings.policy == "sandbox" else Policy(),
        performers=performers(function),
        new_id=lambda: uuid.uuid4().hex,
        jitter=lambda attempt: random.uniform(0.0, 0.05 * 2**attempt),
        announce=announce,
        together=side_by_side,
    )
