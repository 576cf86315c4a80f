"""A line between a client and a server on this machine that can lose what goes over it."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


class Wiretap:
    """Connect to `host` instead of the server."""

    def __init__(self, server: str) -> None:
        name, _, port = server.rpartition(":")
        self._server = (name, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lost: set[str] = set()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_connections()

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Requests arrive, answers do not: they are lost for good."""
        with self._losing("answers"):
            yield

    @contextmanager
    def mute(self) -> Iterator[None]:
        """Requests do not arrive."""
        with self._losing("requests"):
            yield

    def cut_connections(self) -> None:
        """All that are open. New ones can be made."""
        while self._sockets:
            with contextlib.suppress(OSError):
                self._sockets.pop().shutdown(socket.SHUT_RDWR)

    @contextmanager
    def _losing(self, what: str) -> Iterator[None]:
        """What was lost would leave a connection without sense: it is cut afterwards."""
        self._lost.add(what)
        try:
            yield
        finally:
            self.cut_connections()
            self._lost.discard(what)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._sockets += [client, server]
            for source, target, what in ((client, server, "requests"), (server, client, "answers")):
                threading.Thread(target=self._carry, args=(source, target, what), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, what: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if what not in self._lost:
                    target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()
