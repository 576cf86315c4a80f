"""A client of forty slots whose every answer can be held back, as by a cloud that hangs."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tpufn.domain.accelerators import price_per_hour
from tpufn.domain.errors import Conflict, NotFound
from tpufn.domain.fleet import Fleet, Mode, Pool, pool_id
from tpufn.domain.job import Job, JobState, Priority
from tpufn.domain.notes import Note
from tpufn.domain.views import Explanation, JobView, LogPiece, PoolOutlook, SlotView, Status

T0 = 1_800_000_000.0
KINDS = (
    ("v6e-64", "europe-west4-a", 4),
    ("v6e-8", "us-east5-b", 8),
    ("v6e-16", "us-east1-d", 8),
    ("v5litepod-64", "us-west4-a", 8),
    ("v5p-32", "us-east5-a", 4),
    ("v4-32", "us-central2-b", 8),
)
FLEET = Fleet(
    name="lab",
    project="lab-project",
    mode=Mode.CLOUD,
    pools=tuple(
        Pool(id=pool_id(Pool.model, type, zone), type=type, zone=zone, count=count) for type, zone, count in KINDS
    ),
    settings={"ssh_transport": "direct", "bootstrap": "[]"},
)


def slot(name: str, pool: Pool) -> SlotView:
    return SlotView(
        name=name,
        pool=pool.id,
        type=pool.type,
        zone=pool.zone,
        model="spot",
        state="free",
        since=T0,
        generation=0,
        job="",
        attempt="",
        hold="",
        tpu="",
        workers=(),
        cause="",
        price_per_hour=price_per_hour(pool.type, pool.zone, spot=True),
    )


def usable(view: SlotView, **changes: Any) -> SlotView:
    """The slot with a TPU that is ready."""
    there = {"state": "idle", "generation": 3, "tpu": f"tpufn-lab-{view.name}-g3", "workers": ("10.0.0.1", "10.0.0.2")}
    return replace(view, **{**there, **changes})


def table() -> dict[str, SlotView]:
    return {name: slot(name, pool) for name, pool in FLEET.slots()}


JOBS = (
    Job(
        id="llama-70b-sft-4",
        state=JobState.ACTIVE,
        priority=Priority.HIGH,
        since=T0 - 5400,
        submitted_at=T0 - 9000,
        attempt=3,
        preemptions=2,
        slot="spot-v6e64-ew4a-1",
    ),
    Job(id="sweep-lr-12", state=JobState.PENDING, since=T0 - 600, submitted_at=T0 - 600, cause="waits for capacity"),
    Job(id="eval-mmlu-9", state=JobState.SUCCEEDED, since=T0 - 300, submitted_at=T0 - 1200, attempt=1),
)


@dataclass
class HungClient:
    """Answers from its fields. While `gate` is closed, every call waits, at most `seconds`."""

    table: dict[str, SlotView] = field(default_factory=table)
    notes: list[Note] = field(default_factory=list)
    queue_of_jobs: tuple[Job, ...] = JOBS
    seconds: float = 10.0
    asked: list[tuple[str, Any]] = field(default_factory=list)
    mode: Mode = Mode.CLOUD
    where: str = "cloud lab in project lab-project"
    output: bytes = b"step 120 loss 1.92\nstep 130 loss 1.90\n"
    refusal: Exception | None = None

    def __post_init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.calls = threading.Semaphore(0)

    def _wait(self) -> None:
        self.calls.release()
        self.gate.wait(self.seconds)

    def _change(self, verb: str, names: Any, said: str, **changes: Any) -> dict[str, str]:
        self.asked.append((verb, tuple(names)))
        self._wait()
        if self.refusal:
            raise self.refusal
        for name in names:
            self.table[name] = replace(self.table[name], **changes)
        return dict.fromkeys(names, said)

    def advice(self) -> tuple[str, ...]:
        return ()

    def serves(self) -> bool:
        return True

    def fleet(self) -> Fleet:
        self._wait()
        return FLEET

    def slots(self) -> tuple[SlotView, ...]:
        self._wait()
        return tuple(self.table.values())

    def status(self) -> Status:
        self._wait()
        held = [s for s in self.table.values() if s.state not in ("free", "retired")]
        return Status(
            mode="cloud",
            deployment="lab",
            now=T0,
            engine="running",
            jobs={"active": 1, "pending": 1, "succeeded": 1},
            slots={},
            chips=sum(p.chips for s in held if (p := FLEET.pool(s.pool))),
            cost_per_hour=sum(s.price_per_hour for s in held),
            open_effects=0,
            dead_letters=0,
        )

    def feed(self, *, after: str = "", limit: int = 200) -> tuple[Note, ...]:
        self._wait()
        ids = [note.id for note in self.notes]
        start = ids.index(after) + 1 if after in ids else 0
        return tuple(self.notes[start:][-limit:])

    def jobs(self, *, states: Any = (), limit: int = 100) -> tuple[Job, ...]:
        self._wait()
        return self.queue_of_jobs[:limit]

    def job(self, id: str) -> JobView:
        self._wait()
        found = next((job for job in self.queue_of_jobs if job.id == id), None)
        if found is None:
            raise NotFound(f"there is no job {id}")
        return JobView(job=found, spec=None)

    def why(self, id: str) -> Explanation:
        self._wait()
        headline = "no TPU that it accepts is free"
        state = str(self.job(id).job.state)
        return Explanation(job=id, state=state, headline=headline, now=T0, pools=(self.pools()[0],))

    def logs(
        self, id: str, *, attempt: Any = None, worker: Any = None, follow: bool = False, stop: Any = None
    ) -> Iterator[LogPiece]:
        self._wait()
        yield LogPiece(attempt=1, worker=0, data=self.output)

    def pools(self) -> tuple[PoolOutlook, ...]:
        self._wait()
        return tuple(self._outlook(pool, number) for number, pool in enumerate(FLEET.pools))

    def _outlook(self, pool: Pool, number: int) -> PoolOutlook:
        mine = [s for s in self.table.values() if s.pool == pool.id]
        states = [s.state for s in mine]
        cools = number % 3 == 1
        return PoolOutlook(
            pool=pool.id,
            type=pool.type,
            zone=pool.zone,
            ceiling=pool.count,
            free=states.count("free"),
            coming=sum(states.count(s) for s in ("requesting", "waiting", "provisioning", "booting")),
            idle=states.count("idle"),
            busy=states.count("busy"),
            held=sum(bool(s.hold) for s in mine),
            chips_used=sum(pool.chips for s in mine if s.state != "free"),
            chip_limit=512 if number % 2 else 0,
            last_outcome="stockout" if cools else "granted",
            last_text="There is no more capacity in the zone" if cools else "",
            last_at=T0 - 240,
            scope=f"type:{pool.type}@{pool.zone}" if cools else "",
            next_try_at=T0 + 95 if cools else 0.0,
            verdict="waits for capacity; the next request is due in 1m35s" if cools else "is asked next",
        )

    def queue(self, names: Any) -> dict[str, str]:
        return self._change("queue", names, "asked for, and held for you", state="requesting", hold="ada", since=T0)

    def hold(self, names: Any) -> dict[str, str]:
        return self._change("hold", names, "held for ada", hold="ada")

    def release(self, names: Any) -> dict[str, str]:
        return self._change("release", names, "given back to the jobs", hold="")

    def delete(self, names: Any) -> dict[str, str]:
        if any(self.table[name].attempt for name in names):
            raise Conflict(f"{next(iter(names))}: a job runs there")
        return self._change("delete", names, "deleted", state="releasing", hold="")

    def race(self, names: Any) -> str:
        self._change("race", names, "", state="requesting", hold="ada")
        return f"asked for {len(names)} at once; the first that is granted is kept for you"

    def set_priority(self, id: str, priority: Priority) -> str:
        self.asked.append(("set_priority", (id, priority)))
        self._wait()
        return f"priority {priority.label}"

    def cancel(self, ids: Any, *, if_pending: bool = False) -> dict[str, str]:
        self.asked.append(("cancel", tuple(ids)))
        self._wait()
        return dict.fromkeys(ids, "cancelled")

    def retry(self, id: str) -> str:
        self.asked.append(("retry", (id,)))
        self._wait()
        return f"{id}-retry-1"


def busy_afternoon() -> HungClient:
    """A client whose slots are in every state, for pictures."""
    client = HungClient()
    names = list(client.table)
    for number, (name, changes) in enumerate(_SCENE.items()):
        base = client.table[name]
        client.table[name] = usable(base, since=T0 - 317 * (number + 1), **changes)
    client.notes = [
        Note(event=event, subject=subject, reason=reason, slot=subject.partition(":")[2], at=T0 - 60 + i, id=f"n{i:03}")
        for i, (event, subject, reason) in enumerate(_NOTES)
    ]
    assert set(_SCENE) <= set(names)
    return client


_SCENE: dict[str, dict[str, Any]] = {
    "spot-v6e64-ew4a-1": {"state": "busy", "job": "llama-70b-sft-4", "attempt": "llama-70b-sft-4.3"},
    "spot-v6e64-ew4a-2": {"state": "idle", "hold": "ada"},
    "spot-v6e64-ew4a-3": {"state": "waiting", "tpu": "", "cause": "the cloud accepted the request"},
    "spot-v6e8-ue5b-1": {"state": "busy", "job": "eval-mmlu-9", "attempt": "eval-mmlu-9.1"},
    "spot-v6e8-ue5b-2": {"state": "busy", "job": "eval-gsm8k-2", "attempt": "eval-gsm8k-2.1"},
    "spot-v6e8-ue5b-3": {"state": "cleaning", "job": "eval-arc-7", "attempt": "eval-arc-7.2"},
    "spot-v6e8-ue5b-4": {"state": "idle"},
    "spot-v6e16-ue1d-1": {"state": "provisioning", "cause": "granted: queued resource PROVISIONING", "hold": "grace"},
    "spot-v6e16-ue1d-2": {"state": "releasing", "cause": "spot-v6e16-ue1d-1 was granted first"},
    "spot-v5e64-uw4a-1": {"state": "booting", "cause": "node READY, 12 of 16 workers answer"},
    "spot-v5p32-ue5a-1": {"state": "requesting", "tpu": "", "cause": "for sweep-lr-12"},
}
_NOTES = (
    ("slot.requesting", "slot:spot-v6e16-ue1d-1", "v6e-16 in us-east1-d, for grace"),
    ("slot.requesting", "slot:spot-v6e16-ue1d-2", "v6e-16 in us-east1-d, for grace"),
    ("attempt.closed", "attempt:eval-arc-7.1", "every worker has closed"),
    ("slot.waiting", "slot:spot-v6e64-ew4a-3", "the cloud accepted the request"),
    ("slot.provisioning", "slot:spot-v6e16-ue1d-1", "granted: queued resource PROVISIONING"),
    ("race.won", "slot:spot-v6e16-ue1d-1", "the first of 2 to be granted, held by grace"),
    ("slot.releasing", "slot:spot-v6e16-ue1d-2", "spot-v6e16-ue1d-1 was granted first"),
    ("job.succeeded", "job:eval-arc-6", "exit 0 from all 2 workers"),
    ("slot.booting", "slot:spot-v5e64-uw4a-1", "node READY, 12 of 16 workers answer"),
)
