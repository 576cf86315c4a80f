"""The job's command: `bash -lc -- COMMAND` in a session of its own, its output merged into one pipe."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import threading

from .workspace import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .protocol import Place

_F_SETPIPE_SZ = 1031
_SHELL = "/bin/bash" if os.path.exists("/bin/bash") else "bash"


class Command:
    """`session` is its process id and the id of its session; `output` is where its output is read."""

    def __init__(self, place: Place, text: str, environment: Mapping[bytes, bytes]) -> None:
        self.output, target = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.output, _F_SETPIPE_SZ, 1 << 20)
        try:
            self._process = subprocess.Popen(
                ["bash", "-lc", "--", text.encode("utf-8", "surrogateescape")],
                executable=_SHELL,
                cwd=place.job_dir,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=target,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise SetupError(f"the command cannot be started: {error}") from error
        finally:
            os.close(target)
        self.session = self._process.pid

    def reap(self, ended: Callable[[int], None]) -> None:
        """In a thread: wait for every child, adopted orphans too; tell the command's exit code, as a shell has it."""
        threading.Thread(target=self._reap, args=(ended,), daemon=True).start()

    def _reap(self, ended: Callable[[int], None]) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            if pid == self.session:
                code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                self._process.returncode = code
                ended(code)
