"""The port `Workers` and the simulated cloud's hosts, with real processes."""

import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tpufn.domain.cloud import NodeState, Tpu
from tpufn.domain.job import Cache
from tpufn.domain.orders import LaunchOrder, StopOrder
from tpufn.domain.slot import Lease
from tpufn.simulation import hosts_processes
from tpufn.simulation.workers import LocalWorkers

NAME = "tpufn-lab-s-g3"


class Site:
    """A bucket, workers, and the orders of the core for one TPU of four hosts."""

    def __init__(self, root: Path):
        self.root = root
        self.workers = self.again()
        self.hosts = self.workers.provision(NAME, "zone-a", 4)
        self.tpu = Tpu(name=NAME, zone="zone-a", node=NodeState.READY, workers=self.hosts)
        (root / "blobs" / "b").mkdir(parents=True)

    def again(self) -> LocalWorkers:
        """As a restarted engine has them."""
        return LocalWorkers(self.root / "hosts", self.root / "blobs", settings={"linger": 0.2})

    def order(self, command="true", *, number=1, **more) -> LaunchOrder:
        attempt = f"job.{number}"
        plain = LaunchOrder(
            attempt=attempt,
            job="job",
            number=number,
            name="name",
            lease=Lease(slot="s", generation=3, fence=number, attempt=attempt),
            tpu=NAME,
            type="v4-32",
            zone="zone-a",
            project="project",
            workers=self.hosts,
            bucket="b",
            prefix=f"jobs/job/attempts/{number}",
            checkpoints="jobs/job/checkpoints",
            command=command,
            grace=2.0,
            heartbeat=0.2,
        )
        return replace(plain, **more)

    def stop_order(self, order: LaunchOrder) -> StopOrder:
        return StopOrder(
            attempt=order.attempt, lease=order.lease, tpu=NAME, workers=self.hosts, reason="cancelled", grace=0.5
        )

    def go(self, order):
        path = self.root / "blobs" / "b" / order.prefix / "go"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def results(self, order, what):
        files = (self.root / "blobs" / "b" / order.prefix / "status").glob(f"worker-*.{what}.json")
        return {int(f.name.split(".")[0].split("-")[1]): json.loads(f.read_bytes()) for f in files}

    def log(self, order, worker=0):
        return b"".join(
            p.read_bytes() for p in sorted((self.root / "blobs/b" / order.prefix / f"logs/worker-{worker}").glob("*"))
        )


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path.resolve())
    yield made
    made.workers.destroy(NAME)


def test_four_workers_run_a_job(site, until):
    """The whole way: launch, go, output and results of every worker, each with its own identity."""
    order = site.order(
        'echo "$JOB_WORKER_ID $TPU_WORKER_HOST $JOB_WORKER_ADDRESSES"', caches=(Cache(key="k", path="c"),)
    )
    assert site.workers.usable(site.tpu) == {0, 1, 2, 3}
    assert site.workers.launch(order) == {}
    until(lambda: len(site.results(order, "prepared")) == 4)
    assert site.workers.alive(site.tpu, "job.1") == {0: True, 1: True, 2: True, 3: True}
    site.go(order)
    until(lambda: len(site.results(order, "closed")) == 4)
    addresses = [host.address for host in site.hosts]
    for worker in range(4):
        assert site.log(order, worker).decode().split() == [str(worker), addresses[worker], ",".join(addresses)]
    assert len(set(addresses)) == 4
    assert site.workers.alive(site.tpu, "job.1") == {0: False, 1: False, 2: False, 3: False}


def test_launch_is_idempotent(site, until):
    """The next performer launches again what its predecessor may have launched."""
    order = site.order("echo once")
    assert site.workers.launch(order) == {}
    assert site.again().launch(order) == {}
    site.go(order)
    until(lambda: len(site.results(order, "closed")) == 4)
    assert site.workers.launch(order) == {}
    assert [site.log(order, w) for w in range(4)] == [b"once\n"] * 4


def test_jobs_survive_the_engine(site, until):
    """The engine may be killed at any moment; its workers go on and are found again."""
    order = site.order("echo up; sleep 1000")
    code = (
        "import sys, pickle\nfrom pathlib import Path\nfrom tpufn.simulation.workers import LocalWorkers\n"
        "home, blobs, order = pickle.loads(sys.stdin.buffer.read())\n"
        "print(LocalWorkers(home, blobs).launch(order), flush=True)\n"
        "import os\nos.kill(os.getpid(), 9)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps((site.root / "hosts", site.root / "blobs", order)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        stdout=subprocess.PIPE,
    )
    site.go(order)
    until(lambda: all(site.log(order, w) == b"up\n" for w in range(4)))
    engine = site.again()
    assert all(engine.alive(site.tpu, "job.1").values())
    assert engine.stop(site.stop_order(order)) == {}
    until(lambda: len(site.results(order, "closed")) == 4)


