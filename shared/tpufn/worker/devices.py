"""The TPU's devices: who holds them, and the lock files that a dead holder left."""

from __future__ import annotations

import contextlib
import glob
import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def holders(patterns: list[str]) -> list[dict[str, Any]]:
    """The processes that have a device open: {"pid", "device", "command"}. Empty where there are no such devices."""
    devices = {os.path.realpath(path) for pattern in patterns for path in glob.glob(pattern)}
    if not devices or not os.path.isdir("/proc/self"):
        return []
    return [
        {"pid": pid, "device": path, "command": _command(pid)}
        for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
        for path in sorted(_open_files(pid) & devices)
    ]


def describe(found: list[dict[str, Any]]) -> str:
    return ", ".join("{device} is held by process {pid} ({command})".format(**each) for each in found[:4])


def remove_stale_locks(paths: list[str]) -> None:
    """Lock files that nobody has open are removed, root's with sudo where that needs no password."""
    for path in paths:
        if os.path.lexists(path) and not holders([path]):
            try:
                os.unlink(path)
            except OSError:
                sudo(["rm", "-f", "--", path])


def sudo(command: list[str]) -> bool:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["sudo", "-n", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=60,
        )
        return done.returncode == 0
    return False


def _open_files(pid: int) -> set[str]:
    found: set[str] = set()
    directory = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            with contextlib.suppress(OSError):
                found.add(os.readlink(os.path.join(directory, name)))
    return found


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"
