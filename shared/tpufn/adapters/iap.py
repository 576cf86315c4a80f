"""TCP to machines without an external address, through Identity-Aware Proxy: a socket-like object for paramiko.

    python -m tpufn.adapters.iap --project P --zone Z --instance I [--port 22]     for OpenSSH's ProxyCommand

A websocket to the relay carries the bytes (see `iap_frames`). What a relay loses on the way, by a restart for one, is
sent again over a new connection for the same session. The close codes are told apart, because what to do differs:

    4033                not authorized: trying again is no use, the message has the command that mends it
    4047                the instance is not known yet: try again
    4003 before data    nothing listens on the port yet, or a firewall is in between: try again
    4003 afterwards     the worker went away: infrastructure

Sources: gcloud's iap_tunnel_websocket.py; https://cloud.google.com/iap/docs/using-tcp-forwarding.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from tpufn.adapters.iap_frames import (
    MAX_DATA,
    SUBPROTOCOL,
    Ack,
    Connected,
    Data,
    FrameError,
    Reconnected,
    pack,
    unpack,
)
from tpufn.adapters.ssh_hosts import GuestAttributes
from tpufn.adapters.ssh_target import SSH_PORT, Deadline, Host, Unreached

RELAY = "wss://tunnel.cloudproxy.app/v4"
_ORIGIN = "bot:iap-tunneler"
_NORMAL, _NO_BACKEND, _FORBIDDEN, _UNKNOWN_INSTANCE = 1000, 4003, 4033, 4047
_RESUMES = 3
_RESUME_TIME = 10.0


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """What is behind the relay: a port of a virtual machine."""

    project: str
    zone: str
    instance: str
    port: int = SSH_PORT
    interface: str = "nic0"

    @property
    def query(self) -> dict[str, str]:
        where = {"zone": self.zone, "instance": self.instance, "interface": self.interface}
        return {"project": self.project, "port": str(self.port), "newWebsocket": "True", **where}


class IapSocket:
    """The socket. Raises Unreached while it is made; later `failure` says why it broke."""

    def __init__(self, tunnel: Tunnel, token: Callable[[], str], *, timeout: float = 15.0, relay: str = RELAY) -> None:
        self.tunnel, self.failure = tunnel, None
        self._token, self._relay = token, relay
        self._timeout: float | None = None
        self._lock, self._sending = threading.RLock(), threading.Lock()
        self._read = bytearray()
        self._unconfirmed: deque[bytes] = deque()
        self._confirmed = self._received = self._acked = 0
        self._closed = False
        self._session = ""
        self._socket = self._open("connect", tunnel.query, Deadline(timeout))

    failure: Unreached | None

    def settimeout(self, timeout: float | None, /) -> None:
        self._timeout = timeout

    def gettimeout(self) -> float | None:
        return self._timeout

    def recv(self, size: int, /) -> bytes:
        """Up to `size` bytes; b"" at the end. Raises TimeoutError; also a ConnectionError that `failure` explains."""
        while not self._read:
            socket = self._socket
            try:
                message = socket.recv(self._timeout)
            except ConnectionClosed as closed:
                if self._is_over(socket, closed):
                    return b""
                continue
            with self._lock:
                if socket is self._socket:  # else the sender has resumed meanwhile, and the relay sends this again
                    self._take(message)
        data = bytes(self._read[:size])
        del self._read[:size]
        return data

    def send(self, data: bytes, /) -> int:
        """One frame; the number of bytes taken."""
        piece = bytes(data[:MAX_DATA])
        with self._sending:
            with self._lock:  # not held while sending: a relay that waits for us to read must not wait for ever
                socket = self._socket
                self._unconfirmed.append(piece)
            try:
                socket.send(pack(Data(piece)))
            except ConnectionClosed as closed:
                if self._is_over(socket, closed):
                    raise ConnectionResetError("the tunnel is closed") from closed
        return len(piece)

    def sendall(self, data: bytes, /) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.send(bytes(rest[:MAX_DATA])) :]

    def close(self) -> None:
        self._closed = True
        self._socket.close()

    def _is_over(self, broken: ClientConnection, closed: ConnectionClosed) -> bool:
        """Whether the connection has ended for good, with `failure` as the reason; else there is another one now."""
        with self._lock:
            if self._closed or (closed.rcvd and closed.rcvd.code == _NORMAL):
                return True
            if self._socket is not broken:
                return False
            if closed.rcvd and closed.rcvd.code >= 4000:
                self.failure = explain(closed.rcvd.code, closed.rcvd.reason, self.tunnel, early=not self._received)
                return True
            return not self._resume()

    def _resume(self) -> bool:
        """A new connection for the same session; what the relay did not get is sent again."""
        deadline = Deadline(_RESUME_TIME)
        for _ in range(_RESUMES):
            try:
                query = {"sid": self._session, "ack": str(self._received), "newWebsocket": "True"}
                self._socket = self._open("reconnect", {**query, "zone": self.tunnel.zone}, deadline)
                for piece in self._unconfirmed:
                    self._socket.send(pack(Data(piece)))
                return True
            except (Unreached, ConnectionClosed) as error:
                self.failure = error if isinstance(error, Unreached) else self.failure
        return False

    def _take(self, message: str | bytes) -> None:
        match unpack(message if isinstance(message, bytes) else message.encode()):
            case Data(data=data):
                self._read += data
                self._received += len(data)
                self._acknowledge()
            case Ack(received=received) | Reconnected(received=received):
                self._confirm(received)
            case _:
                return

    def _acknowledge(self) -> None:
        if self._received - self._acked > 2 * MAX_DATA:
            self._acked = self._received
            with suppress(ConnectionClosed):  # the next recv will see that it is closed
                self._socket.send(pack(Ack(self._received)))

    def _confirm(self, received: int) -> None:
        """The relay has that many bytes: they are never sent again."""
        with self._lock:
            while self._unconfirmed and self._confirmed < received:
                piece = self._unconfirmed.popleft()
                known = min(len(piece), received - self._confirmed)
                self._confirmed += known
                if known < len(piece):
                    self._unconfirmed.appendleft(piece[known:])

    def _open(self, endpoint: str, query: dict[str, str], deadline: Deadline) -> ClientConnection:
        """A connection whose first frame said success. Raises Unreached."""
        socket = self._connect(f"{self._relay}/{endpoint}?{urlencode(query)}", deadline)
        try:
            message = socket.recv(deadline.check("waiting for the relay"))
            frame = unpack(message if isinstance(message, bytes) else b"")
        except ConnectionClosed as closed:
            code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
            raise explain(code, reason, self.tunnel, early=not self._received) from closed
        except (TimeoutError, FrameError) as error:
            socket.close()
            raise Unreached(f"IAP: no answer for {self.tunnel.instance} in time") from error
        if isinstance(frame, Connected):
            self._session = frame.session
        elif isinstance(frame, Reconnected):
            self._confirm(frame.received)
        else:
            socket.close()
            raise Unreached("IAP: the relay's first frame is not a success", again=True)
        return socket

    def _connect(self, url: str, deadline: Deadline) -> ClientConnection:
        try:
            manager = connect(
                url,
                origin=Origin(_ORIGIN),
                subprotocols=[Subprotocol(SUBPROTOCOL)],
                additional_headers={"Authorization": f"Bearer {self._token()}"},
                compression=None,
                proxy=True if url.startswith("wss:") else None,
                open_timeout=deadline.check("connecting to the relay"),
                ping_interval=None,
                close_timeout=1.0,
                max_size=None,
            )
            return manager.__enter__()  # its block ends with our own `close`
        except InvalidStatus as error:
            raise _refused(error.response.status_code, self.tunnel) from error
        except (OSError, InvalidHandshake) as error:
            raise Unreached(
                f"IAP: {type(error).__name__}: {error}", again=not isinstance(error, TimeoutError)
            ) from error


class IapDialer:
    """`Dialer` through IAP. The machines' names come from the guest attributes."""

    def __init__(
        self, project: str, attributes: GuestAttributes, token: Callable[[], str], *, relay: str = RELAY
    ) -> None:
        self._project, self._attributes, self._token, self._relay = project, attributes, token, relay
        self._names: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()

    def dial(self, host: Host, *, timeout: float) -> IapSocket:
        tunnel = Tunnel(project=self._project, zone=host.zone, instance=self._instance(host), port=host.endpoint[1])
        return IapSocket(tunnel, self._token, timeout=timeout, relay=self._relay)

    def _instance(self, host: Host) -> str:
        """Without its domain. All of a TPU's with one question."""
        with self._lock:
            if (host.tpu, host.worker) not in self._names:
                told = self._attributes.hostnames(host.tpu, host.zone)
                self._names |= {(host.tpu, i): name.partition(".")[0] for i, name in told.items()}
            name = self._names.get((host.tpu, host.worker), "")
        if not name:
            raise Unreached(f"IAP: the name of {host}'s machine is not in its guest attributes yet", again=True)
        return name


