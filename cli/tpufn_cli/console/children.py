"""Child processes that end with the program that started them, never read its standard input, and have a deadline."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

MISSING = 127
STOPPED = 124


class Children:
    """The children of one program. `close` ends them all, from any thread."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run(
        self, command: Sequence[str], *, given: bytes = b"", line: Callable[[str], None], timeout: float = 1800.0
    ) -> int:
        """Run to the end; each line of both outputs goes to `line`. The exit code; 127 not found, 124 took too long."""
        try:
            child = self._start(command)
        except OSError as error:
            line(f"{command[0]}: {error.strerror}")
            return MISSING
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            _end(child)

        alarm = threading.Timer(timeout, expire)
        alarm.daemon = True
        alarm.start()
        try:
            _feed(child, given)
            for raw in child.stdout or ():
                line(raw.decode("utf-8", "replace").rstrip("\n"))
            code = child.wait()
        finally:
            alarm.cancel()
            self._forget(child)
        if expired.is_set():
            line(f"stopped after {timeout:.0f} s")
            return STOPPED
        return code

    def close(self) -> None:
        """End every child and start no more."""
        with self._lock:
            self._closed = True
            running = tuple(self._running)
        for child in running:
            _end(child)

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise OSError(0, "the console is closing")
            child = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(child)
            return child

    def _forget(self, child: subprocess.Popen[bytes]) -> None:
        if child.stdout:
            child.stdout.close()
        with self._lock:
            self._running.discard(child)


def answer(command: Sequence[str], *, timeout: float = 15.0) -> tuple[int, str]:
    """(exit code, output) of a short question to a tool; 127 where there is no such tool."""
    lines: list[str] = []
    code = Children().run(command, line=lines.append, timeout=timeout)
    return code, "\n".join(lines).strip()


def _feed(child: subprocess.Popen[bytes], given: bytes) -> None:
    with suppress(BrokenPipeError):
        if child.stdin:
            child.stdin.write(given)
    with suppress(BrokenPipeError):
        if child.stdin:
            child.stdin.close()


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
