"""A worker's orders as they arrive, and where an attempt's things live on the host."""

from __future__ import annotations

import json
import os
from types import MappingProxyType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VERSION = 1
MIB = 1 << 20


class OrderError(Exception):
    """The order cannot be read: the caller is at fault."""


class Order:
    """One worker's part of an attempt. Unknown keys are ignored, so that a newer caller can talk to an older agent.

    Sources (`bucket`, `metadata`, `publish`, `secret_source`) are objects whose `kind` names the implementation.
    """

    attempt: str
    lease: Mapping[str, Any]  # slot, generation, fence
    worker: int  # this worker's index
    job: str = ""
    number: int = 0
    name: str = ""
    tpu: str = ""
    type: str = ""
    zone: str = ""
    project: str = ""
    workers: list[Mapping[str, str]]  # all of them, in order: {"address": ...}
    bucket: Mapping[str, Any] = MappingProxyType({"kind": "none"})
    prefix: str = ""
    checkpoints: str = ""
    command: str = ""
    bundle_key: str = ""
    bundle_uri: str = ""
    bundle_sha256: str = ""
    env: Mapping[str, str] = MappingProxyType({})
    secrets: Mapping[str, str] = MappingProxyType({})
    secret_source: Mapping[str, Any] = MappingProxyType({"kind": "values"})
    caches: list[Mapping[str, str]]  # {"key": ..., "path": ...}
    jax_platforms: str = ""  # "": left to the login environment
    grace: float = 30.0  # between TERM and KILL
    notice_grace: float = 20.0  # the same after a preemption notice, which leaves about 30 s
    linger: float = 2.0  # for what the command left behind when it ended by itself
    heartbeat: float = 30.0
    go_timeout: float = 1800.0
    devices: list[str]  # glob patterns
    lock_files: list[str]
    device_timeout: float = 60.0
    shm: str = "/dev/shm"
    cache_reserve: int = 20 << 30  # free bytes below which undeclared caches are evicted
    log_interval: float = 0.0  # seconds between two log objects; 0: the bucket's own
    log_limit: int = 1 << 30
    spool_limit: int = 256 * MIB
    drain_timeout: float = 30.0  # for log pieces that are still on the disk at the end
    report_timeout: float = 600.0  # for results that the bucket has not taken yet
    metadata: Mapping[str, Any] = MappingProxyType({"kind": "none"})
    publish: Mapping[str, Any] = MappingProxyType({"kind": "none"})
    reason: str = ""  # of a stop

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.workers, self.caches, self.devices, self.lock_files = [], [], [], []
        known = Order.__annotations__
        for key, value in body.items():
            if key in known and value is not None:
                setattr(self, key, value)
        missing = [key for key in ("attempt", "lease", "worker") if not hasattr(self, key)]
        if missing:
            raise OrderError("the order lacks " + ", ".join(missing))
        if "/" in self.attempt or self.attempt.startswith("."):
            raise OrderError("not an attempt id: " + repr(self.attempt))

    @property
    def generation(self) -> int:
        return int(self.lease["generation"])

    @property
    def fence(self) -> int:
        return int(self.lease["fence"])


class Place:
    """The paths of one attempt on this host."""

    def __init__(self, home: str, attempt: str) -> None:
        self.home = home
        self.own = os.path.join(home, ".tpufn", "attempts", attempt)
        self.job_dir = os.path.join(home, "jobs", attempt)
        self.cache_root = os.path.join(home, "caches")
        self.order = os.path.join(self.own, "order.json")
        self.stop = os.path.join(self.own, "stop.json")
        self.state = os.path.join(self.own, "state.json")
        self.closed = os.path.join(self.own, "closed.json")
        self.alive = os.path.join(self.own, "alive.lock")
        self.spool = os.path.join(self.own, "spool")
        self.bash_env = os.path.join(self.own, "env.sh")
        self.bundle = os.path.join(self.own, "bundle")
        self.log = os.path.join(self.own, "agent.log")


def read_json(path: str) -> dict[str, Any]:
    """The object in that file; {} where there is none, or a torn one."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Replace the file at once; only its owner may read it."""
    scratch = f"{path}.{os.getpid()}"
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(scratch, path)
