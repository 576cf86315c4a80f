"""Google's emulators of Firestore and Pub/Sub, started from the gcloud SDK that is on this machine.

Without them a test is skipped and says what is missing; in CI that is a failure. Each session has emulators of its own
on free ports, each test a deployment name of its own, so that nothing has to be reset.
"""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROJECT = "demo-tpufn"
"""Names that begin with `demo-` are for emulators: no real project can have one."""
_JVM = ("java", "-Duser.language=en", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Ready in half of the time, with half of the memory."""
_FIRESTORE = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
_READY_SECONDS = 60.0
_STARTS = 3


@dataclass(frozen=True)
class FirestoreEmulator:
    """`host` as in FIRESTORE_EMULATOR_HOST; it calls triggers at 127.0.0.1:`triggers_port`, which is kept for us."""

    host: str
    triggers_port: int
    project: str = PROJECT
    deployments: list[str] = field(default_factory=list)

    def deployment(self) -> str:
        """A name whose database nobody has used yet."""
        self.deployments.append(fresh_name())
        return self.deployments[-1]

    def index_usage(self, database: str) -> list[dict[str, Any]]:
        """The indexes that production would have needed for the queries so far. The emulator itself needs none."""
        name = urllib.parse.quote(f"projects/{self.project}/databases/{database}", safe="")
        report = _get(f"http://{self.host}/emulator/v1/projects/{self.project}:indexUsage?database={name}")
        return [entry["index"] for entry in json.loads(report).get("reports", ())]

    def watch(self, trigger: str, *, database: str, document: str, event_type: str) -> None:
        """Have document writes reported at `triggers_port`. There is no way to take it back."""
        body = {
            "eventType": event_type,
            "database": database,
            "namespace": "(default)",
            "document": {"value": document, "matchType": "PATH_PATTERN"},
        }
        url = f"http://{self.host}/emulator/v1/projects/{self.project}/eventarcTrigger?eventarcTriggerId={trigger}"
        headers = {"content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=10):
            pass


@dataclass(frozen=True)
class PubSubEmulator:
    """`host` as in PUBSUB_EMULATOR_HOST."""

    host: str
    project: str = PROJECT


def fresh_name() -> str:
    """A deployment's name that nobody has had."""
    return f"t{uuid.uuid4().hex[:12]}"


@contextmanager
def run_firestore() -> Iterator[FirestoreEmulator]:
    jar = _found("cloud-firestore-emulator/cloud-firestore-emulator.jar")

    def command(port: int) -> list[str]:
        own = ["--host=127.0.0.1", f"--port={port}", f"--websocket_port={free_port()}", f"--project_id={PROJECT}"]
        return [*_JVM, "-cp", str(jar), _FIRESTORE, *own, f"--functions_emulator=127.0.0.1:{triggers}"]

    with kept_port() as triggers, _running("Firestore", command) as host:
        yield FirestoreEmulator(host=host, triggers_port=triggers)


@contextmanager
def run_pubsub() -> Iterator[PubSubEmulator]:
    jar = _found("pubsub-emulator/lib/cloud-pubsub-emulator-*-all.jar")
    with _running("Pub/Sub", lambda port: [*_JVM, "-jar", str(jar), "--host=127.0.0.1", f"--port={port}"]) as host:
        yield PubSubEmulator(host=host)


@contextmanager
def kept_port() -> Iterator[int]:
    """A port that nobody else gets: bound all the time, for servers of ours that set SO_REUSEPORT to listen at."""
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        keeper.bind(("127.0.0.1", 0))
        yield int(keeper.getsockname()[1])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(name: str, command: Callable[[int], Sequence[str]]) -> Iterator[str]:
    """Between finding a port and binding it somebody else may take it: then another one."""
    for _ in range(_STARTS):
        port = free_port()
        process = subprocess.Popen(command(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if _is_ready(process, f"http://127.0.0.1:{port}/"):
                yield f"127.0.0.1:{port}"
                return
        finally:
            process.terminate()
            process.wait(30)
    pytest.fail(f"the {name} emulator did not start in {_STARTS} tries")


def _is_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    deadline = time.monotonic() + _READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError):
            return bool(_get(url))
        time.sleep(0.02)
    return False


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bytes(answer.read())


def _found(pattern: str) -> Path:
    """The emulator's archive below the SDK's `platform`."""
    if shutil.which("java") is None:
        _without("no `java` is on the path")
    for root in _sdk_roots():
        for path in sorted(root.glob(f"platform/{pattern}")):
            return path
    return _without(
        f"no {pattern} in the gcloud SDK: gcloud components install cloud-firestore-emulator pubsub-emulator"
    )


def _sdk_roots() -> Iterator[Path]:
    """Beside the program first: asking it takes a second."""
    gcloud = shutil.which("gcloud")
    if gcloud is None:
        return
    yield Path(gcloud).resolve().parents[1]
    question = [gcloud, "info", "--format=value(installation.sdk_root)"]
    answer = subprocess.run(question, capture_output=True, text=True, timeout=60, check=False)
    yield Path(answer.stdout.strip() or "/nowhere")


def _without(reason: str) -> Any:
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have the emulators: {reason}")
    pytest.skip(reason)
