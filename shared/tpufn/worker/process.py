"""The processes of one attempt: found whatever they did to get away, ended, and looked for again.

A process is the attempt's if it descends from the supervisor (which adopts orphans: PR_SET_CHILD_SUBREAPER), is in the
command's session, carries the attempt's mark in its environment, works below the attempt's directory without a
terminal (a person's shell has one), or is in the attempt's control group. Where there is no /proc, `ps` tells only
descent and process group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from .scope import members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .protocol import Place

HAS_PROC = os.path.isdir("/proc/self")
_PR_SET_CHILD_SUBREAPER = 36


class Entry:
    """One line of the process table. `group` is the session where it is known, else the process group."""

    def __init__(self, pid: int, parent: int, group: int, has_terminal: bool) -> None:
        self.pid, self.parent, self.group, self.has_terminal = pid, parent, group, has_terminal


def table() -> list[Entry]:
    """Every process that runs; zombies do not."""
    return _proc_table() if HAS_PROC else _ps_table()


def descendants(entries: list[Entry], roots: set[int]) -> set[int]:
    """The processes below `roots`, without them."""
    children: dict[int, list[int]] = {}
    for entry in entries:
        children.setdefault(entry.parent, []).append(entry.pid)
    found: set[int] = set()
    open_ends = list(roots)
    while open_ends:
        new = [pid for pid in children.get(open_ends.pop(), ()) if pid not in found]
        found.update(new)
        open_ends += new
    return found


def environ(pid: int) -> bytes:
    """The environment it was started with, every variable between NULs; b"" if that cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + file.read() + b"\0"
    except OSError:
        return b""


def directory(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


class Tree:
    """All processes of an attempt. `supervisor` is 0 where it is dead; `session` is the command's, 0 before it runs;
    `scope` is the control group's directory, "" for none."""

    def __init__(self, place: Place, attempt: str, *, supervisor: int = 0, session: int = 0, scope: str = "") -> None:
        self.place, self.supervisor, self.session, self.scope = place, supervisor, session, scope
        self._mark = os.fsencode(f"\0TPUFN_HOST={place.home}\0"), os.fsencode(f"\0TPUFN_ATTEMPT={attempt}\0")
        self._job_dir = os.fsencode(f"\0JOB_DIR={place.job_dir}\0")

    def find(self) -> set[int]:
        entries = table()
        below = descendants(entries, {self.supervisor}) if self.supervisor else set()
        below |= members(self.scope)
        found = {e.pid for e in entries if e.pid in below or self._is_ours(e)}
        found |= descendants(entries, found)
        return found - {os.getpid(), self.supervisor}

    def signal(self, number: int) -> set[int]:
        """Send it to every process; those that were there."""
        found = self.find()
        for pid in found:
            send(pid, number)
        return found

    def wait(self, deadline: float) -> bool:
        """Until none is left, at most until then (monotonic)."""
        pause = 0.005
        while self.find():
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.1)
        return True

    def kill(self, patience: float = 10.0) -> bool:
        """KILL, again and again while it still finds some: a fork may be faster than one look."""
        deadline = time.monotonic() + patience
        while freeze_and_kill(self.find()):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def _is_ours(self, entry: Entry) -> bool:
        if self.session and entry.group == self.session:
            return True
        variables = environ(entry.pid)
        if self._job_dir in variables or all(mark in variables for mark in self._mark):
            return True
        return not entry.has_terminal and self._is_inside(directory(entry.pid))

    def _is_inside(self, path: str) -> bool:
        path = path[: -len(" (deleted)")] if path.endswith(" (deleted)") else path
        return path == self.place.job_dir or path.startswith(self.place.job_dir + os.sep)


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def boot() -> str:
    """Names this run of the machine: session ids of another one mean nothing."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def freeze_and_kill(pids: set[int]) -> bool:
    """STOP all before the first one dies: no parent gets to act on the death of its child. Whether there were any."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            send(pid, number)
    return bool(pids)


def adopt_orphans() -> None:
    """From now on a descendant whose parent dies becomes this process's child. Only Linux can."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _proc_table() -> list[Entry]:
    entries = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    entries.append(Entry(int(name), int(fields[1]), int(fields[3]), fields[4] != b"0"))
    return entries


def _ps_table() -> list[Entry]:
    answer = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,pgid=,stat=,tty="], stdout=subprocess.PIPE, check=False, timeout=10
    )
    entries = []
    for line in answer.stdout.decode("ascii", "replace").splitlines():
        pid, parent, group, state, terminal = (line.split() + ["?"] * 5)[:5]
        if not state.startswith("Z"):
            entries.append(Entry(int(pid), int(parent), int(group), not terminal.startswith("?")))
    return entries
