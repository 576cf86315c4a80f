"""Who a worker is: its host key, pinned for its generation.

Addresses are recycled from one TPU to the next, so nothing is remembered of them. A pin belongs to (cloud name,
worker), and a cloud name is one generation's. The first key comes from the guest attributes, which the worker's guest
agent writes and the TPU API hands out (as for gcloud: command_lib/compute/tpus/tpu_vm/ssh.py); where there are none,
the first key that is seen is taken. From then on another key is an error, unless by now the API hands out just that
one: an `existing` TPU that its owner has made again is another machine of the same name. The known_hosts file of the
person who runs this is neither read nor written.
"""

import base64
import hashlib
import threading
from collections.abc import Mapping
from typing import Protocol

from tpufn.adapters.ssh_target import Host, Unreached
from tpufn.domain.errors import NotFound
from tpufn.ports import Blobs


class HostKeys(Protocol):
    """Pinned keys, as `ssh-ed25519 AAAA...`: the first one put for a worker of a generation stays."""

    def get(self, tpu: str, worker: int) -> str:
        """The pinned key; "" for none."""

    def put(self, tpu: str, worker: int, key: str) -> str:
        """Pin it if nothing is pinned. Returns what is pinned then."""

    def replace(self, tpu: str, worker: int, key: str) -> None:
        """Pin another one."""


class GuestAttributes(Protocol):
    """What the workers of a TPU say of themselves, by worker. Empty where the API does not know (yet)."""

    def host_keys(self, tpu: str, zone: str) -> Mapping[int, str]:
        """Keys as `ssh-ed25519 AAAA...` (namespace `hostkeys`)."""

    def hostnames(self, tpu: str, zone: str) -> Mapping[int, str]:
        """The names of the virtual machines, which IAP asks for (`hostname`)."""


class NoGuestAttributes:
    """Where nobody can be asked: every first key is taken on trust."""

    def host_keys(self, tpu: str, zone: str) -> Mapping[int, str]:
        return {}

    def hostnames(self, tpu: str, zone: str) -> Mapping[int, str]:
        return {}


class MemoryHostKeys:
    """Pins of this process."""

    def __init__(self, keys: Mapping[tuple[str, int], str] | None = None) -> None:
        self.keys, self._lock = dict(keys or {}), threading.Lock()

    def get(self, tpu: str, worker: int) -> str:
        return self.keys.get((tpu, worker), "")

    def put(self, tpu: str, worker: int, key: str) -> str:
        with self._lock:
            return self.keys.setdefault((tpu, worker), key)

    def replace(self, tpu: str, worker: int, key: str) -> None:
        with self._lock:
            self.keys[tpu, worker] = key


class StoredHostKeys:
    """Pins as write-once objects `<prefix>/<tpu>/worker-<i>.pub`: of two that pin at once, one wins and both know it.

    The bucket must be one that workers cannot write to: a job could pin a later TPU's keys there.
    """

    def __init__(self, blobs: Blobs, bucket: str, prefix: str = "hostkeys") -> None:
        self._blobs, self._bucket, self._prefix = blobs, bucket, prefix
        self._seen = MemoryHostKeys()

    def get(self, tpu: str, worker: int) -> str:
        known = self._seen.get(tpu, worker)
        if known:
            return known
        try:
            stored = self._blobs.get(self._bucket, self._object(tpu, worker)).decode("ascii", "replace").strip()
        except NotFound:
            return ""
        return self._seen.put(tpu, worker, stored)

    def put(self, tpu: str, worker: int, key: str) -> str:
        if self._blobs.put(self._bucket, self._object(tpu, worker), f"{key}\n".encode(), once=True):
            return self._seen.put(tpu, worker, key)
        return self.get(tpu, worker)

    def replace(self, tpu: str, worker: int, key: str) -> None:
        self._blobs.put(self._bucket, self._object(tpu, worker), f"{key}\n".encode())
        self._seen.replace(tpu, worker, key)

    def _object(self, tpu: str, worker: int) -> str:
        return f"{self._prefix}/{tpu}/worker-{worker}.pub"


class Identity:
    """Decides whether a presented key is the worker's."""

    def __init__(self, pins: HostKeys, attributes: GuestAttributes | None = None) -> None:
        self._pins, self._attributes = pins, attributes or NoGuestAttributes()
        self._told: dict[str, Mapping[int, str]] = {}
        self._lock = threading.Lock()

    def expected(self, host: Host) -> str:
        """The worker's key; "" where the first one is to be trusted."""
        pinned = self._pins.get(host.tpu, host.worker)
        if pinned:
            return pinned
        told = self._attributes_of(host).get(host.worker, "")
        return self._pins.put(host.tpu, host.worker, told) if told else ""

    def introduce(self, tpu: str, worker: int, key: str) -> None:
        """A worker's own word at its boot, where nothing is pinned yet."""
        self._pins.put(tpu, worker, key)

    def check(self, host: Host, presented: str) -> None:
        """Pin the first key, refuse any other. Raises Unreached, which trying again does not mend."""
        pinned = self.expected(host) or self._pins.put(host.tpu, host.worker, presented)
        if not _are_same(pinned, presented) and _are_same(self._told_anew(host), presented):
            self._pins.replace(host.tpu, host.worker, presented)
            return
        if not _are_same(pinned, presented):
            raise Unreached(
                f"the host key of {host} has changed within one generation: {fingerprint(pinned)} is pinned, "
                f"{fingerprint(presented)} was presented; somebody may be in between: release the TPU"
            )

    def _told_anew(self, host: Host) -> str:
        with self._lock:
            self._told.pop(host.tpu, None)
        return self._attributes_of(host).get(host.worker, "")

    def _attributes_of(self, host: Host) -> Mapping[int, str]:
        """All of a TPU's keys with one question; an empty answer is asked for again."""
        with self._lock:
            if not self._told.get(host.tpu):
                self._told[host.tpu] = self._attributes.host_keys(host.tpu, host.zone)
            return self._told[host.tpu]


def _are_same(one: str, other: str) -> bool:
    """Whether they are one key, whatever their comments say."""
    return one.split()[:2] == other.split()[:2]


def fingerprint(key: str) -> str:
    """A public key as OpenSSH shows it: `SHA256:...`."""
    try:
        data = base64.b64decode(key.split()[1], validate=True)
    except (IndexError, ValueError):
        return "an unreadable key"
    return "SHA256:" + base64.b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
