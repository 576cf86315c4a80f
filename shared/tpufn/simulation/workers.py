"""The sandbox's workers: every host of a simulated TPU is a directory, in which the real agent runs real processes.

    home/<tpu>/w<i>/               a host, as the agent lays it out; its address is a loopback address of its own
    home/<tpu>/attempts/<attempt>  the bucket of an attempt that was launched here: a later stop reports there
    home/.agent/<version>/         the agent as it is sent to a TPU, unpacked

Nothing is remembered in memory: a killed engine's successor finds the same hosts and the same processes. A host that is
taken away keeps its directory until it is destroyed, but its generation says `off`: no lease fits it any more. All
times here are real ones, as the processes are.
"""

import contextlib
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tpufn.domain.attempt import split_attempt_id
from tpufn.domain.cloud import Tpu
from tpufn.domain.orders import LaunchOrder, StopOrder
from tpufn.domain.slot import Worker
from tpufn.simulation import hosts_agent, hosts_processes
from tpufn.simulation.hosts_agent import Call
from tpufn.worker.fence import locked
from tpufn.worker.workspace import remove_shared_memory

_OFF = "off"
_GENERATION = re.compile(r"-g(\d+)$")
_SANDBOX = {"devices": [], "lock_files": [], "cache_reserve": 1 << 30, "spool_limit": 64 << 20}


