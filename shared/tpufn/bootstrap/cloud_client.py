"""A person's client of mode cloud: the cloud's ports with their own credentials, each made when it is first used."""

import uuid
from functools import partial

from tpufn.adapters.firestore import FirestoreStore
from tpufn.adapters.gcs import CloudBlobs
from tpufn.adapters.gcs import connect as connect_storage
from tpufn.adapters.pubsub import PubSubBus, topic_id
from tpufn.adapters.pubsub_dead_letters import PubSubDeadLetters
from tpufn.adapters.scheduler import CloudTicks
from tpufn.adapters.scheduler import connect as connect_scheduler
from tpufn.cloud_client import CloudClient
from tpufn.domain.errors import InputError
from tpufn.place import Place
from tpufn.settings import Settings
from tpufn.simulation.clock import WallClock
from tpufn.wire import TOPICS

TICKS = ("tick", "sweep")
"""The jobs of Cloud Scheduler, as Terraform names them."""
_REGION = "us-central1"


def client(place: Place, settings: Settings) -> CloudClient:
    """Raises InputError where the file says no project."""
    fleet = place.fleet
    if fleet is None or not fleet.project:
        raise InputError("the deployment file does not say which `project` the deployment is in")
    project, name = fleet.project, fleet.name
    bus = PubSubBus(project, name)
    region = fleet.settings.get("controller_region") or _REGION
    connect = partial(connect_scheduler, settings.scheduler_endpoint)
    return CloudClient(
        where=place.where,
        fleet=fleet,
        store=FirestoreStore(project, name, database=settings.database),
        bus=bus,
        blobs=CloudBlobs(partial(connect_storage, project, settings.storage_endpoint)),
        clock=WallClock(),
        ticks=CloudTicks(project, region, [topic_id(name, tick) for tick in TICKS], client=connect),
        letters=PubSubDeadLetters(project, name, bus=bus, topics=tuple(TOPICS)),
        user=settings.user,
        scratch=place.directory / "bundles",
        new_id=lambda: uuid.uuid4().hex,
    )
