"""Many events at once, and handlers that overlap: no double lease, no lost job, one external create."""

import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tpufn.adapters.firestore import FirestoreStore
from tpufn.adapters.local_bus import LocalBus
from tpufn.adapters.tpu_api import CloudTpu, connect
from tpufn.decide.autoscale import new_slot
from tpufn.domain.cloud import CreateOrder
from tpufn.domain.effects import Kind, slot_entity
from tpufn.domain.events import Event, Tick, Wake, Written
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobSpec, JobState, Priority, rank
from tpufn.domain.policy import SANDBOX
from tpufn.domain.slot import Slot, SlotEvent, SlotState, Worker, cloud_name
from tpufn.flows.effects import PERFORMERS
from tpufn.flows.registry import function
from tpufn.ports import Commit, Ports
from tpufn.runner import Runner
from tpufn.simulation.clock import WallClock
from tpufn.wire import to_body

from .deployment import Cloud, Deployment
from .events import deliver, message, written
from .test_messages import job as submitted

SLOTS, JOBS = 20, 30
WIDE = f"""
idle_timeout_seconds: 600
tpus:
  - {{type: v6e-8, zone: us-east5-a, count: {SLOTS}}}
"""
NARROW = """
idle_timeout_seconds: 600
tpus:
  - {type: v6e-16, zone: us-east5-a, count: 1}
"""


@contextmanager
def some(cloud: Cloud, home: Path, fleet: str, **instances: int) -> Iterator[Deployment]:
    """A deployment of which only these functions run, and only on what a test sends them."""
    with Deployment(cloud, home, fleet, instances).running(ticking=False) as running:
        yield running


@pytest.fixture(scope="module")
def crowd(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Two instances of each."""
    home = tmp_path_factory.mktemp("crowd")
    with some(cloud, home, WIDE, assign=2, submit=2) as running:
        running.cloud.eventarc.plan = lambda event: ()
        yield running


def idle(name: str, fleet: Fleet, now: float) -> Slot:
    """A slot whose TPU waits for a job; there is nothing behind it."""
    pool = next(pool for known, pool in fleet.slots() if known == name)
    slot = new_slot(name, pool, now=now)
    tpu = cloud_name(fleet.name, name, 1)
    slot = slot.on(SlotEvent.REQUEST, now=now, generation=1, tpu=tpu, requested_at=now, create_settled=True)
    return (
        slot.on(SlotEvent.GRANTED, now=now)
        .on(SlotEvent.STARTED, now=now)
        .on(SlotEvent.USABLE, now=now, workers=(Worker(address="10.0.0.1"),), idle_since=now)
    )


def pending(id: str, at: float) -> Job:
    accepts = ("v6e-8@us-east5",)
    stamped = rank(Priority.NORMAL, 1, at, id)
    buckets = {"us-east5": "b"}
    return Job(id=id, submitted_at=at, rank=stamped, accepts=accepts, unpinned=accepts, buckets=buckets)


def test_200_assign_events_over_20_slots(crowd: Deployment) -> None:
    """Each slot has one job, each job one slot, the jobs are the first in rank, and both ends agree."""
    with crowd.store.cut() as cut:
        fleet, now = cut.fleet(), cut.now
    slots = [idle(name, fleet, now) for name, _ in fleet.slots()]
    jobs = [pending(f"job-{number:02d}", now + number) for number in range(JOBS)]
    crowd.store.commit(Commit(id="slots", writes=tuple(slots)))
    crowd.store.commit(Commit(id="jobs", writes=(*jobs, *(JobSpec(id=j.id, command="true") for j in jobs))))
    documents = [f"slots/{slots[n % SLOTS].name}" if n % 2 else f"jobs/{jobs[n % JOBS].id}" for n in range(200)]
    deliver(crowd.urls("assign"), [written(crowd, document) for document in documents])
    leases = {name: slot.lease for name, slot in crowd.slots().items()}
    active = {j.id: j for j in map(crowd.job, (j.id for j in jobs)) if j.state is JobState.ACTIVE}
    assert all(leases.values())
    assert sorted(active) == [f"job-{number:02d}" for number in range(SLOTS)]
    assert {lease.attempt for lease in leases.values()} == {f"{id}.1" for id in active}
    for id in active:
        [attempt] = crowd.attempts(id)
        assert leases[attempt.slot] == attempt.lease
    assert Counter(n.event for n in crowd.notes())["attempt.assigned"] == SLOTS


def test_100_submits_at_once_each_twice(crowd: Deployment) -> None:
    """Nothing is lost, nothing is there twice, nothing is refused."""
    bodies = [
        {"v": 1, "submission_id": f"s-{n}", "jobs": [submitted(crowd, id=f"s-{n}", tpu="v6e-64")]} for n in range(100)
    ]
    statuses = deliver(crowd.urls("submit"), [message(crowd, "submissions", body) for body in (*bodies, *bodies)])
    assert statuses[200] == 200
    with crowd.store.cut() as cut:
        ids = [job.id for job in cut.jobs_in(list(JobState), limit=1000) if job.submission.startswith("s-")]
    assert sorted(ids) == sorted(f"s-{n}" for n in range(100))
    told = Counter(n.job for n in crowd.notes() if n.event == "job.submitted")
    assert set(told.values()) == {1}


def test_ticks_and_demand_at_once_make_one_create(cloud: Cloud, tmp_path: Path) -> None:
    """Two ticks, and the same demand in twenty events over two instances: the cloud is asked for one TPU, once."""
    with some(cloud, tmp_path, NARROW, capacity_race=2, autoscale=2, submit=1) as deployment:
        cloud.eventarc.plan = lambda event: ()
        tick = [message(deployment, "ticks", to_body(Tick(full=True))) for _ in range(2)]
        deliver(deployment.urls("autoscale"), tick)
        assert [slot.state for slot in deployment.slots().values()] == [SlotState.FREE]
        body = {"v": 1, "submission_id": "one", "jobs": [submitted(deployment, id="one", tpu="v6e-16")]}
        deliver(deployment.urls("submit"), [message(deployment, "submissions", body)])
        before = created(cloud)
        deliver(deployment.urls("capacity_race"), [written(deployment, "jobs/one")] * 20)
        deliver(deployment.urls("autoscale"), tick * 3)
        assert created(cloud) - before == 1
        assert len(deployment.tpus()) == 1
        [slot] = deployment.slots().values()
        assert (slot.generation, slot.tpu) == (1, deployment.tpus()[0])


def created(cloud: Cloud) -> int:
    return Counter(cloud.tpus.do("calls"))["CreateQueuedResource"]


class Late:
    """A cloud whose first create begins, and then takes its time: its caller's claim ends meanwhile."""

    def __init__(self, cloud: CloudTpu) -> None:
        self._cloud, self.begun, self.go_on = cloud, threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud, name)

    def create(self, order: CreateOrder) -> None:
        first = not self.begun.is_set()
        self._cloud.create(order)
        if first:
            self.begun.set()
            assert self.go_on.wait(30)


