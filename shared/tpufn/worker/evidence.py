"""What an end looks like: the last lines, what they resemble, and the state of the machine."""

from __future__ import annotations

import os
import re
import subprocess

from .devices import holders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .protocol import Order, Place

_SIGNATURES = re.compile(
    rb"(?P<device_busy>/dev/(?:vfio|accel)\S*: Device or resource busy|Couldn't open iommu group"
    rb"|TPU initialization failed|No accelerator found\. Please run on a TPU|The TPU is already in use by process)"
    rb"|(?P<sibling_death>gRPC Socket closed|Socket closed[^\n]*grpc_status:14|Raising signal 6 with default behavior"
    rb"|/tensorflow\.CoordinationService/PollForError)"
)
_COMMANDS = (
    ("disk", ["df", "-h"]),
    ("processes", ["ps", "-eo", "pid,ppid,sid,stat,rss,etime,args", "--sort=-rss"]),
    ("kernel messages", ["dmesg", "--ctime"]),
)
_SECTION = 32 * 1024


def signature(output: bytes) -> str:
    """The first known sign in the output's end: "device-busy", "sibling-death" or ""."""
    found = _SIGNATURES.search(output)
    return str(found.lastgroup).replace("_", "-") if found else ""


def tail(output: bytes) -> str:
    """The last 20 lines, at most 8 KiB, invalid UTF-8 replaced."""
    lines = output.rstrip(b"\n").split(b"\n")[-20:]
    return b"\n".join(lines)[-8192:].decode("utf-8", "replace")


def diagnostics(place: Place, order: Order) -> str:
    """Bounded and best effort: memory, devices, disk, processes, the kernel's last messages."""
    sections = [("attempt", f"{order.attempt} worker {order.worker}"), ("memory", _file("/proc/meminfo"))]
    sections.append(("load", _file("/proc/loadavg")))
    sections.append(("devices", "\n".join(_device_lines(order))))
    sections += [(name, _answer(command, is_last=name == "kernel messages")) for name, command in _COMMANDS]
    sections.append(("agent", _file(place.log)))
    return "\n".join("== {}\n{}\n".format(*section) for section in sections)


def _device_lines(order: Order) -> Iterator[str]:
    import glob

    for pattern in order.devices:
        yield from glob.glob(pattern)
    for each in holders(order.devices):
        yield "{device} held by {pid} {command}".format(**each)


def _file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_SECTION).decode("utf-8", "replace")
    except OSError as error:
        return str(error)


def _answer(command: list[str], *, is_last: bool) -> str:
    """The first part of a command's output, or the last."""
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin:/usr/sbin:/sbin"), "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    part = done.stdout[-_SECTION:] if is_last else done.stdout[:_SECTION]
    return part.decode("utf-8", "replace")
