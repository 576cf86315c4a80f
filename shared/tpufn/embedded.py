"""The client of the embedded modes: reads the store, publishes to the bus, with and without a running engine."""

import itertools
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tpufn.adapters.local_bus import LocalBus
from tpufn.adapters.lock import EngineLock
from tpufn.adapters.sqlite import SqliteStore
from tpufn.decide.bins import hourly
from tpufn.decide.explain import WhySnapshot, explain, outlook
from tpufn.decide.submit import rejected_id
from tpufn.domain.accelerators import price_per_hour
from tpufn.domain.attempt import Attempt
from tpufn.domain.errors import CloudUnavailable, Conflict, InputError, NotFound
from tpufn.domain.events import Command, Submission
from tpufn.domain.fleet import Fleet, Mode, accepting_pools, pool_keys
from tpufn.domain.job import Bundle, Job, JobEvent, JobState, Priority
from tpufn.domain.notes import Note
from tpufn.domain.slot import Slot, SlotState
from tpufn.domain.views import Explanation, JobView, LogPiece, PoolOutlook, Receipt, SlotView, Status
from tpufn.ports import Blobs, Clock, Cut
from tpufn.wire import to_body

_POLL = 0.05
FREE = SlotState.FREE.value
_EFFECT_WAIT = 5.0


