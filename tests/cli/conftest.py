"""A client and an engine made of scripted notes, and a command line that runs in this process.

The fakes fulfil the protocols of `tpufn.client` and refuse as the real ones do: NotFound for an unknown id, Conflict
for a job that has ended.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.errors import Conflict, InputError, NotFound
from tpufn.domain.fleet import Fleet, Mode, Pool
from tpufn.domain.job import Bundle, Job, JobSpec, JobState, Priority
from tpufn.domain.notes import Note
from tpufn.domain.slot import Lease, Worker
from tpufn.domain.views import DeadLetter, Explanation, JobView, LogPiece, PoolOutlook, Receipt, SlotView, Status

T0 = 1_800_000_000.0
V4, V6A, V6B = "spot-v432-uc2b-1", "spot-v6e16-ue5a-1", "spot-v6e16-ue5b-1"
SECOND = "spot-v6e16-ue5a-2"
FLEET = Fleet(
    name="demo",
    mode=Mode.SANDBOX,
    pools=(
        Pool(id="spot-v432-uc2b", type="v4-32", zone="us-central2-b", count=2),
        Pool(id="spot-v6e16-ue5a", type="v6e-16", zone="us-east5-a", count=2),
        Pool(id="spot-v6e16-ue5b", type="v6e-16", zone="us-east5-b", count=2),
    ),
)


def note(at: float, event: str, about: str = "job:demo-1", reason: str = "", **data: Any) -> Note:
    """A note `at` seconds after the start; job, attempt and slot follow from `about` and `slot=`."""
    kind, _, name = about.partition(":")
    slot = name if kind == "slot" else str(data.pop("slot", ""))
    job = "" if kind == "slot" else name.partition(".")[0]
    return Note(
        event=event,
        subject=about,
        reason=reason,
        job=job,
        attempt=name if kind == "attempt" else "",
        slot=slot,
        at=T0 + at,
        id=f"n{at:07.2f}-{event}",
        data=data,
    )


def _legs(at: float, state: str, *slots: str, reason: str = "") -> list[Note]:
    return [note(at + i / 100, f"slot.{state}", f"slot:{slot}", reason) for i, slot in enumerate(slots)]


FIRST, AGAIN = "attempt:demo-1.1", "attempt:demo-1.2"
LEGS = f"{V4},{V6A},{V6B}"
SURPLUS = "waiting: no waiting job needs it any more"
SUBMITTING = (
    note(0.0, "job.validated", "", "job.yaml: 1 job", warnings="job.yaml:3: jobs[0].tpu: v6e-64 has no pool", jobs=1),
    note(0.1, "bundle.built", "", "3 files, 6210 bytes, sha256 9f2c", files=3, size=6210, sha256="9f2c41d07be3a5"),
    note(0.2, "bundle.uploaded", "", "gs://tpufn-demo-us-central2 (us-central2)", sent=True),
    note(0.2, "bundle.uploaded", "", "gs://tpufn-demo-us-east5 (us-east5): it is there already", sent=False),
)
RACE = (
    note(0.3, "job.submitted", reason="priority high, 3 pools can run it"),
    note(0.4, "race.opened", reason=f"asking for 3 slots at once: {LEGS}", legs=LEGS),
    *_legs(0.4, "requesting", V4, V6A, V6B, reason="for demo-1"),
    *_legs(0.8, "waiting", V4, V6A, V6B, reason="the cloud accepted the request"),
    *_legs(1.9, "provisioning", V6A, reason="granted: queued resource PROVISIONING"),
    *_legs(2.6, "booting", V6A, reason="node READY, 0 of 4 workers answer"),
    *_legs(3.0, "idle", V6A, reason="all 4 workers answer"),
)
FIRST_ATTEMPT = (
    note(3.1, "race.won", f"slot:{V6A}", "best rank; waited 2.8 s", losers=f"{V4},{V6B}"),
    note(3.1, "attempt.assigned", FIRST, f"attempt 1 on {V6A}", slot=V6A),
    note(3.1, "race.lost", f"slot:{V4}", SURPLUS),
    note(3.1, "race.lost", f"slot:{V6B}", SURPLUS),
    note(3.2, "attempt.launching", FIRST, f"on 4 workers of {V6A}", workers=4, slot=V6A),
    *_legs(3.4, "free", V4, V6B, reason="the cloud says not found"),
    note(3.6, "attempt.running", FIRST, "all 4 workers are prepared", slot=V6A),
)
PREEMPTED = (
    note(5.6, "attempt.stopping", FIRST, "Spot preemption (notice)", slot=V6A, outcome="preempted"),
    note(5.6, "job.waiting", reason="preempted: waiting for proof that demo-1.1 stopped"),
    note(5.7, "race.opened", reason="asking for 2 slots at once", legs=f"{SECOND},{V6B}"),
    *_legs(5.7, "requesting", SECOND, V6B, reason="for demo-1"),
    note(6.1, "attempt.closed", FIRST, "every worker has closed", slot=V6A, outcome="preempted"),
    note(6.1, "job.pending", reason="retry after attempt 1: preempted, in us-east5"),
    *_legs(6.1, "releasing", V6A, reason="Spot preemption (notice)"),
    *_legs(6.9, "free", V6A),
    *_legs(7.2, "provisioning", SECOND, reason="granted: queued resource PROVISIONING"),
    *_legs(7.8, "booting", SECOND),
    *_legs(8.1, "idle", SECOND),
)
SECOND_ATTEMPT = (
    note(8.2, "race.won", f"slot:{SECOND}", "best rank; waited 7.9 s", losers=V6B),
    note(8.2, "attempt.assigned", AGAIN, f"attempt 2 on {SECOND}, pinned to us-east5", slot=SECOND),
    note(8.2, "race.lost", f"slot:{V6B}", SURPLUS),
    note(8.3, "attempt.launching", AGAIN, f"on 4 workers of {SECOND}", workers=4, slot=SECOND),
    note(8.7, "attempt.running", AGAIN, "all 4 workers are prepared", slot=SECOND),
)
DONE = (
    note(12.0, "attempt.stopping", AGAIN, "exit 0 from all 4 workers", slot=SECOND, outcome="succeeded"),
    note(12.1, "attempt.closed", AGAIN, "every worker has closed", slot=SECOND, outcome="succeeded"),
    note(12.1, "job.succeeded", reason="exit 0 from all 4 workers"),
)
TEARDOWN = (
    *_legs(12.2, "releasing", SECOND, reason="idle for 0 s, no waiting job can use it"),
    *_legs(12.6, "free", SECOND),
)


def attempt(number: int, slot: str, outcome: Outcome, *, created: float, started: float, ended: float) -> Attempt:
    return Attempt(
        job="demo-1",
        number=number,
        lease=Lease(slot=slot, generation=1, fence=1, attempt=f"demo-1.{number}"),
        tpu=f"tpufn-demo-{slot}-g1",
        pool=slot.rpartition("-")[0],
        zone="us-east5-a",
        region="us-east5",
        bucket="tpufn-demo-us-east5",
        workers=(Worker(address="10.0.0.1"),) * 4,
        state=AttemptState.CLOSED,
        created_at=T0 + created,
        started_at=T0 + started,
        ended_at=T0 + ended,
        outcome=outcome,
    )


JOB = Job(
    id="demo-1",
    state=JobState.SUCCEEDED,
    since=T0 + 12.1,
    priority=Priority.HIGH,
    submitted_at=T0 + 0.3,
    attempt=2,
    region="us-east5",
    buckets={"us-east5": "tpufn-demo-us-east5"},
    preemptions=1,
)
SPEC = JobSpec(id="demo-1", command="python3 train.py", tpu=("v4-32", "v6e-16"), bundle=Bundle(files=3, size=6210))
VIEW = JobView(
    job=JOB,
    spec=SPEC,
    attempts=(
        attempt(1, V6A, Outcome.PREEMPTED, created=3.1, started=3.6, ended=5.6),
        attempt(2, SECOND, Outcome.SUCCEEDED, created=8.2, started=8.7, ended=12.0),
    ),
    history=(*RACE[:1], *DONE),
)
SLOT = SlotView(
    name=V6A,
    pool="spot-v6e16-ue5a",
    type="v6e-16",
    zone="us-east5-a",
    model="spot",
    state="busy",
    since=T0,
    generation=3,
    job="demo-1",
    attempt="demo-1.1",
    hold="",
    tpu=f"tpufn-demo-{V6A}-g3",
    workers=("10.0.0.1",),
    cause="leased",
    price_per_hour=19.44,
)
OUTLOOK = PoolOutlook(
    pool="spot-v6e16-ue5a",
    type="v6e-16",
    zone="us-east5-a",
    ceiling=2,
    free=1,
    coming=1,
    idle=0,
    busy=0,
    held=0,
    chips_used=16,
    chip_limit=64,
    last_outcome="stockout",
    last_text="There is no more capacity in the zone",
    last_at=T0,
    scope="type:v6e-16@us-east5-a",
    next_try_at=T0 + 100,
    verdict="waits for capacity; the next request is due in 40s",
)
WHY = Explanation(
    job="demo-1", state="pending", headline="no TPU that it accepts is free", now=T0 + 60, pools=(OUTLOOK,), ahead=2
)
STATUS = Status(
    mode="sandbox",
    deployment="demo",
    now=T0,
    engine="running",
    jobs={"pending": 1, "succeeded": 2},
    slots={"free": 5, "busy": 1},
    chips=16,
    cost_per_hour=19.44,
    open_effects=0,
    dead_letters=0,
)


@dataclass
class FakeClient:
    """Answers from its fields; remembers what it was asked to change."""

    view: JobView = VIEW
    status_value: Status = STATUS
    why_value: Explanation = WHY
    notes: tuple[Note, ...] = (*RACE, *DONE)
    pieces: tuple[LogPiece, ...] = ()
    letters: tuple[DeadLetter, ...] = ()
    advised: tuple[str, ...] = ()
    refusal: Exception | None = None
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    mode: Mode = Mode.SANDBOX
    where: str = "sandbox demo in /state/demo"
    more_logs: Callable[[], Iterator[LogPiece]] | None = None

    def _check(self, id: str) -> None:
        if self.refusal is not None:
            raise self.refusal
        if id != self.view.job.id:
            raise NotFound(f"there is no job {id!r}")

    def fleet(self) -> Fleet:
        return FLEET

    def serves(self) -> bool:
        return self.status_value.engine == "running"

    def advice(self) -> tuple[str, ...]:
        return self.advised

    def caution(self) -> str:
        return ""

    def left_behind(self) -> dict[str, str]:
        return {}

    def apply(self, path: str = "") -> Fleet:
        self.asked.append(("apply", path))
        return replace(FLEET, revision=7)

    def tick(self) -> str:
        return self._told("tick")

    def pause(self) -> str:
        return self._told("pause")

    def resume(self) -> str:
        return self._told("resume")

    def _told(self, verb: str) -> str:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append((verb,))
        return f"{verb}: done"

    def dead_letters(self) -> tuple[DeadLetter, ...]:
        return self.letters

    def replay(self, ids: Any) -> dict[str, str]:
        return {letter.id: f"sent again to {letter.topic}" for letter in self.letters if not ids or letter.id in ids}

    def submit(self, path: str, *, job_id: str = "", submission_id: str = "", progress: Any = None) -> Receipt:
        self.asked.append(("submit", Path(path).name, job_id))
        if self.refusal is not None:
            raise self.refusal
        for told in SUBMITTING if progress else ():
            progress(told)
        return Receipt(submission=submission_id or "s1", digest="d", jobs=("demo-1",))

    def wait_accepted(self, receipt: Receipt, *, timeout: float = 30.0) -> tuple[Job, ...]:
        self.asked.append(("wait_accepted", receipt.submission, timeout))
        return (self.view.job,)

    def jobs(self, *, states: Any = (), limit: int = 100) -> tuple[Job, ...]:
        self.asked.append(("jobs", tuple(states), limit))
        return (self.view.job,) if not states or self.view.job.state in states else ()

    def job(self, id: str) -> JobView:
        self._check(id)
        return self.view

    def why(self, id: str) -> Explanation:
        self._check(id)
        return self.why_value

    def watch(self, ids: Any, *, stop: Any = None) -> Iterator[Note]:
        for id in ids:
            self._check(id)
        yield from self.notes if ids else ()

    def logs(
        self, id: str, *, attempt: Any = None, worker: Any = None, follow: bool = False, stop: Any = None
    ) -> Iterator[LogPiece]:
        self._check(id)
        self.asked.append(("logs", attempt, worker, follow))
        yield from self.more_logs() if self.more_logs else self.pieces

    def slots(self) -> tuple[SlotView, ...]:
        return (SLOT, replace(SLOT, name=V6B, state="free", job="", attempt="", cause="", generation=0))

    def status(self) -> Status:
        return self.status_value

    def cancel(self, ids: Any, *, if_pending: bool = False) -> dict[str, str]:
        self.asked.append(("cancel", tuple(ids), if_pending))
        for id in ids:
            self._check(id)
        if self.view.job.is_terminal:
            raise Conflict(f"{ids[0]} has ended: {self.view.job.state}")
        return dict.fromkeys(ids, "will be stopped on 4 workers")

    def set_priority(self, id: str, priority: Priority) -> str:
        self._check(id)
        self.asked.append(("set_priority", id, priority))
        return f"now {priority.label}"

    def retry(self, id: str) -> str:
        self._check(id)
        return f"{id}-r1"

    def interrupt(self, slot: str) -> str:
        if slot != V6A:
            raise NotFound(f"there is no slot {slot!r}")
        return "its TPU is given up; demo-1 retries"


@dataclass
class FakeDoors:
    """Hands out the fakes and remembers with which options."""

    fake: FakeClient
    made: Any = None
    options: list[Any] = field(default_factory=list)
    refusal: Exception | None = None

    def client(self, options: Any) -> FakeClient:
        self.options.append(options)
        if self.refusal is not None:
            raise self.refusal
        return self.fake

    def engine(self, options: Any, *, seed: int | None, speed: float, fresh: bool) -> Any:
        self.options.append((options, seed, speed, fresh))
        if self.refusal is not None:
            raise self.refusal
        if self.made is None:
            raise InputError("no engine in this test")
        return self.made


@dataclass(frozen=True)
class Ran:
    """What a command line did."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have set a width; a pipe has none."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def doors(client: FakeClient) -> FakeDoors:
    return FakeDoors(client)


@pytest.fixture
def tpufn(doors: FakeDoors, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs one command line, as the console script does, up to the exit."""
    from tpufn_cli.app import run

    def call(*argv: str) -> Ran:
        capsys.readouterr()
        code = run(argv, doors=doors)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


@pytest.fixture
def story() -> SimpleNamespace:
    """The parts of a demo's story, each a tuple of notes."""
    return SimpleNamespace(
        race=RACE, first=FIRST_ATTEMPT, preempted=PREEMPTED, second=SECOND_ATTEMPT, done=DONE, teardown=TEARDOWN
    )


@pytest.fixture
def story_notes() -> tuple[Note, ...]:
    """Every note of a demo, in order."""
    return (*SUBMITTING, *RACE, *FIRST_ATTEMPT, *PREEMPTED, *SECOND_ATTEMPT, *DONE, *TEARDOWN)


@pytest.fixture
def fleet() -> Fleet:
    return FLEET
