"""A control group of its own for an attempt, where systemd runs: whatever a job's processes do, they stay in it.

The supervisor moves itself, before anything else, into a transient scope of the system's manager (a user's manager
would end with the last login). So even after the supervisor's own death, a daemon in another session with an empty
environment is found: by membership. Where there is no systemd, or it refuses, the other signs have to do.

Source: https://systemd.io/CONTROL_GROUP_INTERFACE (StartTransientUnit with PIDs); control groups version 2 only.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time

SYSTEMD, GROUPS, OWN = "/run/systemd/system", "/sys/fs/cgroup", "/proc/self/cgroup"
_PATIENCE = 2.0


def enter(attempt: str) -> str:
    """Move this process into a new scope. Returns the group's directory; "" where that is not to be had."""
    if not os.path.isdir(SYSTEMD):
        return ""
    unit = unit_name(attempt)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            start_command(unit, os.getpid()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=10,
        )
        return _await_membership(unit)
    return ""


def unit_name(attempt: str) -> str:
    return "tpufn-" + re.sub(r"[^A-Za-z0-9_.]", "_", attempt) + ".scope"


def start_command(unit: str, pid: int) -> list[str]:
    """Asks systemd by D-Bus, as root."""
    manager = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"]
    properties = ["2", "PIDs", "au", "1", str(pid), "Delegate", "b", "true"]
    call = ["busctl", "call", *manager, "StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail", *properties, "0"]
    return call if os.getuid() == 0 else ["sudo", "-n", *call]


def group_of(text: str) -> str:
    """The group in version 2's line of /proc/<pid>/cgroup, below GROUPS; "" where there is none."""
    paths = [line[len("0::") :] for line in text.splitlines() if line.startswith("0::")]
    return GROUPS + paths[0] if paths else ""


def members(directory: str) -> set[int]:
    """The processes of a group and of those below it; none where it is gone."""
    found: set[int] = set()
    for parent, _, _ in os.walk(directory) if directory else ():
        with contextlib.suppress(OSError), open(os.path.join(parent, "cgroup.procs"), encoding="ascii") as file:
            found.update(int(line) for line in file if line.strip().isdigit())
    return found


def _await_membership(unit: str) -> str:
    """systemd moves the process a moment after it has answered."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        with open(OWN, encoding="utf-8") as file:
            group = group_of(file.read())
        if group.endswith("/" + unit):
            return group
        if time.monotonic() >= deadline:
            return ""
        time.sleep(0.01)
