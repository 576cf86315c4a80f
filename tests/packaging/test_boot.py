"""What is deployed boots: each archive takes an event, in an environment with nothing but its locked requirements."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from google.cloud.pubsub_v1 import PublisherClient

from tpufn.adapters.firestore import FirestoreStore
from tpufn.adapters.firestore_database import database_id
from tpufn.adapters.pubsub import topic_id
from tpufn.declare import apply_fleet
from tpufn.domain.fleet import Fleet
from tpufn.package import package
from tpufn.simulation.clock import WallClock
from tpufn.simulation.cloud import SimulatedCloud
from tpufn.simulation.server import Server
from tpufn.spec.deployment import load_deployment

from ..emulators import FirestoreEmulator, PubSubEmulator, free_port
from ..system import wakeups
from ..system.events import document_change, post, push
from ..system.processes import FunctionProcess

pytestmark = pytest.mark.installs
DEPLOYMENT = "name: NAME\nproject: PROJECT\ntpus: [{type: v6e-8, zone: us-east1-d, count: 1}]\n"
_PIP = ("install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "--no-deps")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the requirements, all of which have hashes, and nothing else."""
    home = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    python = home / "bin" / "python"
    lock = wakeups.ROOT / "functions" / "requirements.txt"
    subprocess.run([python, "-m", "pip", *_PIP, "-r", str(lock)], check=True)
    done = subprocess.run([python, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return python


@pytest.fixture(scope="module")
def functions(
    python: Path,
    firestore_emulator: FirestoreEmulator,
    pubsub_emulator: PubSubEmulator,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, FunctionProcess]]:
    """All of them, from their archives."""
    home, name, project = (
        tmp_path_factory.mktemp("archives"),
        firestore_emulator.deployment(),
        firestore_emulator.project,
    )
    (home / "deployment.yaml").write_text(DEPLOYMENT.replace("NAME", name).replace("PROJECT", project))
    fleet = load_deployment(home / "deployment.yaml").fleet
    prepare(project, name, fleet)
    env = {"TPUFN_NAME": name, "TPUFN_PROJECT": project, "TPUFN_DATABASE": database_id(name), "PYTHONPATH": ""}
    hosts = {"FIRESTORE_EMULATOR_HOST": firestore_emulator.host, "PUBSUB_EMULATOR_HOST": pubsub_emulator.host}
    clock = WallClock()
    with ExitStack() as stack:
        tpus = stack.enter_context(Server(SimulatedCloud(clock=clock), clock, project=project))
        hosts["TPUFN_TPU_ENDPOINT"] = tpus.endpoint
        started = {}
        for function, path in package(home / "out", fleet).archives.items():
            with zipfile.ZipFile(path) as file:
                file.extractall(home / function)
            source, log = home / function / "main.py", home / f"{function}.log"
            own = {**env, **hosts}
            process = FunctionProcess(function, source, free_port(), env=own, log=log, python=str(python))
            stack.callback(process.stop)
            started[function] = process
        for process in started.values():
            process.wait_ready(process.answers)
        yield started


def prepare(project: str, name: str, fleet: Fleet) -> None:
    store = FirestoreStore(project, name)
    apply_fleet(store, fleet)
    store.close()
    with PublisherClient() as publisher:
        for topic in (*wakeups.topics(), "dead-letters"):
            publisher.create_topic(name=f"projects/{project}/topics/{topic_id(name, topic)}")


@pytest.mark.parametrize("function", sorted(wakeups.functions()))
def test_boots_and_takes_an_event(function: str, functions: dict[str, FunctionProcess]) -> None:
    """One of each kind that wakes it; the answer is success, and the log says that it was handled."""
    row, process = wakeups.functions()[function], functions[function]
    for topic in row.topics:
        assert post(process.url, push(f"projects/p/topics/tpufn-n-{topic}", BODIES[topic])) == 200, process.tail()
    for document in row.documents:
        path = document.replace("{job}", "none").replace("{slot}", "none").replace("{attempt}", "1")
        assert post(process.url, document_change("projects/p/databases/d", path)) == 200, process.tail()
    assert '"severity": "INFO"' in process.tail()
    assert os.fspath(process.log.parent / function) in process.source


BODIES: dict[str, dict[str, object]] = {
    "submissions": {"v": 1, "jobs": []},
    "commands": {"verb": "cancel", "target": "none"},
    "wakes": {"entity": "job:none"},
    "worker-events": {"attempt": "none.1", "worker": 0, "what": "exited"},
    "preemptions": {"slot": "none", "generation": 1},
    "worker-ready": {"slot": "none", "generation": 1},
    "ticks": {"full": False},
    "notices": {"event": "job.succeeded", "subject": "job:none"},
}
