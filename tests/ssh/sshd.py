"""Real OpenSSH servers: each worker is one sshd on a loopback address of its own, with its own host key and home."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PROGRAM = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
USER = pwd.getpwuid(os.getuid()).pw_name
_CONFIG = """\
ListenAddress {address}:{port}
HostKey {directory}/host_key
PidFile none
AuthorizedKeysFile {authorized}
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
LogLevel VERBOSE
SetEnv HOME={home} PATH={path} TPUFN_HOST={home}/tpufn
{more}
"""


def require() -> None:
    """Skip where there is no sshd; in CI, where it is installed, that is a failure."""
    lacks = "there is no sshd here" if not PROGRAM else ""
    lacks = lacks or ("only Linux has a network of loopback addresses" if not sys.platform.startswith("linux") else "")
    if lacks and os.environ.get("CI") == "true":
        pytest.fail(lacks)
    if lacks:
        pytest.skip(lacks)


def new_key() -> tuple[bytes, str]:
    """A private key in OpenSSH's format, and its public line."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private, public.decode()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Return as soon as it holds; fail if it does not in that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.005)


class Sshd:
    """One server. `public` is its host key's line, `home` the user's home directory there."""

    def __init__(self, directory: Path, address: str, port: int, authorized: Path, more: str = "") -> None:
        self.directory, self.address, self.port = directory, address, port
        self.home, self.log = directory / "home", directory / "log"
        self.home.mkdir(parents=True)
        private, self.public = new_key()
        (directory / "host_key").touch(0o600)
        (directory / "host_key").write_bytes(private)
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        names = {"address": address, "port": port, "directory": directory, "authorized": authorized}
        text = _CONFIG.format(**names, home=self.home, path=path, more=more)
        (directory / "config").write_text(text)

    @property
    def reach(self) -> str:
        return f"{self.address}:{self.port}"

    @property
    def words(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        """Begins to listen; `await_listening` says when it does."""
        command = [str(PROGRAM), "-D", "-f", str(self.directory / "config"), "-E", str(self.log)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                yield process
            finally:
                process.kill()

    def await_listening(self, process: subprocess.Popen[bytes]) -> None:
        until(lambda: "Server listening" in self.words or process.poll() is not None)
        assert process.poll() is None, self.words


@contextmanager
def sshds(root: Path, count: int, *, authorized: Path, more: str = "", net: int = 1) -> Iterator[list[Sshd]]:
    """Servers on 127.0.<net>.1, .2, ... and one port. All start at once."""
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    made = [Sshd(root / f"h{i}", f"127.0.{net}.{i + 1}", port, authorized, more) for i in range(count)]
    with ExitStack() as stack:
        processes = [stack.enter_context(each.started()) for each in made]
        for each, process in zip(made, processes, strict=True):
            each.await_listening(process)
        yield made
