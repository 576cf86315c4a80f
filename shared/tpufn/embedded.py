"""The client of the embedded modes: reads the store, publishes to the bus, with and without a running engine."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tpufn.adapters.local_bus import LocalBus
from tpufn.adapters.lock import EngineLock
from tpufn.adapters.sqlite import SqliteStore
from tpufn.changing import Changing
from tpufn.declare import apply_fleet
from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet, Mode
from tpufn.domain.views import Status
from tpufn.ports import Blobs, Clock
from tpufn.reading import Pace

_PACE = Pace(wait=0.005, follow=0.05)
NAMED = 5
"""Messages that are named when they wait for an engine."""


class EmbeddedClient(Changing):
    """See `client.Client` for the contract. `lock` tells whether an engine runs."""

    def __init__(
        self,
        *,
        mode: Mode,
        where: str,
        fleet: Fleet | None,
        store: SqliteStore,
        bus: LocalBus,
        blobs: Blobs,
        clock: Clock,
        lock: EngineLock,
        user: str,
        scratch: Path,
        new_id: Callable[[], str],
    ) -> None:
        reading: dict[str, Any] = {"mode": mode, "where": where, "fleet": fleet, "store": store, "blobs": blobs}
        sending: dict[str, Any] = {"user": user, "scratch": scratch, "new_id": new_id, "letters": bus}
        super().__init__(clock=clock, pace=_PACE, **reading, **sending)
        self._bus, self._lock = bus, lock

    def advice(self) -> tuple[str, ...]:
        """Engine and client are of one installation; but the engine may not be there."""
        waiting = () if self._is_served() else self._bus.waiting()
        if not waiting:
            return ()
        number = f"{len(waiting)} {'message waits' if len(waiting) == 1 else 'messages wait'}"
        return (f"{number} for an engine ({', '.join(waiting[:NAMED])}): `tpufn up` takes them on",)

    def status(self) -> Status:
        return self._status(engine="running" if self._is_served() else "not running", dead_letters=self._bus.count())

    def apply(self, path: str = "") -> Fleet:
        return apply_fleet(self._store, self._loaded(path), anew=True)

    def tick(self) -> str:
        raise InputError(self._own_ticks("tick"))

    def pause(self) -> str:
        raise InputError(self._own_ticks("pause"))

    def resume(self) -> str:
        raise InputError(self._own_ticks("resume"))

    def _own_ticks(self, verb: str) -> str:
        return f"`tpufn {verb}` is for mode cloud; in mode {self.mode} the engine ticks by itself while `tpufn up` runs"

    def _publish(self, topic: str, body: Mapping[str, Any]) -> None:
        self._bus.publish(topic, body)

    def _is_served(self) -> bool:
        return self._lock.is_held()
