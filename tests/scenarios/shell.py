"""A folder with a job in it, and the real command line over the real engine in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil

SOURCE = os.pathsep.join(str(Path(__file__).parents[2] / root) for root in ("shared", "cli"))
PATIENCE = 60.0


class Shell:
    """A folder, a state directory, and `tpufn` in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "src").mkdir()
        (folder / "src" / "x").write_text("x")
        self.env = {**os.environ, "PYTHONPATH": SOURCE, "TPUFN_HOME": str(folder / "state")}

    def job(self, command: str, id: str = "fix", tpu: str = "v6e-8") -> str:
        path = self.folder / "job.yaml"
        keys = f"id: {id}, tpu: {tpu}, buckets: [gs://bkt-us-east5, gs://bkt-us-central1], bundle: src"
        path.write_text(f"jobs:\n  - {{{keys}, command: '{command}'}}\n")
        return str(path)

    def command(self, *argv: str) -> list[str]:
        return [sys.executable, "-u", "-m", "tpufn_cli", *argv]

    def start(self, *argv: str, stdout: int | IO[str] = subprocess.PIPE) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*argv),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env,
            cwd=self.folder,
        )

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*argv)
        out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def running(self) -> list[str]:
        """What runs below this folder: agents, jobs and their children."""
        found = []
        for process in psutil.process_iter(["cmdline", "environ", "cwd"]):
            marks = (process.info["cwd"] or "", (process.info["environ"] or {}).get("TPUFN_HOST", ""))
            if process.pid != os.getpid() and any(mark.startswith(f"{self.folder}/state") for mark in marks):
                found.append(" ".join(process.info["cmdline"] or ()))
        return found

    def until_running(self, id: str) -> None:
        """Until its command has begun."""
        with self.start("watch", id, "--sandbox") as watch:
            until(watch.stdout, "attempt.running")
            watch.kill()

    def until_quiet(self) -> None:
        """Until nothing runs on its hosts any more."""
        deadline = time.monotonic() + PATIENCE
        while left := self.running():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)

    @contextmanager
    def engine(self) -> Iterator[None]:
        up = self.start("up", "--sandbox")
        try:
            until(up.stderr, "the engine runs")
            yield
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=PATIENCE)


def until(stream: IO[str] | None, text: str) -> None:
    assert stream is not None
    assert any(text in line for line in stream), f"ended before {text!r}"
