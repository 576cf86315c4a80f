"""The client of the embedded modes: reads the store, publishes to the bus, with and without a running engine."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpufn.adapters.local_bus import LocalBus, Message
from tpufn.adapters.lock import EngineLock
from tpufn.adapters.sqlite import SqliteStore
from tpufn.changing import Changing
from tpufn.decide.submit import taken
from tpufn.declare import apply_fleet
from tpufn.domain.errors import Conflict, InputError
from tpufn.domain.fleet import Fleet, Mode
from tpufn.domain.job import TERMINAL, JobState
from tpufn.domain.views import Receipt, Status
from tpufn.ports import Blobs, Clock
from tpufn.reading import Pace

_PACE = Pace(wait=0.005, follow=0.05)
NAMED = 5
"""Messages that are named when they wait for an engine."""


class EmbeddedClient(Changing):
    """See `client.Client` for the contract. `lock` tells whether an engine runs, `left_behind` what other ones left."""

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
        left_behind: Callable[[], Mapping[str, str]] = dict,
        other_source: Callable[[], str] = str,
    ) -> None:
        reading: dict[str, Any] = {"mode": mode, "where": where, "fleet": fleet, "store": store, "blobs": blobs}
        sending: dict[str, Any] = {"user": user, "scratch": scratch, "new_id": new_id, "letters": bus}
        super().__init__(clock=clock, pace=_PACE, **reading, **sending)
        self._bus, self._lock = bus, lock
        self._left_behind, self._other_source = left_behind, other_source

    def advice(self) -> tuple[str, ...]:
        """Engine and client are of one installation; but the engine may not be there."""
        if self._is_served():
            return ()
        if waiting := [_in_words(message) for message in self._bus.waiting()]:
            number = f"{len(waiting)} {'message waits' if len(waiting) == 1 else 'messages wait'}"
            more = [f"and {len(waiting) - NAMED} more"] if len(waiting) > NAMED else []
            return (f"{number} for an engine ({', '.join([*waiting[:NAMED], *more])}): `tpufn up` takes them on",)
        with self._store.cut() as cut:
            live = cut.jobs_in(set(JobState) - TERMINAL, limit=1)
        return ("no engine runs here: nothing goes on until `tpufn up` does",) if live else ()

    def caution(self) -> str:
        other = self._other_source()
        alike = "two files of one `name` share one state, and the pools of the one leave with the other"
        return f"this state was declared by {other}: {alike}; give this one a name of its own" if other else ""

    def left_behind(self) -> Mapping[str, str]:
        return self._left_behind()

    def status(self) -> Status:
        served = self._is_served()
        status = self._status(engine="running" if served else "not running", dead_letters=self._bus.count())
        return replace(status, waiting=0 if served else len(self._bus.waiting()))

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

    def _undelivered(self, receipt: Receipt) -> str:
        if not self._bus.count():
            return ""
        letters = (letter for letter in self._bus.letters() if letter.topic == "submissions")
        return next((each.problem for each in letters if f'"{receipt.submission}"' in each.body), "")

    def _is_sent(self, id: str) -> bool:
        return any(id in _ids(message) for message in self._bus.waiting())

    def _assumed(self, buckets: Mapping[str, str], fleet: Fleet) -> Iterator[str]:
        for region, name in buckets.items() if self.mode is Mode.SANDBOX else ():
            if region not in name and name not in fleet.buckets:
                yield f"gs://{name} is taken to be in {region}: neither its name nor the deployment file says a region"

    def _refuse_taken(self, receipt: Receipt) -> None:
        super()._refuse_taken(receipt)
        from tpufn.spec.submission import digest

        same = (receipt.submission, receipt.digest)
        waiting = [message for message in self._bus.waiting() if message.topic == "submissions"]
        others = [message for message in waiting if (message.body.get("submission_id"), digest(message.body)) != same]
        clashing = sorted({id for message in others for id in _ids(message)} & set(receipt.jobs))
        if clashing:
            raise Conflict(taken(clashing))

    def _publish(self, topic: str, body: Mapping[str, Any]) -> None:
        self._bus.publish(topic, body)

    def _is_served(self) -> bool:
        return self._lock.is_held()


def _ids(message: Message) -> tuple[str, ...]:
    """The jobs of a submission."""
    jobs = message.body.get("jobs") or () if message.topic == "submissions" else ()
    return tuple(str(job.get("id") or job.get("name")) for job in jobs)


def _in_words(message: Message) -> str:
    """`submission of a, b`, `cancel of a`."""
    if message.topic == "commands":
        return f"{message.body.get('verb')} of {message.body.get('target')}"
    return f"submission of {', '.join(_ids(message))}"
