"""One authenticated connection to one worker, with paramiko: the only module that knows it.

Every step is bounded by a deadline, and every way not to get there becomes `Unreached` with its cause in words: ssh's
own 255 tells nobody apart. The words are OpenSSH's where it has some, so that people find them.
"""

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import paramiko  # type: ignore[import-untyped]

from tpufn.adapters.ssh_hosts import Identity
from tpufn.adapters.ssh_target import Deadline, Host, Unreached
from tpufn.adapters.ssh_users import Users

PrivateKey = Any
"""A paramiko.PKey, which is untyped."""

_LOG = "tpufn.ssh"
_FAST_KEX = "curve25519-sha256@libssh.org"
_FAST_CIPHER = "aes128-gcm@openssh.com"
_KINDS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
_PIECE = 1 << 16
_ERRORS = 1 << 14
_TROUBLE = (paramiko.SSHException, EOFError, OSError)

logging.getLogger(_LOG).addHandler(logging.NullHandler())
logging.getLogger(_LOG).propagate = False  # paramiko prints what we already tell as a cause


class Stream(Protocol):
    """What paramiko needs of a socket."""

    def send(self, data: bytes, /) -> int: ...
    def recv(self, size: int, /) -> bytes: ...
    def settimeout(self, timeout: float | None, /) -> None: ...
    def close(self) -> None: ...


class Dialer(Protocol):
    """A way to a worker's sshd. Raises Unreached or OSError."""

    def dial(self, host: Host, *, timeout: float) -> Stream: ...


class Direct:
    """TCP to where the worker can be reached."""

    def dial(self, host: Host, *, timeout: float) -> Stream:
        stream = socket.create_connection(host.endpoint, timeout=timeout)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream


@dataclass(frozen=True, kw_only=True)
class Login:
    """As whom, and with which keys: the newest first, while a rotation is on its way the former one too."""

    users: Users
    keys: Callable[[], Sequence[PrivateKey]]


class Talk:
    """One command on a worker: what goes in and what comes out of it, in turns."""

    def __init__(self, channel: Any, deadline: Deadline) -> None:
        self._channel, self._deadline = channel, deadline
        self._read = bytearray()

    def send(self, data: bytes) -> None:
        self._channel.settimeout(self._deadline.check("sending the order"))
        self._channel.sendall(data)

    def line(self) -> bytes:
        """The next line with its end; less where the output ends before."""
        while b"\n" not in self._read and self._receive():
            pass
        line, newline, rest = bytes(self._read).partition(b"\n")
        self._read[:] = rest
        return line + newline

    def end(self) -> int:
        """No more input; the exit status once it has ended, -1 where the connection did not tell."""
        self._channel.shutdown_write()
        while self._receive():
            del self._read[:-_PIECE]
        self._channel.status_event.wait(self._deadline.check("waiting for the end of the command"))
        return int(self._channel.exit_status)

    def complaint(self) -> str:
        """The last line that it wrote to its standard error, cut."""
        errors = bytearray()
        while self._channel.recv_stderr_ready() and len(errors) < _ERRORS:
            errors += self._channel.recv_stderr(_PIECE)
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else ""

    def _receive(self) -> bool:
        self._channel.settimeout(self._deadline.check("waiting for the worker's answer"))
        data: bytes = self._channel.recv(_PIECE)
        self._read += data
        return bool(data)


