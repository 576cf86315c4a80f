"""`tpufn destroy`: nothing of ours outlives it, nothing of others is touched. The TPUs are the simulated cloud's."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tpufn.deploy.teardown import Patience, destroy
from tpufn.domain.cloud import CreateOrder, ownership_labels
from tpufn.domain.errors import Conflict, InputError, NotFound, Refused
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobState
from tpufn.simulation.capacity import Capacity
from tpufn.simulation.clock import VirtualClock
from tpufn.simulation.cloud import SimulatedCloud

from .conftest import FLEET, Bench, FakeTerraform, Heard, applied, planned

Make = Callable[..., Bench]


class Deployment:
    """A client of one whose functions run: what is declared away is released some looks later."""

    def __init__(self, fleet: Fleet | None = FLEET, *, jobs: int = 0, looks: int = 2) -> None:
        self.now, self.live, self.looks = fleet, jobs, looks
        self.cancelled: list[str] = []
        self.held = ["tpufn-lab-a-g1"]

    def fleet(self) -> Fleet:
        if self.now is None:
            raise NotFound("no fleet")
        return self.now

    def jobs(self, *, states: Sequence[str] = (), limit: int = 100) -> tuple[Job, ...]:
        found = tuple(Job(id=f"j{i}", state=JobState.ACTIVE) for i in range(self.live))
        self.looks -= 1
        if self.looks < 0:
            self.live = 0
        return found

    def cancel(self, ids: Sequence[str]) -> None:
        self.cancelled += ids
        if ids == ["j1"]:
            raise Conflict("it has ended")

    def slots(self) -> tuple[Any, ...]:
        if self.now is not None and not self.now.pools:
            self.held = []
        return tuple(_Slot(tpu, "p") for tpu in self.held)

    def declare(self, fleet: Fleet) -> None:
        self.now = fleet


class _Slot:
    def __init__(self, tpu: str, pool: str) -> None:
        self.tpu, self.pool = tpu, pool


class Zones:
    """The simulated cloud, in which one zone answers 403 and time passes with each look."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cloud = SimulatedCloud(Capacity(seed=1), clock=self.clock)

    def make(self, name: str, zone: str, labels: dict[str, str]) -> None:
        self.cloud.create(
            CreateOrder(
                name=name,
                zone=zone,
                type="v6e-8",
                runtime="v2-alpha-tpuv6e",
                model="spot",
                request_id=name,
                labels=labels,
            )
        )

    def list(self, zone: str) -> Any:
        if zone == "us-south1-a":
            raise Refused(7, "Permission denied")
        return self.cloud.list(zone)

    def delete(self, name: str, zone: str) -> None:
        self.cloud.delete(name, zone)

    def names(self) -> set[str]:
        return {str(each.order.name) for each in self.cloud.snapshot().resources}


@pytest.fixture
def zones() -> Zones:
    """Ours in a zone of the file and in one that has left it, another deployment's, and a stranger's."""
    made = Zones()
    ours = ownership_labels("lab", "n1", "s", 1)
    made.make("tpufn-lab-a-g1", "us-east1-d", ours)
    made.make("tpufn-lab-b-g1", "europe-west4-a", ours)
    made.make("tpufn-other-a-g1", "us-east1-d", ownership_labels("other", "n2", "s", 1))
    made.make("somebodys", "us-east1-d", {})
    return made


def run(
    made: Bench, zones: Zones, client: Deployment, *, force: bool = False, agrees: bool = True, **patience: float
) -> tuple[tuple[str, ...], Heard]:
    heard = Heard(agrees=agrees)

    def sleep(seconds: float) -> None:
        made.slept.append(seconds)
        zones.clock.advance(seconds)
        zones.cloud.advance()

    kept = destroy(
        made.wish,
        replace(made.tools, sleep=sleep),
        heard,
        client=client,  # type: ignore[arg-type]
        tpus=zones,
        empty=client.declare,
        force=force,
        patience=Patience(**patience),
    )
    return kept, heard


def test_nothing_of_ours_is_left(bench: Make, terraform: FakeTerraform, zones: Zones) -> None:
    """Jobs end, slots are released, what no slot knows is found by its label in any zone; then the infrastructure."""
    terraform.play("plan", [planned("google_firestore_database.this", "update")])
    terraform.play("plan", [planned("google_firestore_database.this", "delete")])
    terraform.play("apply", [applied("google_firestore_database.this", "delete")])
    client = Deployment(jobs=2)
    kept, heard = run(bench(), zones, client)
    assert zones.names() == {"tpufn-other-a-g1", "somebodys"}
    assert client.cancelled == []
    assert "jobs: waits for 2 to end; `--force` cancels them" in heard.lines
    assert "tpus: deleted: tpufn-lab-a-g1, tpufn-lab-b-g1" in heard.lines
    assert [(call[0], "-destroy" in call, call[-1]) for call in terraform.calls() if call[0] in ("plan", "apply")] == [
        ("plan", False, "free"),
        ("apply", False, "free"),
        ("plan", True, "free"),
        ("apply", False, "free"),
    ]
    assert kept[0] == "gs://my-data-us-east1: the jobs' data"


def test_force_cancels(bench: Make, zones: Zones) -> None:
    client = Deployment(jobs=3)
    run(bench(), zones, client, force=True)
    assert client.cancelled == ["j0", "j1", "j2"]


def test_a_half_made_deployment(bench: Make, zones: Zones) -> None:
    """Without a fleet there is nothing to drain; the rest goes on."""
    _, heard = run(bench(), zones, Deployment(None))
    assert "jobs: nothing is declared: there are none" in heard.lines
    assert not {name for name in zones.names() if "-lab-" in name}


def test_it_is_asked_first(bench: Make, zones: Zones) -> None:
    with pytest.raises(InputError, match="nothing was destroyed"):
        run(bench(), zones, Deployment(), agrees=False)
    assert len(zones.names()) == 4


def test_infrastructure_stays_while_tpus_do(bench: Make, terraform: FakeTerraform, zones: Zones) -> None:
    """What would tear them down later must not go first."""
    client = Deployment()
    client.declare = lambda fleet: None  # type: ignore[method-assign]  # functions that do not run
    with pytest.raises(Conflict, match="slots still hold TPUs after 20 s"):
        run(bench(), zones, client, tpus=20.0)
    assert not (terraform.folder / "calls").exists()