class EmbeddedClient:
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
        self.mode, self.where = mode, where
        self._declared, self._store, self._bus, self._blobs = fleet, store, bus, blobs
        self._clock, self._lock, self._user, self._scratch = clock, lock, user, scratch
        self._new_id = new_id

    def fleet(self) -> Fleet:
        with self._store.cut() as cut:
            return self._fleet(cut)

    def submit(
        self, path: str, *, job_id: str = "", submission_id: str = "", progress: Callable[[Note], None] | None = None
    ) -> Receipt:
        from tpufn.spec.jobs import load_jobs
        from tpufn.spec.regions import resolve_file
        from tpufn.spec.submission import write_submission

        tell = progress or (lambda note: None)
        fleet = self.fleet()
        loaded = load_jobs(path, fleet=fleet)
        resolved = resolve_file(loaded, fleet, self._blobs.region)
        warnings = (*loaded.warnings, *resolved.warnings)
        count = len(loaded.jobs)
        tell(
            _note("job.validated", f"{path}: {count} job{'s' * (count != 1)}", warnings="\n".join(warnings), jobs=count)
        )
        bundles = self._bundles(
            [(j.bundle, b) for j, b in zip(loaded.jobs, resolved.buckets, strict=True)], loaded.base_dir, tell
        )
        submission_id = submission_id or job_id or self._new_id()
        body = write_submission(
            loaded.jobs, buckets=resolved.buckets, bundles=bundles, submission_id=submission_id, job_id=job_id
        )
        self._bus.publish("submissions", to_body(Submission(id=submission_id, body=body)))
        return Receipt(submission=submission_id, jobs=tuple(job["id"] for job in body["jobs"]))

    def _bundles(
        self, wanted: list[tuple[str, Mapping[str, str]]], base: Path, tell: Callable[[Note], None]
    ) -> list[Bundle]:
        """Each source built once, and uploaded once to every bucket that wants it."""
        built: dict[str, Any] = {}
        for source, buckets in wanted:
            if source not in built:
                built[source] = self._build(source, base, tell)
            if built[source].path is not None:
                self._upload(built[source].bundle, str(built[source].path), buckets, tell)
        return [built[source].bundle for source, _ in wanted]

    def _build(self, source: str, base: Path, tell: Callable[[Note], None]) -> Any:
        from tpufn.spec.bundle import build

        self._scratch.mkdir(parents=True, exist_ok=True)
        built = build(source, base=base, into=self._scratch)
        b = built.bundle
        reason = f"{b.files} files, {b.size} bytes, sha256 {b.sha256[:12]}" if b.sha256 else b.uri
        tell(_note("bundle.built", reason, files=b.files, size=b.size, sha256=b.sha256))
        return built

    def _upload(self, bundle: Bundle, path: str, buckets: Mapping[str, str], tell: Callable[[Note], None]) -> None:
        for region, bucket in buckets.items():
            sent = self._blobs.upload(bucket, bundle.key, path)
            reason = f"gs://{bucket} ({region})" + ("" if sent else ": it is there already")
            tell(_note("bundle.uploaded", reason, bucket=bucket, region=region, sent=sent))

    def wait_accepted(self, receipt: Receipt, *, timeout: float = 30.0) -> tuple[Job, ...]:
        refused = rejected_id(Submission(id=receipt.submission, body={}))
        deadline = self._clock.now() + timeout
        while True:
            with self._store.cut() as cut:
                jobs = [cut.job(id) for id in receipt.jobs]
                rejected = cut.job(refused)
            if rejected is not None:
                _raise_rejected(rejected)
            found = tuple(job for job in jobs if job is not None)
            if len(found) == len(receipt.jobs):
                return found
            if self._clock.now() > deadline:
                raise CloudUnavailable(f"not accepted within {timeout:.0f} s: is an engine running? (`tpufn up`)")
            self._clock.sleep(0.005)

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
        if job is None:
            raise NotFound(f"there is no job {id} in {self.where}; `tpufn jobs` lists them")
        return job

    def why(self, id: str) -> Explanation:
        with self._store.cut() as cut:
            job, fleet = self._job(cut, id), self._fleet(cut)
            pools = accepting_pools(fleet, job.accepts)
            keys = frozenset(key for pool in pools for key in pool_keys(pool))
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
            with self._store.cut() as cut:
                ended = all(self._job(cut, id).is_terminal for id in ids)
                fresh = [note for id in ids for note in cut.history(id, after=seen[id])]
            for note in sorted(fresh, key=lambda n: n.at):
                seen[note.job] = note.id
                yield note
            if ended:
                return
            self._clock.sleep(_POLL)

    def logs(
        self, id: str, *, attempt: int | None = None, worker: int | None = None, follow: bool = False
    ) -> Iterator[LogPiece]:
        seen: dict[str, int] = {}
        while True:
            with self._store.cut() as cut:
                ended = self._job(cut, id).is_terminal
                attempts = [a for a in cut.attempts(id) if attempt in (None, a.number)]
            if attempt is not None and not attempts:
                raise NotFound(f"{id} has no attempt {attempt}")
            for one in attempts:
                yield from self._pieces(one, worker, seen)
            if ended or not follow:
                return
            self._clock.sleep(_POLL)

    def _pieces(self, attempt: Attempt, worker: int | None, seen: dict[str, int]) -> Iterator[LogPiece]:
        """What is new of an attempt's log, in the order of its writing."""
        prefix = f"{attempt.prefix}/logs/" + ("" if worker is None else f"worker-{worker}/")
        pieces = self._blobs.list(attempt.bucket, prefix)
        for piece in sorted((p for p in pieces if seen.get(p.key, 0) < p.size), key=lambda p: (p.updated, p.key)):
            data = self._blobs.get(attempt.bucket, piece.key, start=seen.get(piece.key, 0))
            seen[piece.key] = seen.get(piece.key, 0) + len(data)
            number = int(piece.key.rsplit("/", 2)[1].removeprefix("worker-"))
            yield LogPiece(attempt=attempt.number, worker=number, data=data)

    def slots(self) -> tuple[SlotView, ...]:
        with self._store.cut() as cut:
            fleet, slots = self._fleet(cut), cut.slots()
        known = {s.name: s for s in slots}
        listed = [known.get(name, Slot(name=name, pool=pool.id)) for name, pool in fleet.slots()]
        leaving = [s for s in slots if fleet.pool(s.pool) is None and s.state is not SlotState.RETIRED]
        return tuple(_slot_view(slot, fleet) for slot in (*listed, *leaving))

    def status(self) -> Status:
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
            engine="running" if self._lock.is_held() else "not running",
            jobs={state: count for state, count in jobs.items() if count},
            slots={state: states.count(state) for state in dict.fromkeys(states)},
            chips=sum(p.chips for s in slots if s.holds_chips and (p := fleet.pool(s.pool))),
            cost_per_hour=sum(v.price_per_hour for v in views if v.name in holding and _is_charged(v.state)),
            open_effects=rows,
            dead_letters=self._bus.dead_letters(),
        )

    def cancel(self, ids: Collection[str], *, if_pending: bool = False) -> Mapping[str, str]:
        jobs = [self.job(id).job for id in ids]
        for job in jobs:
            if job.is_terminal:
                raise Conflict(f"{job.id} has ended already ({job.state}); there is nothing to cancel")
        for job in jobs:
            self._command("cancel", job.id, if_pending=if_pending)
        return {job.id: self._after_cancel(job, if_pending=if_pending) for job in jobs}

    def _after_cancel(self, job: Job, *, if_pending: bool) -> str:
        if if_pending and job.state is not JobState.PENDING:
            return f"is {job.state} and stays so: only pending jobs were to be cancelled"
        now = self._until(job.id, lambda j: not j.allows(JobEvent.CANCEL))
        return "cancelled" if now.state is JobState.CANCELLED else f"{now.state}: {now.cause}"

    def set_priority(self, id: str, priority: Priority) -> str:
        job = self.job(id).job
        if job.is_terminal:
            raise Conflict(f"{id} has ended already ({job.state}); its priority does not matter any more")
        self._command("set-priority", id, priority=priority.label)
        now = self._until(id, lambda j: j.priority is priority)
        return f"priority {now.priority.label}" if now.priority is priority else self._later()

    def retry(self, id: str) -> str:
        job = self.job(id).job
        if job.state not in (JobState.FAILED, JobState.CANCELLED):
            raise Conflict(f"{id} is {job.state}: only a failed or cancelled job can be tried again")
        fresh = f"{id}-retry-{job.retries + 1}"
        self._command("retry", id, **{"as": fresh})
        if self._lock.is_held():
            self.wait_accepted(Receipt(submission=fresh, jobs=(fresh,)))
        return fresh

    def interrupt(self, slot: str) -> str:
        view = next((s for s in self.slots() if s.name == slot), None)
        if view is None:
            raise NotFound(f"there is no slot {slot}; `tpufn slots` lists them")
        if not view.attempt:
            raise Conflict(f"{slot} is {view.state}: no job runs there")
        self._command("interrupt", slot, generation=view.generation, attempt=view.attempt)
        return f"{view.job} stops and retries; {slot} gives its TPU up"

    def queue(self, names: Collection[str]) -> Mapping[str, str]:
        return {n: self._wish("queue", s, "asked for, and held for you") for n, s in self._named(names, FREE).items()}

    def race(self, names: Collection[str]) -> str:
        chosen = self._named(names, FREE)
        self._command("race", next(iter(chosen)), slots=list(chosen))
        return f"asked for {len(chosen)} at once; the first that is granted is kept for you: {', '.join(chosen)}"

    def hold(self, names: Collection[str]) -> Mapping[str, str]:
        return {n: self._wish("hold", s, f"held for {self._user}") for n, s in self._named(names).items()}

    def release(self, names: Collection[str]) -> Mapping[str, str]:
        return {n: self._wish("release", s, "given back to the jobs") for n, s in self._named(names).items()}

    def delete(self, names: Collection[str]) -> Mapping[str, str]:
        chosen = self._named(names)
        for slot in chosen.values():
            if slot.attempt:
                raise Conflict(f"{slot.name}: {slot.job} runs there; `tpufn interrupt {slot.name}` gives it up")
        return {n: self._wish("delete", s, "deleted") for n, s in chosen.items()}

    def _named(self, names: Collection[str], *states: str) -> dict[str, SlotView]:
        """The slots of these names. Raises NotFound, or Conflict where one is in another state."""
        known = {s.name: s for s in self.slots()}
        for name in names:
            if name not in known:
                raise NotFound(f"there is no slot {name}; `tpufn slots` lists them")
            if states and known[name].state not in states:
                raise Conflict(f"{name} is {known[name].state}, not {' or '.join(states)}")
        return {name: known[name] for name in names}

    def _wish(self, verb: str, slot: SlotView, what: str) -> str:
        self._command(verb, slot.name, generation=slot.generation)
        return what

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

    def _command(self, verb: str, target: str, **args: Any) -> None:
        command = Command(verb=verb, target=target, args=args, by=self._user, id=uuid.uuid4().hex)
        self._bus.publish("commands", to_body(command))

    def _until(self, id: str, done: Callable[[Job], bool]) -> Job:
        """The job once `done`, or as it is after a few seconds (at once where no engine runs)."""
        deadline = self._clock.now() + (_EFFECT_WAIT if self._lock.is_held() else 0.0)
        while True:
            job = self.job(id).job
            if done(job) or self._clock.now() >= deadline:
                return job
            self._clock.sleep(0.01)

    def _later(self) -> str:
        return "will be done when an engine runs (`tpufn up`)"

    def _fleet(self, cut: Cut) -> Fleet:
        fleet = cut.fleet() or self._declared
        if fleet is None:
            raise NotFound("no fleet has been declared here yet: name a deployment file with -d, or start `tpufn up`")
        return fleet


def _slot_view(slot: Slot, fleet: Fleet) -> SlotView:
    pool = fleet.pool(slot.pool)
    attempt = slot.lease.attempt if slot.lease else ""
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
        workers=tuple(w.address for w in slot.workers) if slot.holds_chips else (),
        cause=slot.cause,
        price_per_hour=price,
    )


def _is_charged(state: str) -> bool:
    return state in (SlotState.BOOTING, SlotState.IDLE, SlotState.BUSY, SlotState.CLEANING)


def _raise_rejected(job: Job) -> None:
    if "is taken by another job" in job.cause:
        raise Conflict(job.cause)
    raise InputError(job.cause.splitlines())


def _note(event: str, reason: str, **data: str | int | bool) -> Note:
    return Note(event=event, subject="", reason=reason, data=data)