def test_stop_reports_where_the_launch_did(site, until):
    """A stop order names no bucket; also the workers that a broken launch never reached must close."""
    order = site.order("sleep 1000")
    site.workers.provision(NAME, "zone-a", 4)
    first_two = replace(order, workers=site.hosts[:2])
    assert site.workers.launch(first_two) == {}
    assert site.again().stop(site.stop_order(order)) == {}
    until(lambda: len(site.results(order, "closed")) == 4)
    refusals = site.workers.launch(order)
    assert set(refusals) == {2, 3}
    assert "tombstone" in refusals[2]


def test_kill_takes_everything_with_it(site, until):
    """A preempted TPU is gone at once: nothing reports, nothing runs, nothing more can start."""
    order = site.order("setsid bash -c \"trap '' TERM; cd /; sleep 1000; sleep 1000\" & echo up; sleep 1000")
    site.workers.launch(order)
    site.go(order)
    until(lambda: site.log(order, 3) == b"up\n")
    site.again().kill(NAME)
    assert hosts_processes.running([site.workers.host(NAME, i) for i in range(4)]) == set()
    assert site.results(order, "exited") == {}
    assert site.workers.usable(site.tpu) == frozenset()
    assert set(site.workers.launch(site.order(number=2))) == {0, 1, 2, 3}
    assert site.workers.alive(site.tpu, "job.1") == {}


def test_destroy_removes_the_disks(site):
    """The next TPU of the slot has another name and nothing of this one."""
    site.workers.destroy(NAME)
    assert not (site.root / "hosts" / NAME).exists()
    site.workers.destroy(NAME)
    assert site.workers.hosts(NAME) == []


def test_provision_again_changes_nothing(site, until):
    """A restarted simulation provisions what it finds in its records."""
    order = site.order("echo up; sleep 1000")
    site.workers.launch(order)
    assert site.again().provision(NAME, "zone-a", 4) == site.hosts
    until(lambda: all(site.workers.alive(site.tpu, "job.1").values()))


def test_notice_reaches_every_worker(site, until):
    """As the metadata server tells all hosts of a slice."""
    order = site.order("echo up; sleep 1000")
    site.workers.launch(order)
    site.go(order)
    until(lambda: all(site.log(order, w) == b"up\n" for w in range(4)))
    site.workers.notice(NAME)
    until(lambda: len(site.results(order, "closed")) == 4)
    assert all(e["preempted"] for e in site.results(order, "exited").values())


def test_order_of_another_generation(site):
    """Its lease is of a TPU that is no more."""
    order = site.order()
    late = replace(order, lease=Lease(slot="s", generation=2, fence=9, attempt="job.1"))
    assert "generation 3" in site.workers.launch(late)[0]


def test_hosts_that_are_not_there(site):
    """They are reported, not raised: the tick tries again."""
    order = site.order()
    elsewhere = replace(order, tpu="tpufn-lab-s-g9")
    assert set(site.workers.launch(elsewhere)) == {0, 1, 2, 3}
    assert site.workers.usable(Tpu(name="tpufn-lab-s-g9", zone="z", workers=site.hosts)) == frozenset()


def test_python_is_there_whatever_the_machine_has(site, until):
    """The demo's jobs say python3; a machine may have none but the one that runs this."""
    order = site.order('python3 -c "print(1)"; echo "$PATH"; echo "$HOME"')
    site.workers.launch(order)
    site.go(order)
    until(lambda: len(site.results(order, "closed")) == 4)
    one, path, home = site.log(order).decode().split()
    assert one == "1"
    assert path.split(":")[-1] == str(Path(sys.executable).parent)
    assert home == str(site.workers.host(NAME, 0) / "home")


def test_secret_references_become_values(site, until):
    """On the worker only: the order that the core made holds none."""
    workers = LocalWorkers(site.root / "hosts", site.root / "blobs", secret=lambda ref: f"value of {ref}")
    base = site.order('echo "$TOKEN"')
    order = replace(base, secrets={"TOKEN": "wandb-key@2"})
    workers.launch(order)
    site.go(order)
    until(lambda: len(site.results(order, "closed")) == 4)
    assert site.log(order) == b"value of wandb-key@2\n"


def test_launch_is_quick(site, until):
    """A person waits for it: four workers, from the call to every first line, in well under a second."""
    begin = time.monotonic()
    order = site.order("echo up")
    site.workers.launch(order)
    site.go(order)
    until(lambda: all(site.log(order, w) == b"up\n" for w in range(4)))
    assert time.monotonic() - begin < 5.0  # generous: machines under test are busy
