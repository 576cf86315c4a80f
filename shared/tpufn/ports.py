"""The ports: what the core asks of the world. Few and high-level; the contract is in the docstrings.

Each port has one conformance suite in `tests/contracts`, run over all of its implementations.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tpufn.domain.attempt import Attempt
from tpufn.domain.capacity import CreateOutcome, Scope
from tpufn.domain.cloud import CreateOrder, Tpu
from tpufn.domain.effects import Row
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobSpec, JobState
from tpufn.domain.notes import Note
from tpufn.domain.orders import LaunchOrder, StopOrder
from tpufn.domain.slot import Slot
from tpufn.domain.views import DeadLetter

Document = Job | JobSpec | Attempt | Slot | Scope | CreateOutcome | Row | Fleet


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One atomic batch. Every document is written only if its stored version is still `document.version` ("" means
    that it must not exist yet); `deletes` are conditional in the same way. Notes are appended."""

    id: str
    writes: tuple[Document, ...] = ()
    deletes: tuple[Document, ...] = ()
    notes: tuple[Note, ...] = ()


class Cut(Protocol):
    """A consistent cut: everything read through one Cut is of one moment, `now` (Unix seconds, the store's clock)."""

    @property
    def now(self) -> float: ...
    def fleet(self) -> Fleet | None: ...
    def job(self, id: str) -> Job | None: ...
    def spec(self, id: str) -> JobSpec | None: ...
    def attempt(self, id: str) -> Attempt | None: ...
    def slot(self, name: str) -> Slot | None: ...
    def slots(self) -> Sequence[Slot]:
        """Every slot, by name."""

    def scopes(self) -> Sequence[Scope]:
        """Every scope, by id."""

    def row(self, entity: str) -> Row | None: ...
    def rows(self, *, limit: int = 500) -> Sequence[Row]:
        """Open effects, by entity."""

    def jobs_wanting(
        self, keys: Collection[str], *, states: Collection[JobState], after: str = "", limit: int = 50
    ) -> Sequence[Job]:
        """Jobs in one of `states` whose `accepts` holds any of `keys`, in rank order, with rank > `after`."""

    def jobs_in(self, states: Collection[JobState], *, limit: int, newest: bool = False) -> Sequence[Job]:
        """Jobs in one of `states`, in the order of their submit time."""

    def jobs_due(self, *, before: float, limit: int = 100) -> Sequence[Job]:
        """Waiting or pending jobs whose backoff or queue deadline has passed by `before`."""

    def attempts(self, job: str) -> Sequence[Attempt]:
        """A job's attempts, by number."""

    def history(self, job: str, *, after: str = "", limit: int = 1000) -> Sequence[Note]:
        """A job's notes in the order of their commits; `after` is the id of the last one seen."""

    def feed(self, *, after: str = "", limit: int = 200) -> Sequence[Note]:
        """The newest notes of everything, oldest first: at most `limit`, and only those after the one of that id."""

    def outcomes(self, *, pool: str = "", limit: int = 20) -> Sequence[CreateOutcome]:
        """Creates' outcomes, newest first."""


class Store(Protocol):
    """Documents with versions. No hidden retry: a caller that loses a race hears of it."""

    def cut(self) -> AbstractContextManager[Cut]:
        """A read-only transaction."""

    def commit(self, commit: Commit) -> None:
        """Apply all of it or nothing. Raises Stale if any version is not the stored one, CommitUnknown if the answer
        was lost."""

    def applied(self, commit: Commit) -> bool:
        """Whether this commit was applied: asked after CommitUnknown, by the id that each write was stamped with."""


class TpuCloud(Protocol):
    """TPUs as queued resources with one node each, both of the same name. Room is left for other back ends: nothing
    here says how capacity is asked for. Every call is bounded by about 30 s.

    All raise Refused (the API's own words), or Unknown where a call ended without an answer.
    """

    def create(self, order: CreateOrder) -> None:
        """Ask for a TPU. Returning means accepted, not granted. The same request id twice asks once."""

    def get(self, name: str, zone: str) -> Tpu | None:
        """Queued resource and node of that name; None when both are *not found*."""

    def list(self, zone: str) -> Sequence[Tpu]:
        """Every queued resource and node of the project in that zone, ours or not."""

    def delete(self, name: str, zone: str) -> None:
        """Delete both, with force. Returning means accepted; gone is when `get` says None."""


