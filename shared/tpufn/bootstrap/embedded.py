"""What every mode with an embedded engine is made of: store and bus in the state directory, and the client on them."""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from tpufn.adapters.local_bus import LocalBus
from tpufn.adapters.lock import EngineLock
from tpufn.adapters.sqlite import SqliteStore
from tpufn.declare import apply_fleet
from tpufn.domain.fleet import Fleet
from tpufn.domain.policy import Policy
from tpufn.embedded import EmbeddedClient
from tpufn.flows.effects import PERFORMERS
from tpufn.place import Place, left_behind, other_source, sign
from tpufn.ports import Blobs, Clock, Ports
from tpufn.runner import Runner, Together, in_order
from tpufn.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Parts:
    """`blobs` is the mode's own; all else is the same in each."""

    place: Place
    clock: Clock
    store: SqliteStore
    bus: LocalBus
    blobs: Blobs
    lock: EngineLock
    client: EmbeddedClient


def make_parts(
    place: Place,
    settings: Settings,
    *,
    clock: Clock,
    blobs: Callable[[Fleet | None], Blobs],
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
) -> Parts:
    """The embedded parts of a place. `blobs` is told the fleet, as far as one is declared or stored."""
    directory = place.directory
    store, bus = SqliteStore(directory / "state.sqlite", clock), LocalBus(directory / "bus.sqlite", clock)
    with store.cut() as cut:
        fleet = place.fleet or cut.fleet()
    buckets, lock = blobs(fleet), EngineLock(directory / "engine.lock")
    client = EmbeddedClient(
        mode=place.mode,
        where=place.where,
        fleet=fleet,
        store=store,
        bus=bus,
        blobs=buckets,
        clock=clock,
        lock=lock,
        user=settings.user,
        scratch=directory / "bundles",
        new_id=new_id,
        left_behind=lambda: left_behind(place),
        other_source=lambda: other_source(place),
    )
    return Parts(place=place, clock=clock, store=store, bus=bus, blobs=buckets, lock=lock, client=client)


def make_runner(ports: Ports, policy: Policy, *, together: Together = in_order) -> Runner:
    return Runner(
        ports,
        policy=policy,
        performers=dict(PERFORMERS),
        new_id=lambda: uuid.uuid4().hex,
        jitter=lambda attempt: random.uniform(0.0, 0.01 * 2**attempt),
        together=together,
    )


def declare(parts: Parts) -> None:
    """The fleet of the deployment file becomes the state's."""
    if parts.place.fleet is not None:
        apply_fleet(parts.store, parts.place.fleet)
        sign(parts.place)


def keep_nothing(parts: Parts) -> None:
    """From here on nothing is kept warm or idle, until the file is declared again."""
    with parts.store.cut() as cut:
        fleet = cut.fleet()
    if fleet is not None:
        pools = tuple(replace(pool, keep_warm=0) for pool in fleet.pools)
        apply_fleet(parts.store, replace(fleet, pools=pools, idle_timeout=0.0))
