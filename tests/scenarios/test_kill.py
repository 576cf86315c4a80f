"""`kill -9` of the real engine with real worker processes, at chosen moments, and then the engine again.

The engine runs in a process of its own and prints each note when it is stored; the test kills it when the note it waits
for appears. Workers are not the engine's children in any sense that a kill reaches: they go on meanwhile.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tpufn.client import Client, open_client

DEMO = Path(__file__).parents[2] / "cli" / "tpufn_cli" / "examples" / "demo"
PATIENCE = 60.0
"""Seconds in which each awaited thing must happen."""

_ENGINE = """
import sys
from tpufn.client import open_engine
home, deployment = sys.argv[1:]
engine = open_engine(home=home, deployment=deployment, sandbox=True, seed=3, speed=4.0)
engine.subscribe(lambda note: print(note.event, flush=True))
engine.start()
print("ready", flush=True)
for line in sys.stdin:
    verb, _, argument = line.strip().partition(" ")
    if verb == "preempt":
        engine.simulation.preempt(argument)
    if verb == "drain":
        print("drained", engine.drain(), flush=True)
"""


class Engine:
    """One life of the engine's process."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ENGINE, str(home), str(DEMO / "deployment.yaml")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def until(self, word: str) -> str:
        """The first line that begins with the word; what comes before it is passed over."""
        assert self.process.stdout is not None
        with _alarm(f"no {word!r}"):
            for line in self.process.stdout:
                if line.startswith(word):
                    return line.strip()
        raise AssertionError(f"the engine ended before {word!r}")

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def _alarm(text: str) -> Iterator[None]:
    """Fail instead of waiting for ever."""

    def ring(*_: object) -> None:
        raise AssertionError(f"{text} within {PATIENCE:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def living(home: Path) -> Iterator[Engine]:
    engine = Engine(home)
    try:
        engine.until("ready")
        yield engine
    finally:
        engine.kill()


def attempts_running(home: Path) -> set[str]:
    """The attempts whose command runs somewhere below this home, by the environment of the processes."""
    found = set()
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        if environment.get("JOB_DIR", "").startswith(str(home)):
            found.add(environment["ATTEMPT_ID"])
    return found


def wait_until_nothing_runs(home: Path) -> None:
    """What was told to end has ended."""
    with _alarm("processes are left"):
        while attempts_running(home):
            time.sleep(0.02)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """The example with less to train."""
    copy = shutil.copytree(DEMO, tmp_path / "demo")
    file = copy / "job.yaml"
    file.write_text(file.read_text().replace('STEPS: "40"', 'STEPS: "25"'))
    return copy


def client_of(home: Path) -> Client:
    return open_client(home=str(home), deployment=str(DEMO / "deployment.yaml"), sandbox=True)


def test_killed_at_every_stage(home: Path, demo: Path) -> None:
    """One job through nine lives of the engine, a preemption among them: it succeeds, and nothing is left."""
    with living(home) as engine:
        client = client_of(home)
        (job,) = client.wait_accepted(client.submit(str(demo / "job.yaml")))
        engine.until("slot.requesting")
    for stage in (_slot("provisioning"), _assigned(1), _launching(1), _accepted(1), _output(1)):
        _live_until(home, client, job.id, stage)
    with living(home) as engine:
        engine.tell(f"preempt {client.job(job.id).attempts[-1].tpu}")
        engine.until("attempt.closed")
    for stage in (_assigned(2), _output(2), _succeeded):
        _live_until(home, client, job.id, stage)
    _check_end(home, client, job.id)


Stage = Callable[[Client, str], bool]
"""Whether the job has come so far."""


def _live_until(home: Path, client: Client, job: str, stage: Stage) -> None:
    """One life of the engine, up to the stage."""
    with living(home), _alarm("the job does not get on"):
        while not stage(client, job):
            time.sleep(0.01)
            assert len(attempts_running(home)) <= 1
    assert len(attempts_running(home)) <= 1


def _slot(state: str) -> Stage:
    """A slot is there, or has been."""
    return lambda client, job: (
        any(s.state == state for s in client.slots()) or bool(client.job(job).attempts)  # it went past it at once
    )


def _assigned(number: int) -> Stage:
    return lambda client, job: len(client.job(job).attempts) >= number


def _launching(number: int) -> Stage:
    """Just committed: whoever kills now leaves a claimed launch behind."""
    return lambda client, job: (
        _assigned(number)(client, job) and client.job(job).attempts[number - 1].state != "assigned"
    )


def _accepted(number: int) -> Stage:
    return lambda client, job: _assigned(number)(client, job) and client.job(job).attempts[number - 1].accepted


def _output(number: int) -> Stage:
    return lambda client, job: bool(_assigned(number)(client, job) and list(client.logs(job, attempt=number, worker=0)))


def _succeeded(client: Client, job: str) -> bool:
    return client.job(job).job.is_terminal


def _check_end(home: Path, client: Client, job: str) -> None:
    """Succeeded, each attempt started once and one at a time, nothing provisioned and nothing running."""
    with living(home) as engine:
        engine.tell("drain")
        assert engine.until("drained") == "drained 0"
    wait_until_nothing_runs(home)
    view = client.job(job)
    assert view.job.state == "succeeded"
    assert [str(a.outcome) for a in view.attempts] == ["preempted", "succeeded"]
    output = {a.number: b"".join(p.data for p in client.logs(job, attempt=a.number, worker=0)) for a in view.attempts}
    assert output[1].count(b"starting on") == 1
    assert output[2].count(b"resumed from") + output[2].count(b"starting on") == 1
    assert output[2].count(b"done:") == 1
    assert {slot.state for slot in client.slots()} == {"free"}
