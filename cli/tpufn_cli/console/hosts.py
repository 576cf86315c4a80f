"""How to reach a slot's workers from the person's machine: command lines for a shell and for running a script.

A sandbox worker is a directory on this machine, and a shell there is a shell in it. A worker with an address that this
machine can use is reached by ssh itself, with agent forwarding; one behind IAP by gcloud, which brings the tunnel.
Host keys are kept for each TPU: a new generation of a slot is a new machine, often with an old address.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tpufn import remote as ssh
from tpufn.domain.errors import Conflict, InputError
from tpufn.domain.fleet import Fleet, Mode
from tpufn.domain.slot import THERE, SlotState
from tpufn.domain.views import SlotView
from tpufn.remote import Remote

REACHABLE = THERE | {SlotState.BOOTING}


class Host(Protocol):
    """One worker. The command lines are for `subprocess`; `shlex.join` makes text of them."""

    @property
    def worker(self) -> int: ...
    @property
    def is_remote(self) -> bool:
        """Whether it needs an SSH agent with a key."""

    def shell(self, forwards: Sequence[str] = ()) -> list[str]:
        """`forwards`: ports, as for `ssh -L`. Raises InputError where there is nothing to forward."""

    def run(self, script: str, *, terminal: bool = False) -> list[str]:
        """Runs shell text with the caller's standard input; nothing secret may be in it."""


@dataclass(frozen=True)
class LocalHost:
    """A worker of the sandbox."""

    worker: int
    directory: Path
    is_remote: bool = False

    def shell(self, forwards: Sequence[str] = ()) -> list[str]:
        if forwards:
            raise InputError("-L is for TPUs: a sandbox's worker is this machine, its ports are here already")
        enter = 'cd "$1" && HOME="$1/home" exec "${SHELL:-sh}" -i'
        return ["sh", "-c", enter, "sh", str(self.directory)]

    def run(self, script: str, *, terminal: bool = False) -> list[str]:
        home = self.directory / "home"
        return ["env", f"HOME={home}", "TPUFN_SANDBOX=1", "sh", "-c", f"cd {shlex.quote(str(home))} && {script}"]


@dataclass(frozen=True)
class SshHost:
    """A worker that plain ssh reaches."""

    remote: Remote
    way: ssh.Way
    is_remote: bool = True

    @property
    def worker(self) -> int:
        return self.remote.worker

    def shell(self, forwards: Sequence[str] = ()) -> list[str]:
        return ssh.shell_arguments(self.remote, replace(self.way, forwards=tuple(forwards)))

    def run(self, script: str, *, terminal: bool = False) -> list[str]:
        return ssh.command_arguments(self.remote, self.way, [script], terminal=terminal)


@dataclass(frozen=True)
class TunnelHost:
    """A worker without a public address: gcloud opens the tunnel and brings the keys."""

    worker: int
    tpu: str
    zone: str
    project: str
    user: str
    is_remote: bool = True

    def shell(self, forwards: Sequence[str] = ()) -> list[str]:
        return [*self._gcloud(), *(f"--ssh-flag=-L {forward}" for forward in forwards)]

    def run(self, script: str, *, terminal: bool = False) -> list[str]:
        return [*self._gcloud(), f"--ssh-flag={'-t' if terminal else '-T'}", f"--command={script}"]

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
    own = ssh.Way(known_hosts=str(known), user=way.user, agent=True, more=way.options)
    return tuple(SshHost(each, own) for each in ssh.remotes(slot.tpu, slot.zone, slot.reach or slot.workers))


def _local(slot: SlotView, way: Way) -> tuple[Host, ...]:
    folder = Path(way.where.partition(" in ")[2]).expanduser() / "hosts" / slot.tpu
    found = tuple(LocalHost(index, folder / f"w{index}") for index in range(len(slot.workers)))
    missing = next((host.directory for host in found if not host.directory.is_dir()), None)
    if missing is not None:
        raise Conflict(f"{slot.name}: there is no {missing}; the sandbox's engine runs on another machine")
    return found
