"""The reading half of every mode's client: what people are shown, from the store and the buckets alone."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tpufn.decide.bins import hourly
from tpufn.decide.explain import WhySnapshot, explain, outlook
from tpufn.decide.submit import TAKEN, is_of, rejected_id
from tpufn.domain.accelerators import price_per_hour
from tpufn.domain.attempt import Attempt
from tpufn.domain.capacity import CreateOutcome
from tpufn.domain.errors import CloudUnavailable, Conflict, InputError, NotFound
from tpufn.domain.fleet import Fleet, Mode, accepting_pools
from tpufn.domain.job import Job, JobState
from tpufn.domain.notes import Note
from tpufn.domain.slot import Slot, SlotState
from tpufn.domain.views import Explanation, JobView, LogPiece, PoolOutlook, Receipt, SlotView, Status
from tpufn.ports import Blobs, Clock, Cut, Store


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds between two looks: at a job that is awaited, and at notes and logs that are followed."""

    wait: float
    follow: float


class Reading:
    """See `client.Client` for the contract. `fleet` is what a file declares, for where nothing is stored yet."""

    def __init__(
        self, *, mode: Mode, where: str, fleet: Fleet | None, store: Store, blobs: Blobs, clock: Clock, pace: Pace
    ) -> None:
        self.mode, self.where = mode, where
        self._declared, self._store, self._blobs = fleet, store, blobs
        self._clock, self._pace = clock, pace

    def caution(self) -> str:
        return ""

    def left_behind(self) -> Mapping[str, str]:
        return {}

    def fleet(self) -> Fleet:
        with self._store.cut() as cut:
            return self._fleet(cut)

    def wait_accepted(self, receipt: Receipt, *, timeout: float = 30.0) -> tuple[Job, ...]:
        refused = rejected_id(receipt.submission, receipt.digest)
        deadline = self._clock.now() + timeout
        while True:
            if problem := self._undelivered(receipt):
                raise InputError(f"the submission could not be handled: {problem}; `tpufn dead-letters list` has it")
            with self._store.cut() as cut:
                jobs = [cut.job(id) for id in receipt.jobs]
                rejected = cut.job(refused)
            if rejected is not None:
                _raise_rejected(rejected)
            found = tuple(job for job in jobs if job and is_of(job, receipt.submission, receipt.digest))
            if len(found) == len(receipt.jobs):
                return found
            if self._clock.now() > deadline:
                raise CloudUnavailable(f"not accepted within {timeout:.0f} s; {self._unanswered()}")
            self._clock.sleep(self._pace.wait)

    def jobs(self, *, states: Collection[str] = (), limit: int = 100) -> tuple[Job, ...]:
        wanted = [JobState(s) for s in states] or list(JobState)
        with self._store.cut() as cut:
            return tuple(cut.jobs_in(wanted, limit=limit, newest=True))

    def job(self, id: str) -> JobView:
        with self._store.cut() as cut:
            job = self._job(cut, id)
            return JobView(job=job, spec=cut.spec(id), attempts=tuple(cut.attempts(id)), history=tuple(cut.history(id)))

    def _job(self, cut: Cut, id: str) -> Job:
        job = cut.job(id)
        if job is None and self._is_sent(id):
            raise NotFound(f"{id} is submitted, and no engine has taken it on yet: `tpufn up` does")
        if job is None:
            raise NotFound(f"there is no job {id} in {self.where}; `tpufn jobs` lists them")
        return job

    def _undelivered(self, receipt: Receipt) -> str:
        """Why a submission has become a dead letter, as far as that can be seen; "" where it has not."""
        return ""

    def _is_sent(self, id: str) -> bool:
        """Whether a submission of this job is on its way and can be seen there."""
        return False

    def _is_over(self, id: str) -> bool:
        """Whether nothing more is to come of a job. Raises NotFound where there is none, and none is on its way."""
        job = self._found(id)
        return job is not None and job.is_terminal

    def _found(self, id: str) -> Job | None:
        """The job; None where it is on its way. Raises NotFound where it is neither."""
        with self._store.cut() as cut:
            job = cut.job(id)
        if job is not None or self._is_sent(id):
            return job
        with self._store.cut() as cut:  # it may have arrived in between
            return self._job(cut, id)

    def why(self, id: str) -> Explanation:
        with self._store.cut() as cut:
            if cut.job(id) is None and self._is_sent(id):
                return Explanation(job=id, state="submitted", headline=_NOT_TAKEN, now=cut.now)
            job, fleet = self._job(cut, id), self._fleet(cut)
            pools = accepting_pools(fleet, job.accepts)
            keys = frozenset(key for pool in pools for key in pool.keys)
            ahead = cut.jobs_wanting(keys, states=(JobState.PENDING,), limit=51) if job.wants_capacity and keys else ()
            snapshot = WhySnapshot(
                now=cut.now,
                fleet=fleet,
                job=job,
                slots=cut.slots(),
                scopes={s.id: s for s in cut.scopes()},
                outcomes={p.id: cut.outcomes(pool=p.id, limit=1) for p in pools},
                attempts=cut.attempts(id),
                ahead=len(list(itertools.takewhile(lambda other: other.rank < job.rank, ahead))),
            )
        return explain(snapshot)

    def watch(self, ids: Collection[str], *, stop: Callable[[], bool] | None = None) -> Iterator[Note]:
        seen = dict.fromkeys(ids, "")
        while not (stop and stop()):
            over = [self._is_over(id) for id in ids]
            with self._store.cut() as cut:
                fresh = [note for id in ids for note in cut.history(id, after=seen[id])]
            for note in sorted(fresh, key=lambda n: n.at):
                seen[note.job] = note.id
                yield note
            if all(over):
                return
            self._clock.sleep(self._pace.follow)

    def logs(
        self,
        id: str,
        *,
        attempt: int | None = None,
        worker: int | None = None,
        follow: bool = False,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[LogPiece]:
        seen: dict[str, int] = {}
        while not (stop and stop()):
            ended = not follow or self._is_over(id)
            with self._store.cut() as cut:
                if not follow:
                    self._job(cut, id)  # of one that is on its way there is nothing to show, and that is said
                attempts = [a for a in cut.attempts(id) if attempt in (None, a.number)]
            _check_place(id, attempts, attempt, worker)
            for one in attempts:
                yield from self._pieces(one, worker, seen)
            if ended:
                return
            yield LogPiece(attempt=0, worker=0, data=b"")
            self._clock.sleep(self._pace.follow)

    def _pieces(self, attempt: Attempt, worker: int | None, seen: dict[str, int]) -> Iterator[LogPiece]:
        """What is new of an attempt's log, in the order of its writing."""
        prefix = f"{attempt.prefix}/logs/" + ("" if worker is None else f"worker-{worker}/")
        pieces = self._blobs.list(attempt.bucket, prefix)
        for piece in sorted((p for p in pieces if seen.get(p.key, 0) < p.size), key=lambda p: (p.updated, p.key)):
            data = self._blobs.get(attempt.bucket, piece.key, start=seen.get(piece.key, 0))
            seen[piece.key] = seen.get(piece.key, 0) + len(data)
            number = int(piece.key.rsplit("/", 2)[1].removeprefix("worker-"))
            yield LogPiece(attempt=attempt.number, worker=number, data=data)

    def outcomes(self, *, limit: int = 1000) -> tuple[CreateOutcome, ...]:
        with self._store.cut() as cut:
            return tuple(cut.outcomes(limit=limit))

    def slots(self) -> tuple[SlotView, ...]:
        with self._store.cut() as cut:
            fleet, slots = self._fleet(cut), cut.slots()
        known = {s.name: s for s in slots}
        listed = [known.get(name, Slot(name=name, pool=pool.id)) for name, pool in fleet.slots()]
        leaving = [s for s in slots if fleet.pool(s.pool) is None and s.state is not SlotState.RETIRED]
        return tuple(_slot_view(slot, fleet) for slot in (*listed, *leaving))

    def pools(self) -> tuple[PoolOutlook, ...]:
        with self._store.cut() as cut:
            fleet = self._fleet(cut)
            snapshot = WhySnapshot(
                now=cut.now,
                fleet=fleet,
                job=Job(id=""),
                slots=cut.slots(),
                scopes={s.id: s for s in cut.scopes()},
                outcomes={p.id: cut.outcomes(pool=p.id, limit=1) for p in fleet.pools},
                attempts=(),
                ahead=0,
            )
        return tuple(outlook(pool, snapshot) for pool in fleet.pools)

    def feed(self, *, after: str = "", limit: int = 200) -> tuple[Note, ...]:
        with self._store.cut() as cut:
            return tuple(cut.feed(after=after, limit=limit))

    def _status(self, *, engine: str, dead_letters: int) -> Status:
        with self._store.cut() as cut:
            fleet, slots, now = self._fleet(cut), cut.slots(), cut.now
            jobs = {state.value: len(cut.jobs_in((state,), limit=1000)) for state in JobState}
            rows = len(cut.rows())
        views = [_slot_view(slot, fleet) for slot in slots]
        states = [s.state.value for s in slots]
        holding = {s.name for s in slots if s.holds_chips}
        return Status(
            mode=self.mode.value,
            deployment=fleet.name,
            now=now,
            engine=engine,
            jobs={state: count for state, count in jobs.items() if count},
            slots={state: states.count(state) for state in dict.fromkeys(states)},
            chips=sum(p.chips for s in slots if s.holds_chips and (p := fleet.pool(s.pool))),
            cost_per_hour=sum(v.price_per_hour for v in views if v.name in holding and _is_charged(v.state)),
            open_effects=rows,
            dead_letters=dead_letters,
        )

    def _unanswered(self) -> str:
        """What to look at when nobody takes a submission on."""
        return "is an engine running? (`tpufn up`)"

    def _fleet(self, cut: Cut) -> Fleet:
        fleet = cut.fleet() or self._declared
        if fleet is None:
            raise NotFound("no fleet has been declared here yet: name a deployment file with -d, or start `tpufn up`")
        return fleet


def _check_place(id: str, attempts: Collection[Attempt], attempt: int | None, worker: int | None) -> None:
    """Raises NotFound for an attempt or a worker that there is not. A job without attempts may get any worker."""
    if attempt is not None and not attempts:
        raise NotFound(f"{id} has no attempt {attempt}; `tpufn job {id}` lists those that it has had")
    most = max((len(each.workers) for each in attempts), default=0)
    if worker is not None and most and worker >= most:
        raise NotFound(f"{id} has no worker {worker}: they are numbered from 0 to {most - 1}, or leave --worker out")


def _slot_view(slot: Slot, fleet: Fleet) -> SlotView:
    pool = fleet.pool(slot.pool)
    attempt = slot.lease.attempt if slot.lease else ""
    workers = slot.workers if slot.holds_chips else ()
    price = hourly(pool) if pool else 0.0
    if pool is None and slot.type:
        with suppress(ValueError):
            price = price_per_hour(slot.type, slot.zone, spot=True)
    return SlotView(
        name=slot.name,
        pool=slot.pool,
        type=pool.type if pool else slot.type,
        zone=pool.zone if pool else slot.zone,
        model=pool.model.value if pool else "",
        state=slot.state.value,
        since=slot.since,
        generation=slot.generation,
        job=attempt.rpartition(".")[0],
        attempt=attempt,
        hold=slot.hold,
        tpu=slot.tpu if slot.holds_chips else "",
        workers=tuple(w.address for w in workers),
        reach=tuple(w.reach or w.address for w in workers),
        requested_at=slot.requested_at if slot.tpu else 0.0,
        cause=slot.cause,
        price_per_hour=price,
    )


_NOT_TAKEN = "waits for an engine to take it on: `tpufn up` in another terminal"


def _is_charged(state: str) -> bool:
    return state in (SlotState.BOOTING, SlotState.IDLE, SlotState.BUSY, SlotState.CLEANING)


def _raise_rejected(job: Job) -> None:
    if TAKEN in job.cause:
        raise Conflict(job.cause)
    raise InputError(job.cause.splitlines())