def test_a_handler_past_its_claim_beside_its_twin(cloud: Cloud, tmp_path: Path) -> None:
    """The twin takes the effect over with the same request id: the cloud has one TPU, the slot one generation, and the
    late one's result is of no use any more."""
    with some(cloud, tmp_path, NARROW) as deployment:
        slot = demanded(deployment)
        late = Late(CloudTpu(cloud.project, clock=WallClock(), client=lambda: connect(cloud.tpu_endpoint)))
        first, twin = (runner(deployment, late, tmp_path / name) for name in ("first", "twin"))
        reasons: dict[str, str] = {}
        thread = threading.Thread(target=lambda: reasons.update(first=handled(first, Written(kind="job", id="one"))))
        thread.start()
        assert late.begun.wait(30)
        deployment.until(lambda: expired(deployment, slot))
        handled(twin, Wake(entity=slot_entity(slot)))
        with deployment.store.cut() as cut:
            assert cut.row(slot_entity(slot)) is None
        late.go_on.set()
        thread.join(30)
        assert "first" in reasons
        assert (len(deployment.tpus()), deployment.slots()[slot].generation) == (1, 1)
        with deployment.store.cut() as cut:
            assert len(cut.outcomes()) <= 1


def demanded(deployment: Deployment) -> str:
    """A job and its free slot."""
    with deployment.store.cut() as cut:
        fleet, now = cut.fleet(), cut.now
    [(name, pool)] = fleet.slots()
    job = replace(pending("one", now), accepts=("v6e-16@us-east5",), unpinned=("v6e-16@us-east5",))
    writes = (new_slot(name, pool, now=now), job, JobSpec(id="one", command="true"))
    deployment.store.commit(Commit(id="demand", writes=writes))
    return name


def expired(deployment: Deployment, slot: str) -> bool:
    with deployment.store.cut() as cut:
        row = cut.row(slot_entity(slot))
        return row is not None and row.effect.kind is Kind.CREATE and row.claim_until < cut.now


def runner(deployment: Deployment, cloud: Any, home: Path) -> Runner:
    """An instance in this process whose claims are short."""
    nothing: Mapping[str, Any] = {"workers": None, "blobs": None}
    ports = Ports(
        store=FirestoreStore(deployment.cloud.project, deployment.name),
        bus=LocalBus(home / "bus.sqlite", WallClock()),
        cloud=cloud,
        clock=WallClock(),
        **nothing,
    )
    return Runner(
        ports,
        policy=replace(SANDBOX, effect_claim=0.5),
        performers=dict(PERFORMERS),
        new_id=lambda: uuid.uuid4().hex,
        jitter=lambda attempt: 0.01,
    )


def handled(runner: Runner, event: Event) -> str:
    return runner.handle(function("capacity_race"), event)