def explain(code: int, reason: str, tunnel: Tunnel, *, early: bool) -> Unreached:
    """What a close code of the relay means, and whether to try again."""
    words = f"IAP {code}" + (f" ({reason})" if reason else "")
    if code == _FORBIDDEN:
        return Unreached(f"{words}: not authorized; {_grant(tunnel)}")
    if code == _UNKNOWN_INSTANCE:
        return Unreached(f"{words}: {tunnel.instance} is not known yet", again=True)
    if code == _NO_BACKEND and early:
        rule = f"gcloud compute firewall-rules create tpufn-iap --project={tunnel.project} --allow=tcp:{tunnel.port}"
        hint = f"if it stays so: {rule} --source-ranges=35.235.240.0/20"
        return Unreached(f"{words}: port {tunnel.port} of {tunnel.instance} does not answer yet; {hint}", again=True)
    if code == _NO_BACKEND:
        return Unreached(f"{words}: {tunnel.instance} went away")
    return Unreached(f"{words}: the relay closed the tunnel to {tunnel.instance}", again=code < 4000)


def _refused(status: int, tunnel: Tunnel) -> Unreached:
    if status in (401, 403):
        return Unreached(f"IAP: HTTP {status}: not authorized; {_grant(tunnel)}")
    return Unreached(f"IAP: HTTP {status} for {tunnel.instance}", again=status >= 500 or status == 429)


def _grant(tunnel: Tunnel) -> str:
    return (
        f"gcloud projects add-iam-policy-binding {tunnel.project} "
        "--member=MEMBER --role=roles/iap.tunnelResourceAccessor"
    )


if __name__ == "__main__":
    from tpufn.adapters.iap_proxy import main

    raise SystemExit(main())
