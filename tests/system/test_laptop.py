"""Laptop mode: `tpufn up` over the real Google clients, with nothing deployed, while the laptop comes and goes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tpufn.client import Client, open_client
from tpufn.domain.views import JobView
from tpufn.simulation.server_door import Door

from ..contracts.storage_server import make_bucket, storage_server
from ..emulators import PROJECT, fresh_name
from .deployment import REGIONS, SOURCE, run_tpus
from .locations import located
from .processes import Process, until

JOB = Path(__file__).parent / "job"
STEPS = 40


class Laptop:
    """A person's machine, a deployment file of mode laptop, and Google's services."""

    def __init__(self, home: Path, storage: str, regional: str, tpus: str, door: Door) -> None:
        self.home, self.storage, self.door, self.name = home, storage, door, fresh_name()
        self._lives = count()
        self.env = {
            **SOURCE,
            "TPUFN_HOME": str(home / "state"),
            "TPUFN_DEPLOYMENT": str(home / "deployment.yaml"),
            "TPUFN_POLICY": "sandbox",
            "TPUFN_WORKERS": f"local:{home / 'workers'}",
            "TPUFN_TPU_ENDPOINT": tpus,
            "STORAGE_EMULATOR_HOST": regional,
        }
        zones = "zones: [us-central1-a, us-east5-a, europe-west4-b]"
        (home / "deployment.yaml").write_text(
            f"name: {self.name}\nproject: {PROJECT}\nmode: laptop\nidle_timeout_seconds: 1\n"
            f"tpus: [{{type: v5p-16, {zones}, count: 1}}]\n"
        )
        for region in REGIONS:
            make_bucket(storage, self.bucket(region))

    def bucket(self, region: str) -> str:
        return f"{self.name}-{region}"

    def job(self, id: str, command: str = "python3 train.py") -> str:
        path = self.home / f"{id}.yaml"
        buckets = "".join(f"      - gs://{self.bucket(region)}\n" for region in REGIONS)
        path.write_text(
            f"jobs:\n  - id: {id}\n    tpu: v5p-16\n    buckets:\n{buckets}    bundle: {JOB}\n"
            f'    env: {{STORAGE: "{self.storage}", STEPS: "{STEPS}"}}\n    command: {command}\n'
        )
        return str(path)

    @contextmanager
    def up(self) -> Iterator[Process]:
        """The engine. What the test leaves to it at the end, it is killed with."""
        command = [sys.executable, "-u", "-m", "tpufn_cli", "up"]
        engine = Process("up", command, env=self.env, log=self.home / f"up-{next(self._lives)}.log")
        try:
            engine.wait_ready(lambda: "the engine runs" in engine.tail())
            yield engine
        finally:
            engine.kill()

    def tpufn(self, *arguments: str, seconds: float = 90.0) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "tpufn_cli", *arguments]
        env = {**os.environ, **self.env}
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=seconds, check=False)

    def client(self) -> Client:
        return open_client(home=self.env["TPUFN_HOME"], deployment=self.env["TPUFN_DEPLOYMENT"])

    def until(self, id: str, condition: Callable[[JobView], object]) -> JobView:
        client = self.client()
        until(lambda: condition(client.job(id)), 60.0, what=lambda: f"{client.job(id)}\n{client.slots()}")
        return client.job(id)

    def until_begun(self, id: str) -> JobView:
        """Until its command has written something: an attempt may be running whose workers have not heard so yet."""
        client = self.client()
        until(lambda: any(b"begins" in piece.data for piece in client.logs(id)), what=lambda: f"{client.job(id)}")
        return client.job(id)

    def until_released(self) -> None:
        until(lambda: not self.resources(), 60.0, what=lambda: f"{self.resources()}")

    def phases(self) -> dict[str, str]:
        return {str(each["order"]["name"]): str(each["phase"]) for each in self.resources()}

    def resources(self) -> list[Any]:
        return list(self.door.snapshot()["resources"])


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    home = tmp_path_factory.mktemp("laptop")
    with (
        storage_server() as storage,
        located(storage, REGIONS) as regional,
        run_tpus(PROJECT, home / "workers", home / "tpus.log") as (tpus, door),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("STORAGE_EMULATOR_HOST", regional)
        yield Laptop(home, storage, regional, tpus, door)


def test_a_run_from_submit_to_nothing_left(laptop: Laptop) -> None:
    """`tpufn run`: the race, the real clients, the workers' results out of the bucket, and no TPU at the end."""
    ran = laptop.tpufn("run", laptop.job("whole"), "--json")
    assert ran.returncode == 0, ran.stderr + ran.stdout[-3000:]
    last = json.loads(ran.stdout.splitlines()[-1])
    assert (last["event"], last["status"], last["provisioned"]) == ("finished", "succeeded", 0)
    laptop.until_released()


def test_a_job_that_ends_while_the_laptop_is_closed(laptop: Laptop) -> None:
    """The workers go on without the engine; what they wrote is read when it is back."""
    with laptop.up():
        assert laptop.tpufn("submit", laptop.job("closed")).returncode == 0
        attempt = laptop.until_begun("closed").attempts[-1]
    until(lambda: ended(laptop, attempt.bucket, f"{attempt.prefix}/status/"), 60.0)
    assert laptop.client().job("closed").job.state == "active", "nobody has looked"
    with laptop.up():
        view = laptop.until("closed", lambda view: view.job.is_terminal)
        assert (view.job.state, len(view.attempts)) == ("succeeded", 1)
        laptop.until_released()


def ended(laptop: Laptop, bucket: str, prefix: str) -> bool:
    from tpufn.adapters.gcs import CloudBlobs, connect

    blobs = CloudBlobs(lambda: connect(PROJECT, laptop.storage))
    names = [item.key for item in blobs.list(bucket, prefix)]
    return sum(name.endswith(".closed.json") for name in names) == 2


def test_a_preemption_while_the_laptop_is_closed(laptop: Laptop) -> None:
    """The TPU is gone when the laptop opens again: the job goes on from its checkpoint, in its region."""
    with laptop.up():
        assert laptop.tpufn("submit", laptop.job("taken")).returncode == 0
        first = laptop.until_begun("taken").attempts[-1]
    laptop.door.preempt(first.tpu, notice=0.5)
    until(lambda: laptop.phases()[first.tpu] == "suspended", 30.0, what=lambda: str(laptop.phases()))
    with laptop.up():
        view = laptop.until("taken", lambda view: view.job.is_terminal)
        outcomes = [attempt.outcome for attempt in view.attempts]
        assert (view.job.state, outcomes) == ("succeeded", ["preempted", "succeeded"])
        assert len({attempt.region for attempt in view.attempts}) == 1
        laptop.until_released()


def test_a_seed_is_for_simulated_tpus(laptop: Laptop) -> None:
    refused = laptop.tpufn("run", laptop.job("seed"), "--seed", "3")
    assert refused.returncode == 2
    assert "--seed is for simulated TPUs" in refused.stderr
