"""The client of mode cloud, thin: publishes submissions and commands, reads Firestore and Cloud Storage, all with the
person's own credentials. Everything that decides runs in the functions.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tpufn import __version__
from tpufn.changing import Changing
from tpufn.declare import apply_fleet, version_advice
from tpufn.domain.errors import CloudUnavailable, NotFound
from tpufn.domain.events import Tick
from tpufn.domain.fleet import Fleet, Mode, own_bucket
from tpufn.domain.views import Status
from tpufn.ports import Blobs, Bus, Clock, DeadLetters, Store, Ticks, TickState
from tpufn.reading import Pace
from tpufn.wire import to_body

_PACE = Pace(wait=0.2, follow=1.0)
LARGEST = 200_000
"""Bytes of a message. A larger submission is an object that the message names."""
_LATE = 180.0
"""Seconds without a tick, which is due each minute."""


class CloudClient(Changing):
    """See `client.Client` for the contract."""

    def __init__(
        self,
        *,
        where: str,
        fleet: Fleet | None,
        store: Store,
        bus: Bus,
        blobs: Blobs,
        clock: Clock,
        ticks: Ticks,
        letters: DeadLetters,
        user: str,
        scratch: Path,
        new_id: Callable[[], str],
    ) -> None:
        reading: dict[str, Any] = {"mode": Mode.CLOUD, "where": where, "fleet": fleet, "store": store, "blobs": blobs}
        sending: dict[str, Any] = {"user": user, "scratch": scratch, "new_id": new_id, "letters": letters}
        super().__init__(clock=clock, pace=_PACE, **reading, **sending)
        self._bus, self._ticks = bus, ticks

    def advice(self) -> tuple[str, ...]:
        with self._store.cut() as cut:
            fleet = cut.fleet()
        return version_advice(fleet.functions if fleet else "", __version__)

    def status(self) -> Status:
        return self._status(engine=self._engine(), dead_letters=self._letters.count())

    def _engine(self) -> str:
        try:
            ticks = self._ticks.ticks()
        except (NotFound, CloudUnavailable):
            return "unknown"  # not everybody may look
        if any(tick.paused for tick in ticks):
            return "paused"
        return "late" if self._are_late(ticks) else "running"

    def _are_late(self, ticks: "tuple[TickState, ...] | Any") -> bool:
        """None ran lately. One that is just made has not run yet, and is due soon."""
        now = self._clock.now()
        return not any(now - tick.last_run < _LATE or (not tick.last_run and tick.next_run > now) for tick in ticks)

    def apply(self, path: str = "") -> Fleet:
        applied = apply_fleet(self._store, self._loaded(path), anew=True)
        self._publish("ticks", to_body(Tick(full=True)))
        return applied

    def tick(self) -> str:
        self._publish("ticks", to_body(Tick(full=True)))
        return "a tick is on its way: everything is compared with the cloud, and what is overdue is woken"

    def pause(self) -> str:
        self._ticks.pause()
        return "the ticks are paused: what is under way goes on by its own events; `tpufn resume` starts them again"

    def resume(self) -> str:
        self._ticks.resume()
        return "the ticks run again"

    def _publish(self, topic: str, body: Mapping[str, Any]) -> None:
        if topic == "submissions":
            body = self._bounded(body)
        self._bus.publish(topic, body)

    def _bounded(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The message, or one that names an object with the jobs where it would be too large."""
        data = json.dumps(body).encode()
        if len(data) <= LARGEST:
            return body
        bucket = own_bucket(self.fleet())
        key = f"submissions/{hashlib.sha256(data).hexdigest()}.json"
        self._blobs.put(bucket, key, data, once=True)
        kept = {name: value for name, value in body.items() if name != "jobs"}
        return {**kept, "specs": f"gs://{bucket}/{key}"}

    def _is_served(self) -> bool:
        return True

    def _unanswered(self) -> str:
        return "the message is safe; look at `tpufn status` and `tpufn dead-letters list`"
