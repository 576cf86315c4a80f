"""A host for the agent: a directory, a bucket beside it, and the agent's own commands run as a caller runs them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tpufn.simulation import hosts_processes
from tpufn.simulation.hosts_agent import install
from tpufn.worker.workspace import remove_shared_memory

PYTHON = os.environ.get("TPUFN_AGENT_PYTHON", sys.executable)
"""The workers' interpreter: the suite can run the agent on another one than its own."""


class Host:
    """One worker. `order` makes a launch order, `run` a command of the agent, `play` a whole attempt."""

    def __init__(self, root: Path, agent: Path) -> None:
        self.root, self.agent = root, agent
        self.home, self.bucket, self.login_home = root / "host", root / "blobs" / "b", root / "home"
        self.notice = root / "notice"
        for directory in (self.home, self.bucket, self.login_home):
            directory.mkdir(parents=True)

    def order(self, command: str = "true", *, number: int = 1, fence: int | None = None, **more: Any) -> dict[str, Any]:
        attempt = f"job.{number}"
        body = {
            "attempt": attempt,
            "job": "job",
            "number": number,
            "name": "a name",
            "lease": {"slot": "s", "generation": 1, "fence": fence or number, "attempt": attempt},
            "tpu": "tpufn-lab-s-g1",
            "type": "v4-8",
            "zone": "zone-a",
            "project": "project",
            "workers": [{"address": "10.0.0.1", "reach": ""}, {"address": "10.0.0.2", "reach": ""}],
            "worker": 0,
            "bucket": {"kind": "directory", "root": str(self.root / "blobs"), "bucket": "b"},
            "prefix": f"jobs/job/attempts/{number}",
            "checkpoints": "jobs/job/checkpoints",
            "command": command,
            "grace": 5.0,
            "heartbeat": 0.2,
            "go_timeout": 30.0,
            "cache_reserve": 0,
            "metadata": {"kind": "file", "path": str(self.notice)},
        }
        return {**body, **more}

    def run(self, verb: str, body: dict[str, Any], **environment: str) -> dict[str, Any]:
        """The agent's answer, with its exit status as `exit`."""
        done = subprocess.run(
            [PYTHON, "-I", "-S", "-E", str(self.agent), verb, "--home", str(self.home)],
            input=json.dumps(body).encode(),
            capture_output=True,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": str(self.login_home),
                "TPUFN_HOST": str(self.home),
                **environment,
            },
            timeout=30,
            check=False,
        )
        assert not done.stderr, done.stderr.decode()
        return {**json.loads(done.stdout), "exit": done.returncode}

    def launch(self, order: dict[str, Any]) -> dict[str, Any]:
        answer = self.run("launch", order)
        assert answer["answer"] == "accepted", answer
        return answer

    def go(self, order: dict[str, Any]) -> None:
        path = self.path(order, "go")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")

    def start(self, order: dict[str, Any]) -> None:
        self.launch(order)
        self.go(order)

    def play(self, order: dict[str, Any]) -> dict[str, Any]:
        """`exited`, once the attempt is closed."""
        self.start(order)
        self.result(order, "closed")
        return self.result(order, "exited")

    def stop(self, order: dict[str, Any], **more: Any) -> dict[str, Any]:
        keys = ("attempt", "lease", "bucket", "prefix", "workers", "tpu")
        return self.run("stop", {**{key: order[key] for key in keys}, "grace": 5.0, "reason": "cancelled", **more})

    def status(self, **body: Any) -> dict[str, Any]:
        return self.run("status", body)

    def path(self, order: dict[str, Any], name: str) -> Path:
        return self.bucket / order["prefix"] / name

    def has(self, order: dict[str, Any], what: str) -> bool:
        return self.path(order, f"status/worker-0.{what}.json").exists()

    def result(self, order: dict[str, Any], what: str) -> dict[str, Any]:
        until(lambda: self.has(order, what))
        return dict(json.loads(self.path(order, f"status/worker-0.{what}.json").read_bytes()))

    def log(self, order: dict[str, Any]) -> bytes:
        """The output so far, from pieces numbered without a gap."""
        pieces = sorted(self.path(order, "logs/worker-0").glob("*.log"))
        assert [piece.name for piece in pieces] == [f"{number:08d}.log" for number in range(len(pieces))]
        return b"".join(piece.read_bytes() for piece in pieces)

    def processes(self) -> set[int]:
        return hosts_processes.running([self.home])


def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Return as soon as it holds; fail if it does not in that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.005)


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("agent"))


@pytest.fixture
def host(tmp_path: Path, agent: Path) -> Iterator[Host]:
    made = Host(tmp_path.resolve(), agent)
    yield made
    assert hosts_processes.kill([made.home])
    remove_shared_memory(str(made.home))


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., None]:
    return until