class Connector:
    """Opens connections: dial, handshake, identity, login."""

    def __init__(self, dialer: Dialer, identity: Identity, login: Login, *, connect: float) -> None:
        self._dialer, self._identity, self._login, self._connect = dialer, identity, login, connect

    @contextmanager
    def run(self, host: Host, command: str, deadline: Deadline) -> Iterator[Talk]:
        """Run one command over one connection. Raises Unreached."""
        early = deadline.within(self._connect)
        stream = self._dial(host, early)
        transport: Any = None
        try:
            transport = self._shake_hands(host, stream, early)
            self._authenticate(host, transport, early)
            channel = transport.open_session(timeout=deadline.check("opening a session"))
            channel.settimeout(deadline.left)
            channel.exec_command(command)
            yield Talk(channel, deadline)
        except TimeoutError as error:
            raise _failure(stream) or Unreached(f"{host} did not answer in time") from error
        except _TROUBLE as error:
            broke = Unreached(f"the connection to {host} broke: {_words(error)}", again=True)
            raise _failure(stream) or broke from error
        except Unreached as error:
            raise _failure(stream) or error from error
        finally:
            _close(stream, transport)

    def _dial(self, host: Host, deadline: Deadline) -> Stream:
        try:
            return self._dialer.dial(host, timeout=deadline.check("connecting"))
        except ConnectionRefusedError as error:
            raise Unreached(f"{_place(host)}: Connection refused", again=True) from error
        except TimeoutError as error:
            raise Unreached(f"{_place(host)}: Connection timed out") from error
        except OSError as error:
            raise Unreached(f"{_place(host)}: {_words(error)}") from error

    def _shake_hands(self, host: Host, stream: Stream, deadline: Deadline) -> Any:
        expected = self._identity.expected(host)
        transport = paramiko.Transport(stream)
        try:
            self._negotiate(transport, expected.split()[0] if expected else "", deadline)
        except _TROUBLE as error:
            _close(stream, transport)
            raise _no_handshake(host, error, deadline) from error
        if not transport.initial_kex_done:
            _close(stream, transport)
            raise Unreached(f"{host} did not finish the handshake in time")
        key = transport.get_remote_server_key()
        try:
            self._identity.check(host, f"{key.get_name()} {key.get_base64()}")
        except Unreached:
            _close(stream, transport)
            raise
        return transport

    def _negotiate(self, transport: Any, kind: str, deadline: Deadline) -> None:
        transport.set_log_channel(_LOG)
        options = transport.get_security_options()
        options.kex = _first(_FAST_KEX, options.kex)
        options.ciphers = _first(_FAST_CIPHER, options.ciphers)
        if kind:  # a host has keys of several kinds: ask for the one that is pinned
            options.key_types = _KINDS.get(kind, (kind,))
        transport.banner_timeout = transport.handshake_timeout = deadline.check("greeting")
        transport.start_client(timeout=deadline.left)

    def _authenticate(self, host: Host, transport: Any, deadline: Deadline) -> None:
        """One key after the other, over one connection."""
        user, keys = self._login.users.user(host.tpu, host.zone), self._login.keys()
        for key in keys:
            transport.auth_timeout = deadline.check("logging in")
            with suppress(paramiko.AuthenticationException):
                transport.auth_publickey(user, key)
                return
            if not transport.is_active():
                raise Unreached(f"the connection to {host} broke while logging in", again=True)
        tried = f"{len(keys)} of our keys were tried"
        raise Unreached(f"{user}@{_place(host)}: Permission denied (publickey); {tried}", refused=True)


def _no_handshake(host: Host, error: BaseException, deadline: Deadline) -> Unreached:
    """sshd closes before its greeting when more than MaxStartups log in at once, or while the machine boots."""
    if not deadline.left:
        return Unreached(f"{host} did not finish the handshake in time")
    if isinstance(error, paramiko.IncompatiblePeer):
        return Unreached(f"{host}: no common algorithm: {_words(error)}")
    text = "kex_exchange_identification: Connection closed by remote host"
    return Unreached(f"{_place(host)}: {text}", again=True)


def _failure(stream: Stream) -> Unreached | None:
    """What a tunnel knows of its end that nobody else does."""
    failure = getattr(stream, "failure", None)
    return failure if isinstance(failure, Unreached) else None


def _close(stream: Stream, transport: Any) -> None:
    """Shut down first: paramiko's reader sees the end at once, instead of at its next look."""
    if isinstance(stream, socket.socket):
        with suppress(OSError):
            stream.shutdown(socket.SHUT_RDWR)
    if transport is not None:
        transport.close()
    with suppress(OSError):
        stream.close()


def _first(wanted: str, offered: Sequence[str]) -> tuple[str, ...]:
    return (wanted, *(each for each in offered if each != wanted)) if wanted in offered else tuple(offered)


def _place(host: Host) -> str:
    return "{}:{}".format(*host.endpoint)


def _words(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__
