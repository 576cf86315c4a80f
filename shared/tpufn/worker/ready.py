"""What a worker tells when it has booted: that it is there, its host key, and how the deployment's own script ended.

The message only wakes; the same is kept in the guest attribute `tpufn/ready`, which the TPU API hands out, and in the
file `startup.json`, which `status` shows. Any of the three may fail without harm to the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time

from .protocol import write_json
from .report import open_publisher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_TRIES = 5
_TAIL = 2000


def ready(home: str, body: Mapping[str, Any]) -> int:
    """`slot`, `generation`, `publish`; `exit` and `output` (a file) of the script; `metadata_url`, `host_key`."""
    told = describe(body)
    with contextlib.suppress(OSError):  # a full disk keeps nobody from telling
        write_json(os.path.join(home, ".tpufn", "startup.json"), told["startup"])
    publisher = open_publisher(body.get("publish", {}))
    publisher.send("worker-ready", told)
    kept = _keep(str(body.get("metadata_url", "")), json.dumps(told).encode())
    publisher.flush(30.0)
    sys.stdout.write(json.dumps({"answer": "accepted", "worker": told["worker"], "attribute": kept}) + "\n")
    return 0


def describe(body: Mapping[str, Any]) -> dict[str, Any]:
    """The message."""
    startup = {"exit": int(body.get("exit", 0)), "tail": _tail(str(body.get("output", "")))}
    return {
        "slot": str(body.get("slot", "")),
        "generation": int(body.get("generation", 0)),
        "worker": worker_number(str(body.get("metadata_url", "")), socket.gethostname()),
        "tpu": str(body.get("tpu", "")),
        "host_key": _first_line(str(body.get("host_key", ""))),
        "startup": startup,
    }


def worker_number(metadata_url: str, hostname: str) -> int:
    """The metadata's `agent-worker-number`, else the end of the host's name: `t1v-n-1a2b3c4d-w-3`."""
    number = _metadata(metadata_url, "/instance/attributes/agent-worker-number")
    if not number.isdigit():
        number = hostname.partition(".")[0].rpartition("-w-")[2]
    return int(number) if number.isdigit() else 0


def _metadata(url: str, path: str) -> str:
    import urllib.request

    from .google import FLAVOR

    if not url:
        return ""
    for attempt in range(_TRIES):
        try:
            with urllib.request.urlopen(urllib.request.Request(url + path, headers=FLAVOR), timeout=5) as answer:
                return str(answer.read().decode("ascii", "replace").strip())
        except OSError as error:
            if getattr(error, "code", 0) == 404:
                return ""
            time.sleep(0.2 * 2**attempt)
    return ""


def _keep(url: str, value: bytes) -> bool:
    """Needs `enable-guest-attributes` in the metadata; without it the server refuses, and that is all."""
    import urllib.request

    from .google import FLAVOR

    if not url:
        return False
    request = urllib.request.Request(
        url + "/instance/guest-attributes/tpufn/ready", data=value, headers=FLAVOR, method="PUT"
    )
    try:
        with urllib.request.urlopen(request, timeout=10):
            return True
    except OSError:
        return False


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _first_line(path: str) -> str:
    """Kind and key of a public key file, without its comment."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return " ".join(file.readline().split()[:2])
    except OSError:
        return ""
