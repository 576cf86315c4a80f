"""Processes of a deployment: started as in production, ready when they answer, with what they print in a file each."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

_READY_SECONDS = 60.0
_DOOR = "from functions_framework._cli import _cli; _cli()"


class Process:
    """One process. `stop` ends it and everything that it started in its own group."""

    def __init__(self, name: str, command: Sequence[str], *, env: Mapping[str, str], log: Path) -> None:
        self.name, self.log = name, log
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **env}, stdin=subprocess.DEVNULL
            )

    def wait_ready(self, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while not is_ready():
            assert self._popen.poll() is None, f"{self.name} ended with {self._popen.returncode}:\n{self.tail()}"
            assert time.monotonic() < deadline, f"{self.name} is not ready:\n{self.tail()}"
            time.sleep(0.02)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def terminate(self) -> None:
        self._popen.terminate()

    def kill(self) -> None:
        """At once, as a machine that loses its power."""
        self._popen.kill()
        self._popen.wait(5)

    def stop(self) -> None:
        """Whatever it was doing: nothing of it is needed any more."""
        self._popen.terminate()
        try:
            self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait(5)


class FunctionProcess(Process):
    """A function on functions-framework and gunicorn, as the buildpack starts it."""

    def __init__(
        self, name: str, source: Path, port: int, *, env: Mapping[str, str], log: Path, python: str = sys.executable
    ) -> None:
        self.port, self.source = port, str(source)
        own = ["--target", name, "--source", str(source), "--host", "127.0.0.1", "--port", str(port)]
        super().__init__(name, [python, "-c", _DOOR, *own], env=env, log=log)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        with suppress(OSError, HTTPException):
            connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/")
            connection.getresponse().read()
            connection.close()
            return True
        return False


def until(
    condition: Callable[[], object], seconds: float = 60.0, *, what: Callable[[], str] = str, every: float = 0.05
) -> None:
    """Return as soon as it holds; fail with `what` if it does not in that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about in {seconds:.0f} s: {what()}"
        time.sleep(every)
