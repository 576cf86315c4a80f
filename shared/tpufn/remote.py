"""A person's way onto a TPU's workers: argument lists for the OpenSSH client of the machine they sit at.

Their own key and agent, never the runner's; their own ssh_config too, except for host keys: those are kept in a file of
ours, under the name of the TPU's generation and not of an address, which will be another machine's tomorrow. All of
this is pure; `remote_run` runs it.
"""

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

SSH_PORT = 22
TRANSPORT_FAILED = 255
"""What ssh itself ends with when it cannot connect: never a command's own exit code to us."""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """One worker to connect to. `instance` is its machine's name, which IAP asks for; `key` its pinned host key."""

    tpu: str
    zone: str
    worker: int
    reach: str  # host or host:port
    instance: str = ""
    key: str = ""

    @property
    def alias(self) -> str:
        """Under which its host key is kept: the cloud name is one generation's."""
        return f"{self.tpu}-w{self.worker}"

    @property
    def endpoint(self) -> tuple[str, str]:
        name, colon, port = self.reach.rpartition(":")
        return (name, port) if colon and port.isdigit() and ":" not in name else (self.reach, str(SSH_PORT))


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a person connects. `user` "": ssh's own choice; `identity` "": ssh's own keys and agent."""

    known_hosts: str
    user: str = ""
    identity: str = ""
    iap_project: str = ""  # not empty: through IAP
    forwards: tuple[str, ...] = ()  # as for ssh -L
    agent: bool = False  # whether theirs is forwarded
    more: tuple[str, ...] = ()  # their own options
    program: str = "ssh"


def remotes(
    tpu: str,
    zone: str,
    reaches: Sequence[str],
    *,
    instances: Mapping[int, str] | None = None,
    keys: Mapping[int, str] | None = None,
) -> tuple[Remote, ...]:
    """The workers of a TPU, in order."""
    names, pins = instances or {}, keys or {}
    return tuple(
        Remote(tpu=tpu, zone=zone, worker=i, reach=reach, instance=names.get(i, ""), key=pins.get(i, ""))
        for i, reach in enumerate(reaches)
    )


def choose(all: Sequence[Remote], worker: int | None) -> tuple[Remote, ...]:
    """The one with that number, or all of them. Raises LookupError with the numbers that there are."""
    chosen = tuple(each for each in all if worker is None or each.worker == worker)
    if not chosen:
        last = len(all) - 1
        raise LookupError(f"there is no worker {worker}: the TPU has the workers 0 to {last}" if all else "no workers")
    return chosen


def shell_arguments(remote: Remote, way: Way) -> list[str]:
    """An interactive shell."""
    return [*_program(way), "-t", *_options(remote, way), *_target(remote, way)]


def command_arguments(remote: Remote, way: Way, command: Sequence[str], *, terminal: bool = False) -> list[str]:
    """One command. Its words arrive as they are: the remote shell gets them quoted; one word alone is shell text."""
    text = command[0] if len(command) == 1 else shlex.join(command)
    mode = ["-t"] if terminal else ["-T", "-o", "BatchMode=yes"]
    return [*_program(way), *mode, *_options(remote, way), *_target(remote, way), "--", text]


def known_hosts_lines(all: Iterable[Remote]) -> list[str]:
    """The lines of our own known_hosts file for those whose key is pinned."""
    return [f"{each.alias} {each.key}" for each in all if each.key]


def merged_known_hosts(present: str, all: Iterable[Remote]) -> str:
    """The file's text with these workers' lines, each once; other lines stay."""
    fresh = known_hosts_lines(all)
    aliases = {line.split()[0] for line in fresh}
    kept = [line for line in present.splitlines() if line.strip() and line.split()[0] not in aliases]
    return "".join(f"{line}\n" for line in [*kept, *fresh])


def with_public_key(present: str, user: str, public_key: str) -> str:
    """The metadata `ssh-keys` with a person's own key: `USER:KIND KEY USER`, a line each, as gcloud writes them."""
    kind, key = public_key.split()[:2]
    lines = [line for line in present.splitlines() if line.strip()]
    if not any(line.startswith(f"{user}:") and key in line.split() for line in lines):
        lines.append(f"{user}:{kind} {key} {user}")
    return "\n".join(lines)


def proxy_command(remote: Remote, project: str) -> str:
    """For ssh's ProxyCommand: the tunnel through IAP, run by this Python. `%` is special to ssh."""
    _, port = remote.endpoint
    words = [sys.executable, "-m", "tpufn.adapters.iap", "--project", project, "--zone", remote.zone]
    return shlex.join([*words, "--instance", remote.instance, "--port", port]).replace("%", "%%")


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process that has a TPU device open."""

    worker: int
    pid: int
    device: str
    command: str


DEVICES = ("/dev/accel*", "/dev/vfio/*")


def devices_command(patterns: Sequence[str] = DEVICES) -> tuple[str, bytes]:
    """What to run on a worker, and its standard input: prints the holders of the devices as JSON. As root where that
    needs no password: others' processes do not show theirs."""
    words = shlex.join(["python3", "-I", "-S", "-", *patterns])
    source = files("tpufn.worker").joinpath("devices.py").read_text(encoding="utf-8")
    text = f"{source}\n\nimport json, sys\nprint(json.dumps(holders(sys.argv[1:])))\n"
    return f"if sudo -n true 2>/dev/null; then exec sudo -n {words}; else exec {words}; fi", text.encode()


def read_holders(worker: int, output: bytes) -> tuple[Holder, ...]:
    """The answer of `devices_command`. Raises ValueError for anything else."""
    found: list[dict[str, Any]] = json.loads(output)
    return tuple(
        Holder(worker=worker, pid=int(each["pid"]), device=str(each["device"]), command=str(each["command"]))
        for each in found
    )


def _program(way: Way) -> list[str]:
    return [way.program, "-A"] if way.agent else [way.program]


def _options(remote: Remote, way: Way) -> list[str]:
    own = {
        "UserKnownHostsFile": way.known_hosts,
        "GlobalKnownHostsFile": "/dev/null",
        "HostKeyAlias": remote.alias,
        "StrictHostKeyChecking": "yes" if remote.key else "accept-new",
        "CheckHostIP": "no",
        "HashKnownHosts": "no",
        "UpdateHostKeys": "no",
        "ConnectTimeout": "15",
        "ServerAliveInterval": "15",
        "LogLevel": "ERROR",
    }
    if way.iap_project:
        own["ProxyCommand"] = proxy_command(remote, way.iap_project)
    if remote.key:
        own["HostKeyAlgorithms"] = _algorithms(remote.key)
    words = [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
    words += ["-i", way.identity, "-o", "IdentitiesOnly=yes"] if way.identity else []
    return [*words, *way.more, *(word for forward in way.forwards for word in ("-L", forward))]


def _algorithms(key: str) -> str:
    kind = key.split()[0]
    return "rsa-sha2-512,rsa-sha2-256" if kind == "ssh-rsa" else kind


def _target(remote: Remote, way: Way) -> list[str]:
    name, port = remote.endpoint
    return ["-p", port, f"{way.user}@{name}" if way.user else name]
