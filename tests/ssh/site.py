"""One TPU for a test: its workers, its bucket and the orders of the core; the same for every implementation."""

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko

from tpufn.adapters.files import FileBlobs
from tpufn.adapters.iap import IapDialer
from tpufn.adapters.ssh import SshSite, SshWorkers
from tpufn.adapters.ssh_connection import Dialer, Login
from tpufn.adapters.ssh_hosts import HostKeys, Identity, MemoryHostKeys
from tpufn.adapters.ssh_users import FixedUser
from tpufn.domain.cloud import NodeState, Tpu
from tpufn.domain.orders import LaunchOrder, StopOrder
from tpufn.domain.slot import Lease, Worker
from tpufn.ports import Workers
from tpufn.simulation import hosts_processes
from tpufn.simulation.workers import LocalWorkers
from tpufn.worker.workspace import remove_shared_memory

from . import relay as relays
from .sshd import USER, Sshd, new_key, sshds

PYTHON = os.environ.get("TPUFN_AGENT_PYTHON", "python3")
NAME, GENERATION = "tpufn-lab-s-g3", 3
QUICK = {"linger": 0.2, "cache_reserve": 0, "go_timeout": 120.0}
NO_DEVICES: Mapping[str, Any] = {"devices": (), "lock_files": ()}


class Site:
    """`homes` are the agents' directories. `again` is the port as another process has it."""

    workers: Workers

    def __init__(self, root: Path, hosts: tuple[Worker, ...], homes: list[Path]) -> None:
        self.root, self.hosts, self.homes = root, hosts, homes
        self.tpu = Tpu(name=NAME, zone="zone-a", node=NodeState.READY, workers=hosts)
        (root / "blobs" / "b").mkdir(parents=True, exist_ok=True)

    def again(self) -> Workers:
        raise NotImplementedError

    def lose(self, worker: int) -> None:
        """From now on that worker does not answer."""
        raise NotImplementedError

    def order(self, command: str = "true", *, number: int = 1, **more: Any) -> LaunchOrder:
        attempt = f"job.{number}"
        plain = LaunchOrder(
            attempt=attempt,
            job="job",
            number=number,
            name="name",
            lease=Lease(slot="s", generation=GENERATION, fence=number, attempt=attempt),
            tpu=NAME,
            type="v4-32",
            zone="zone-a",
            project="project",
            workers=self.hosts,
            bucket="b",
            prefix=f"jobs/job/attempts/{number}",
            checkpoints="jobs/job/checkpoints",
            command=command,
            grace=2.0,
            heartbeat=5.0,
        )
        return replace(plain, **more)

    def stop_order(self, order: LaunchOrder, **more: Any) -> StopOrder:
        plain = StopOrder(
            attempt=order.attempt,
            lease=order.lease,
            tpu=NAME,
            zone="zone-a",
            workers=self.hosts,
            reason="cancelled",
            bucket="b",
            prefix=order.prefix,
            grace=0.5,
        )
        return replace(plain, **more)

    def go(self, order: LaunchOrder) -> None:
        path = self.root / "blobs" / "b" / order.prefix / "go"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def results(self, order: LaunchOrder, what: str) -> dict[int, dict[str, Any]]:
        files = (self.root / "blobs" / "b" / order.prefix / "status").glob(f"worker-*.{what}.json")
        return {int(f.name.split(".")[0].split("-")[1]): json.loads(f.read_bytes()) for f in files}

    def log(self, order: LaunchOrder, worker: int = 0) -> bytes:
        pieces = (self.root / "blobs/b" / order.prefix / f"logs/worker-{worker}").glob("*")
        return b"".join(piece.read_bytes() for piece in sorted(pieces))

    def clear(self) -> None:
        """No process of these hosts is left."""
        assert hosts_processes.kill(self.homes)
        for home in self.homes:
            remove_shared_memory(str(home))


class LocalSite(Site):
    """The sandbox's workers."""

    def __init__(self, root: Path, count: int) -> None:
        self.workers = workers = self._make(root)
        hosts = workers.provision(NAME, "zone-a", count)
        super().__init__(root, hosts, [workers.host(NAME, i) for i in range(count)])

    def again(self) -> Workers:
        return self._make(self.root)

    def lose(self, worker: int) -> None:
        (self.homes[worker] / ".tpufn" / "generation").write_text("off")

    def _make(self, root: Path) -> LocalWorkers:
        return LocalWorkers(root / "hosts", root / "blobs", settings=QUICK)


