"""How to reach a slot's workers from the person's machine: command lines for a shell and for running a script.

A sandbox worker is a directory on this machine, and a shell there is a shell in it. A worker with an address that this
machine can use is reached by ssh itself, with agent forwarding; one behind IAP by gcloud, which brings the tunnel.
Host keys are kept for each TPU: a new generation of a slot is a new machine, often with an old address.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tpufn.domain.errors import Conflict
from tpufn.domain.fleet import Fleet, Mode
from tpufn.domain.slot import THERE, SlotState
from tpufn.domain.views import SlotView

REACHABLE = THERE | {SlotState.BOOTING}


class Host(Protocol):
    """One worker. The command lines are for `subprocess`; `shlex.join` makes text of them."""

    @property
    def worker(self) -> int: ...
    @property
    def is_remote(self) -> bool:
        """Whether it needs an SSH agent with a key."""

    def shell(self) -> list[str]: ...
    def run(self, script: str) -> list[str]:
        """Runs shell text with the caller's standard input; nothing secret may be in it."""


@dataclass(frozen=True)
class LocalHost:
    """A worker of the sandbox."""

    worker: int
    directory: Path
    is_remote: bool = False

    def shell(self) -> list[str]:
        enter = 'cd "$1" && HOME="$1/home" exec "${SHELL:-sh}" -i'
        return ["sh", "-c", enter, "sh", str(self.directory)]

    def run(self, script: str) -> list[str]:
        home = self.directory / "home"
        return ["env", f"HOME={home}", "TPUFN_SANDBOX=1", "sh", "-c", f"cd {shlex.quote(str(home))} && {script}"]


@dataclass(frozen=True)
class SshHost:
    """A worker that plain ssh reaches."""

    worker: int
    address: str
    user: str
    known_hosts: Path
    options: tuple[str, ...] = ()
    is_remote: bool = True

    def shell(self) -> list[str]:
        return ["ssh", "-A", *self._options(), self._target()]

    def run(self, script: str) -> list[str]:
        return ["ssh", "-A", "-T", "-o", "BatchMode=yes", *self._options(), self._target(), script]

    def _target(self) -> str:
        return f"{self.user}@{self.address.partition(':')[0]}"

    def _options(self) -> list[str]:
        port = self.address.partition(":")[2]
        settings = {
            "StrictHostKeyChecking": "accept-new",
            "UserKnownHostsFile": str(self.known_hosts),
            "ConnectTimeout": "15",
            "ServerAliveInterval": "30",
        }
        named = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
        return [*named, *(["-p", port] if port else []), *self.options]


@dataclass(frozen=True)
class TunnelHost:
    """A worker without a public address: gcloud opens the tunnel and brings the keys."""

    worker: int
    tpu: str
    zone: str
    project: str
    user: str
    is_remote: bool = True

    def shell(self) -> list[str]:
        return self._gcloud()

    def run(self, script: str) -> list[str]:
        return [*self._gcloud(), "--ssh-flag=-T", f"--command={script}"]

    def _gcloud(self) -> list[str]:
        where = (f"--zone={self.zone}", f"--project={self.project}", f"--worker={self.worker}")
        name = f"{self.user}@{self.tpu}" if self.user else self.tpu
        return ["gcloud", "alpha", "compute", "tpus", "tpu-vm", "ssh", name, *where, "--tunnel-through-iap", *_AGENT]


_AGENT = ("--ssh-flag=-A",)


@dataclass(frozen=True, kw_only=True)
class Way:
    """What finding a host needs besides the slot."""

    fleet: Fleet
    mode: Mode
    where: str  # the client's own words for its place
    home: Path
    user: str
    options: tuple[str, ...] = ()


def hosts_of(slot: SlotView, way: Way) -> tuple[Host, ...]:
    """The slot's workers in order. Raises Conflict where it has no machine to reach."""
    if slot.state not in REACHABLE or not slot.tpu:
        raise Conflict(f"{slot.name} is {slot.state}: it has no workers to reach; `tpufn slots queue` asks for a TPU")
    if way.mode is Mode.SANDBOX:
        return _local(slot, way)
    if way.fleet.settings.get("ssh_transport") == "iap":
        return tuple(
            TunnelHost(index, slot.tpu, slot.zone, way.fleet.project, way.user) for index in range(len(slot.workers))
        )
    known = way.home / "console" / "known_hosts" / slot.tpu
    known.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return tuple(
        SshHost(index, address, way.user, known, way.options) for index, address in enumerate(_addresses(slot))
    )


def _addresses(slot: SlotView) -> Sequence[str]:
    """Where we reach each worker, as far as that is known beside the address that the siblings use."""
    reach: Sequence[str] = getattr(slot, "reach", ())
    return [near or far for near, far in zip(reach, slot.workers, strict=True)] if reach else slot.workers


def _local(slot: SlotView, way: Way) -> tuple[Host, ...]:
    folder = Path(way.where.partition(" in ")[2]).expanduser() / "hosts" / slot.tpu
    found = tuple(LocalHost(index, folder / f"w{index}") for index in range(len(slot.workers)))
    missing = next((host.directory for host in found if not host.directory.is_dir()), None)
    if missing is not None:
        raise Conflict(f"{slot.name}: there is no {missing}; the sandbox's engine runs on another machine")
    return found
