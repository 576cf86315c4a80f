"""The tunnel as a filter, for OpenSSH's ProxyCommand: standard input to the worker, its answers to standard output."""

import argparse
import os
import sys
import threading
from collections.abc import Callable, Sequence

from tpufn.adapters.iap import RELAY, IapSocket, Tunnel
from tpufn.adapters.ssh_target import SSH_PORT, Unreached

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def main(arguments: Sequence[str] | None = None, token: Callable[[], str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tpufn.adapters.iap")
    for name in ("project", "zone", "instance"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--port", type=int, default=SSH_PORT)
    parser.add_argument("--relay", default=RELAY)
    chosen = parser.parse_args(arguments)
    tunnel = Tunnel(project=chosen.project, zone=chosen.zone, instance=chosen.instance, port=chosen.port)
    try:
        return relay(IapSocket(tunnel, token or application_token, relay=chosen.relay), 0, 1)
    except Unreached as error:
        sys.stderr.write(f"{error.cause}\n")
        return 1


def relay(socket: IapSocket, source: int, target: int) -> int:
    """Both ways at once, until either end is reached."""
    threading.Thread(target=_send, args=(socket, source), daemon=True).start()
    socket.settimeout(None)
    while data := socket.recv(1 << 16):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]
    if socket.failure:
        raise socket.failure
    return 0


def _send(socket: IapSocket, source: int) -> None:
    try:
        while data := os.read(source, 1 << 16):
            socket.sendall(data)
    except OSError:
        return  # the reader tells why
    finally:
        socket.close()


def application_token() -> str:
    """Of the person who runs this: application-default credentials."""
    import google.auth
    from google.auth.transport.requests import Request

    credentials, _ = google.auth.default(scopes=[_SCOPE])
    credentials.refresh(Request())  # type: ignore[no-untyped-call]  # the package has no types
    return str(credentials.token)