class SshTestSite(Site):
    """Real sshds. `pins` are the host keys, `relay` what is in between, if anything."""

    relay: relays.Relay | None = None

    def __init__(self, root: Path, servers: list[Sshd], private: bytes, *, dialer: Dialer | None = None) -> None:
        self.servers, self.private, self.dialer = servers, private, dialer
        self.key = paramiko.Ed25519Key.from_private_key(io.StringIO(private.decode()))
        self.pins: HostKeys = MemoryHostKeys()
        hosts = tuple(Worker(address=f"10.0.0.{i}", reach=each.reach) for i, each in enumerate(servers))
        super().__init__(root, hosts, [each.home / "tpufn" for each in servers])
        for home in self.homes:
            (home / ".tpufn").mkdir(parents=True)
            (home / ".tpufn" / "generation").write_text(f"{GENERATION}\n")
        self.workers = self.again()

    def again(self, **changes: Any) -> SshWorkers:
        """`pause`, `dialer`, `adoption` and `keys` are the adapter's, everything else the site's."""
        keys = changes.pop("keys", None)
        parts = {name: changes.pop(name) for name in ("pause", "dialer", "adoption") if name in changes}
        bucket = {"kind": "directory", "root": str(self.root / "blobs")}
        plain = SshSite(
            python=PYTHON,
            bucket=bucket,
            secret_source={"kind": "values"},
            metadata={"kind": "none"},
            settings=QUICK,
            **NO_DEVICES,
        )
        return SshWorkers(
            replace(plain, **changes),
            blobs=FileBlobs(self.root / "blobs", {"b": "region"}),
            login=Login(users=FixedUser(USER), keys=lambda: keys or [self.key]),
            identity=Identity(self.pins),
            **{"dialer": self.dialer, **parts},
        )

    def lose(self, worker: int) -> None:
        """Nothing listens there any more."""
        if self.relay:
            self.relay.backends[machine(worker)] = ("127.0.0.1", 1)
        self.hosts = tuple(
            replace(host, reach="127.0.0.1:1") if i == worker else host for i, host in enumerate(self.hosts)
        )


@contextmanager
def local_site(root: Path, count: int = 4) -> Iterator[LocalSite]:
    site = LocalSite(root.resolve(), count)
    try:
        yield site
    finally:
        site.workers.destroy(NAME)  # type: ignore[attr-defined]


@contextmanager
def ssh_site(
    root: Path, count: int = 4, *, through_iap: bool = False, more: str = "", net: int = 1
) -> Iterator[SshTestSite]:
    root = root.resolve()
    private, public = new_key()
    (root / "authorized_keys").write_text(f"{public}\n")
    with ExitStack() as stack:
        servers = stack.enter_context(
            sshds(root / "hosts", count, authorized=root / "authorized_keys", more=more, net=net)
        )
        relay = stack.enter_context(relays.relay()) if through_iap else None
        site = SshTestSite(root, servers, private, dialer=tunnel(relay, servers) if relay else None)
        site.relay = relay
        stack.callback(site.clear)
        yield site


def machine(worker: int) -> str:
    """A virtual machine's name."""
    return f"t1v-n-1-w-{worker}"


class Names:
    """Guest attributes: the machines' names, and keys where given."""

    def __init__(self, count: int, keys: Mapping[int, str] | None = None) -> None:
        self.count, self.keys, self.asked = count, dict(keys or {}), 0

    def hostnames(self, tpu: str, zone: str) -> Mapping[int, str]:
        self.asked += 1
        return {i: f"{machine(i)}.{zone}.c.project.internal" for i in range(self.count)}

    def host_keys(self, tpu: str, zone: str) -> Mapping[int, str]:
        self.asked += 1
        return self.keys


def tunnel(relay: relays.Relay, servers: list[Sshd]) -> IapDialer:
    for i, server in enumerate(servers):
        relay.backends[machine(i)] = (server.address, server.port)
    return IapDialer("project", Names(len(servers)), lambda: relays.TOKEN, relay=relay.url)


def started(site: Site) -> list[int]:
    """How often the job began, by worker; its command appends to the file `started` of the host's user."""
    files = [home.parent / "started" for home in site.homes]
    return [file.read_text().count("\n") if file.exists() else 0 for file in files]


ONCE = 'echo >> "$HOME/started"; echo up; exec sleep 1000'
