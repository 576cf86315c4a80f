"""What came of a plan, in numbers: collected commit by commit from the documents themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tpufn.domain.accelerators import price_per_hour
from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.fleet import Fleet, Model, Pool
from tpufn.domain.job import DEMAND, TERMINAL, Job
from tpufn.domain.slot import Slot, SlotState
from tpufn.planning.workload import Planned
from tpufn.ports import Commit

CHARGED = frozenset({SlotState.BOOTING, SlotState.IDLE, SlotState.BUSY, SlotState.CLEANING})
"""States in which a TPU is there and paid for."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """A slot in one state. Times in seconds from the start; `job` while it is busy."""

    slot: str
    state: str
    start: float
    end: float
    job: str = ""


@dataclass(frozen=True, kw_only=True)
class PoolTally:
    """Hours of whole TPUs (slices): there, and busy with a job. Cost in USD at list prices."""

    pool: str
    type: str
    zone: str
    hours: float
    busy: float
    cost: float
    preemptions: int
    jobs: int


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Waits in seconds, from submission to the first start; of those that started. Utilisation: busy chip-time over
    chip-time that was there."""

    jobs: int
    started: int
    finished: int
    wait_mean: float
    wait_p50: float
    wait_p95: float
    utilisation: float
    preemptions: int
    chip_hours: float
    cost: float
    pools: tuple[PoolTally, ...] = ()


@dataclass
class Tally:
    """`spans` and `queue` (time, jobs that wait for a TPU) are for charts."""

    fleet: Fleet
    jobs: Sequence[Planned]
    horizon: float
    began: float = 0.0
    spans: list[Span] = field(default_factory=list)
    queue: list[tuple[float, int]] = field(default_factory=list)
    started: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    preempted: dict[str, int] = field(default_factory=dict)
    _open: dict[str, tuple[Slot, float]] = field(default_factory=dict)
    _waiting: set[str] = field(default_factory=set)
    _closed: set[str] = field(default_factory=set)

    def saw(self, commit: Commit, now: float) -> None:
        """One commit. Its documents are what they are from now on."""
        at = now - self.began
        for document in commit.writes:
            match document:
                case Slot():
                    self._slot(document, at)
                case Job():
                    self._job(document, at)
                case Attempt():
                    self._attempt(document, at)

    def close(self, now: float) -> None:
        """The end of the plan: what still goes on ends here."""
        for slot, since in self._open.values():
            self._span(slot, since, now - self.began)
        self._open.clear()

    def summary(self) -> Summary:
        submitted = {job.id: job.at for job in self.jobs}
        waits = sorted(at - submitted[id] for id, at in self.started.items())
        pools = tuple(self._pools())
        chips = {pool.id: pool.chips for pool in self.fleet.pools}
        there = sum(each.hours * chips[each.pool] for each in pools)
        busy = sum(each.busy * chips[each.pool] for each in pools)
        return Summary(
            jobs=len(self.jobs),
            started=len(waits),
            finished=len(self.ended),
            wait_mean=sum(waits) / len(waits) if waits else 0.0,
            wait_p50=quantile(waits, 0.5),
            wait_p95=quantile(waits, 0.95),
            utilisation=busy / there if there else 0.0,
            preemptions=sum(self.preempted.values()),
            chip_hours=there,
            cost=sum(each.cost for each in pools),
            pools=pools,
        )

    def _pools(self) -> Iterator[PoolTally]:
        spans: dict[str, list[Span]] = {}
        owner = {name: pool.id for name, pool in self.fleet.slots()}
        for span in self.spans:
            spans.setdefault(owner.get(span.slot, ""), []).append(span)
        for pool in self.fleet.pools:
            mine = spans.get(pool.id, [])
            hours = sum(s.end - s.start for s in mine if s.state in CHARGED) / 3600
            busy = sum(s.end - s.start for s in mine if s.job) / 3600
            yield PoolTally(
                pool=pool.id,
                type=pool.type,
                zone=pool.zone,
                hours=hours,
                busy=busy,
                cost=hours * _price(pool),
                preemptions=self.preempted.get(pool.id, 0),
                jobs=sum(bool(s.job) for s in mine),
            )

    def _slot(self, slot: Slot, at: float) -> None:
        there = self._open.get(slot.name)
        if there and (there[0].state, there[0].lease) == (slot.state, slot.lease):
            return
        if there:
            self._span(*there, at)
        self._open[slot.name] = (slot, at)

    def _span(self, slot: Slot, since: float, until: float) -> None:
        if slot.state not in (SlotState.FREE, SlotState.RETIRED) and until > since:
            job = slot.lease.attempt.rpartition(".")[0] if slot.lease and slot.state is SlotState.BUSY else ""
            self.spans.append(Span(slot=slot.name, state=slot.state.value, start=since, end=until, job=job))

    def _job(self, job: Job, at: float) -> None:
        was = len(self._waiting)
        (self._waiting.add if job.state in DEMAND else self._waiting.discard)(job.id)
        if len(self._waiting) != was:
            self.queue.append((at, len(self._waiting)))
        if job.state in TERMINAL:
            self.ended.setdefault(job.id, at)

    def _attempt(self, attempt: Attempt, at: float) -> None:
        if attempt.state is AttemptState.RUNNING:
            self.started.setdefault(attempt.job, at)
        if attempt.outcome is Outcome.PREEMPTED and attempt.id not in self._closed:
            self._closed.add(attempt.id)
            self.preempted[attempt.pool] = self.preempted.get(attempt.pool, 0) + 1


def quantile(ordered: Sequence[float], share: float) -> float:
    """0 for none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def _price(pool: Pool) -> float:
    if pool.model is Model.RESERVED or pool.existing:
        return 0.0
    return price_per_hour(pool.type, pool.zone, spot=pool.model is Model.SPOT)