class Workers(Protocol):
    """The hosts of a TPU. Launch and stop carry the lease; a worker refuses what its tombstone or generation outdates.

    Both are idempotent: launching twice for one attempt starts once.
    """

    def usable(self, tpu: Tpu) -> frozenset[int]:
        """The workers of a READY TPU that answer (bounded by about 15 s)."""

    def launch(self, order: LaunchOrder) -> Mapping[int, str]:
        """Deliver the order to every worker that has not accepted it; bounded in time and concurrency.
        Returns the workers that it did not reach, with the cause; their own answers are in the bucket."""

    def stop(self, order: StopOrder) -> Mapping[int, str]:
        """Write the tombstone and begin to stop, on every worker. Returns the workers that it did not reach."""

    def alive(self, tpu: Tpu, attempt: str) -> Mapping[int, bool]:
        """Per worker that answers: whether the attempt still runs there."""

    def introduce(self, tpu: str, worker: int, host_key: str) -> None:
        """Remember the host key that a worker reported at its boot, where none is known yet."""


@dataclass(frozen=True, kw_only=True)
class Object:
    """An object's metadata. `updated` is the bucket's clock, in Unix seconds."""

    key: str
    size: int
    updated: float
    generation: int


class Blobs(Protocol):
    """Buckets. Names are bare (`my-bucket`), keys have no leading slash. Raises NotFound for what is missing."""

    def region(self, bucket: str) -> str:
        """The bucket's one region."""

    def put(self, bucket: str, key: str, data: bytes, *, once: bool = False) -> bool:
        """Write an object. With `once` only if it does not exist: False when it did."""

    def upload(self, bucket: str, key: str, path: str, *, progress: Callable[[int], None] | None = None) -> bool:
        """Write a file once, content-addressed: False when it was there. `progress` is told the bytes sent."""

    def get(self, bucket: str, key: str, *, start: int = 0) -> bytes: ...
    def list(self, bucket: str, prefix: str) -> Sequence[Object]:
        """Objects whose key starts with `prefix`, by key."""


class Bus(Protocol):
    """Topics with at-least-once delivery: submissions, commands, worker-events, preemptions, worker-ready, wakes,
    notices. Bodies are JSON objects."""

    def publish(self, topic: str, body: Mapping[str, Any]) -> str:
        """Returns the message id once the message is durable."""

    def publish_all(self, topic: str, bodies: Iterable[Mapping[str, Any]]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class TickState:
    """How one tick stands. `failure` is what its last start ended with; "" for success, or where it never started.
    Times are Unix seconds, 0 where there is none."""

    name: str
    paused: bool
    last_run: float
    next_run: float
    failure: str = ""


class Ticks(Protocol):
    """A deployment's ticks. All raise NotFound where a tick is not deployed, and CloudUnavailable."""

    def pause(self) -> None:
        """Stop all ticks; those that are stopped already stay so."""

    def resume(self) -> None:
        """The opposite."""

    def ticks(self) -> Sequence[TickState]: ...


class DeadLetters(Protocol):
    """Messages that nobody could deliver or read, kept until a person looks. Raises CloudUnavailable."""

    def count(self) -> int:
        """How many there are, at a glance: none may be a mistake. -1 where the caller may not look."""

    def letters(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """The oldest of them; they stay."""

    def replay(self, ids: Collection[str]) -> Sequence[DeadLetter]:
        """Publish them again, each to its topic, and forget them; all of them where no id is given. Returns those that
        were found. What came from no topic is only forgotten."""


class Clock(Protocol):
    """Time for effects and engines. Decisions take `now` from the cut instead."""

    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class Secrets(Protocol):
    """Secret values, for the sandbox and for checks before a launch. On a TPU the agent reads them by itself."""

    def get(self, name: str) -> str: ...


class Site(Protocol):
    """What every TPU of a deployment is given when it is made."""

    @property
    def service_account(self) -> str:
        """The account that its workers run as; "" for the project's default."""

    def startup_script(self, slot: Slot, fleet: Fleet) -> str:
        """What root does at every boot; "" for nothing."""


class NoSite:
    """Simulated TPUs are given nothing."""

    service_account = ""

    def startup_script(self, slot: Slot, fleet: Fleet) -> str:
        return ""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Everything that the runner and the flows may touch."""

    store: Store
    bus: Bus
    cloud: TpuCloud
    workers: Workers
    blobs: Blobs
    clock: Clock
    site: Site = field(default_factory=NoSite)
