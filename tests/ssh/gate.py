"""A TCP relay in front of a real sshd that misbehaves as a network does."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Gate:
    """Forwards to `target`. While `held` is set nothing passes; once `dies` says so, everything is cut at the next
    byte of the server's."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.opened = threading.Event()
        self.opened.set()
        self.dies: Callable[[], bool] = lambda: False
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))

    @property
    def reach(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.forward, args=(client,), daemon=True).start()

    def forward(self, client: socket.socket) -> None:
        self.opened.wait(60)
        with suppress(OSError), client, socket.create_connection(self.target) as server:
            threading.Thread(target=copy, args=(client, server), daemon=True).start()
            copy(server, client, self.dies)


def copy(source: socket.socket, target: socket.socket, dies: Callable[[], bool] = lambda: False) -> None:
    with suppress(OSError):
        while (data := source.recv(1 << 16)) and not dies():
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def gate(reach: str) -> Iterator[Gate]:
    name, _, port = reach.rpartition(":")
    made = Gate((name, int(port)))
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield made
    finally:
        made.opened.set()
        made.listener.shutdown(socket.SHUT_RDWR)
        made.listener.close()
        thread.join()