class LocalWorkers:
    """The port `Workers`, and the simulated cloud's hosts: provision, notice, kill, destroy.

    `socket`: a datagram socket for the workers' messages. `secret`: a secret reference's value; without it an order's
    secrets are values already. `login`: more variables of the login environment, or others: each host has a HOME of its
    own. `settings`: order keys over the sandbox's own. `source`: how the agent reaches a bucket; by
    default a directory below `blobs_root`.
    """

    def __init__(
        self,
        home: Path,
        blobs_root: Path,
        *,
        socket: Path | None = None,
        secret: Callable[[str], str] | None = None,
        login: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        source: Callable[[str], Mapping[str, str]] | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.home, self.blobs_root = home.resolve(), blobs_root.resolve()
        self._secret, self._timeout = secret, timeout
        self._source = source or self._directory
        self._login = dict(login or {})
        self._publish = {"kind": "datagram", "path": str(socket)} if socket else {"kind": "none"}
        self._settings = {**_SANDBOX, **(settings or {})}

    def provision(self, name: str, zone: str, count: int) -> tuple[Worker, ...]:
        """Hosts that are there. Doing it again changes nothing, except that a host that was off is on again."""
        del zone  # all of them are here
        generation = _GENERATION.search(name)
        for host in (self.host(name, index) for index in range(count)):
            own = host / ".tpufn"
            own.mkdir(parents=True, exist_ok=True)
            hosts_agent.make_home(host)
            if self._is_off(host):
                (own / "notice").unlink(missing_ok=True)
                (own / "generation").unlink()
            if generation and not (own / "generation").exists():
                (own / "generation").write_text(generation[1])
        return tuple(Worker(address=_address(name, i), reach=f"{name}/w{i}") for i in range(count))

    def notice(self, name: str) -> None:
        """Tell every host that it will be taken away, as the metadata server does."""
        for host in self.hosts(name):
            (host / ".tpufn" / "notice").write_text("TRUE\n")

    def kill(self, name: str) -> None:
        """The hosts are gone at once, with every process on them, also those of an earlier engine."""
        hosts = self.hosts(name)
        for host in hosts:
            with locked(str(host)):  # after a launch that is under way
                (host / ".tpufn" / "generation").write_text(_OFF)
        hosts_processes.kill(hosts)
        for host in hosts:
            remove_shared_memory(str(host))

    def destroy(self, name: str) -> None:
        """`kill`, and the hosts' disks go too."""
        self.kill(name)
        shutil.rmtree(self.home / name, ignore_errors=True)

    def usable(self, tpu: Tpu) -> frozenset[int]:
        hosts = {index: self.host(tpu.name, index) for index in range(len(tpu.workers))}
        return frozenset(index for index, host in hosts.items() if self._is_on(host))

    def launch(self, order: LaunchOrder) -> Mapping[int, str]:
        body = self._site_order(order)
        remembered = self._bucket_of(order.tpu, order.attempt)
        if (self.home / order.tpu).is_dir():
            remembered.parent.mkdir(exist_ok=True)
            remembered.write_text(order.bucket)
        status = self.blobs_root / order.bucket / order.prefix / "status"
        waiting = [i for i in range(len(order.workers)) if not (status / f"worker-{i}.accepted.json").exists()]
        return self._causes(order.tpu, "launch", waiting, body)

    def stop(self, order: StopOrder) -> Mapping[int, str]:
        job, number = split_attempt_id(order.attempt)
        body = msgspec.to_builtins(order)
        with contextlib.suppress(FileNotFoundError):
            body["bucket"] = self._bucket_of(order.tpu, order.attempt).read_text()
        if body.get("bucket"):
            body |= {"bucket": self._source(body["bucket"]), "prefix": f"jobs/{job}/attempts/{number}"}
        else:
            body.pop("bucket", None)
        return self._causes(order.tpu, "stop", range(len(order.workers)), {**body, **self._site()})

    def introduce(self, tpu: str, worker: int, host_key: str) -> None:
        """Nobody has a host key here."""

    def alive(self, tpu: Tpu, attempt: str) -> Mapping[int, bool]:
        answers = self._ask(tpu.name, "status", range(len(tpu.workers)), self._site())
        attempts = {index: answer["attempts"] for index, answer in answers.items() if "attempts" in answer}
        return {index: bool(each.get(attempt, {}).get("alive")) for index, each in attempts.items()}

    def host(self, name: str, index: int) -> Path:
        """A host's directory."""
        return self.home / name / f"w{index}"

    def hosts(self, name: str) -> list[Path]:
        """The directories of all of a TPU's hosts that exist."""
        return sorted((self.home / name).glob("w*"))

    def _causes(self, tpu: str, verb: str, indexes: Any, body: Mapping[str, Any]) -> dict[int, str]:
        """Why not, for every worker that did not accept."""
        answers = self._ask(tpu, verb, indexes, body)
        return {i: str(answer.get("cause", "")) for i, answer in answers.items() if answer["answer"] != "accepted"}

    def _ask(self, tpu: str, verb: str, indexes: Any, body: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
        hosts = {index: self.host(tpu, index) for index in indexes}
        calls = {
            index: Call(host=host, verb=verb, body={**body, "worker": index, "metadata": _metadata(host)})
            for index, host in hosts.items()
            if self._is_on(host)
        }
        away = {i: {"answer": "none", "cause": "no such host, or it is off"} for i in hosts if i not in calls}
        agent = hosts_agent.install(self.home / ".agent")
        return {**hosts_agent.ask(agent, calls, self._login, timeout=self._timeout), **away}

    def _site_order(self, order: LaunchOrder) -> dict[str, Any]:
        body = msgspec.to_builtins(order)
        secrets = {k: self._secret(v) if self._secret else v for k, v in order.secrets.items()}
        return {**body, "secrets": secrets, "bucket": self._source(order.bucket), **self._site()}

    def _site(self) -> dict[str, Any]:
        return {"publish": self._publish, **self._settings}

    def _directory(self, bucket: str) -> Mapping[str, str]:
        return {"kind": "directory", "root": str(self.blobs_root), "bucket": bucket}

    def _bucket_of(self, tpu: str, attempt: str) -> Path:
        return self.home / tpu / "attempts" / attempt

    def _is_on(self, host: Path) -> bool:
        return (host / ".tpufn").is_dir() and not self._is_off(host)

    def _is_off(self, host: Path) -> bool:
        generation = host / ".tpufn" / "generation"
        return generation.exists() and generation.read_text() == _OFF


def _metadata(host: Path) -> dict[str, str]:
    return {"kind": "file", "path": str(host / ".tpufn" / "notice")}


def _address(name: str, index: int) -> str:
    """A loopback address of its own where the system has more than one; the same for the same host."""
    if not sys.platform.startswith("linux"):
        return "127.0.0.1"
    number = zlib.crc32(name.encode())
    return f"127.{1 + number % 254}.{number // 254 % 255}.{index % 254 + 1}"
