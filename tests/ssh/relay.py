"""A relay as Identity-Aware Proxy runs one, on loopback: websockets in, TCP out, sessions that can be resumed."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from tpufn.adapters.iap_frames import SUBPROTOCOL, Ack, Connected, Data, Reconnected, pack, unpack

TOKEN = "token-of-the-runner"


@dataclass
class Session:
    """What outlives a websocket: the TCP connection, what came from the client, what is not yet acknowledged to it."""

    backend: socket.socket
    received: int = 0
    sent: int = 0
    acked: int = 0
    unacked: bytearray = field(default_factory=bytearray)
    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    websocket: ServerConnection | None = None


class Relay:
    """`backends`: instance -> address. `codes`: instance -> close codes to answer the next connections with.

    `break_after`: the number of data frames after which a websocket is cut, once per entry. `late`: sessions of these
    instances end with 4003 at the first frame of data.
    """

    def __init__(self) -> None:
        self.backends: dict[str, tuple[str, int]] = {}
        self.codes: dict[str, list[int]] = {}
        self.break_after: list[int] = []
        self.late: set[str] = set()
        self.sessions: dict[str, Session] = {}
        self.queries: list[dict[str, str]] = []
        self.tokens: set[str] = set()
        self.largest = self.resumed = 0
        self.url = ""

    def handle(self, websocket: ServerConnection) -> None:
        assert websocket.request
        url = urlsplit(websocket.request.path)
        query = dict(parse_qsl(url.query))
        self.queries.append(query)
        self.tokens.add(websocket.request.headers["Authorization"])
        with suppress(ConnectionClosed, OSError):
            if url.path == "/v4/connect":
                self.connect(websocket, query)
            else:
                self.resume(websocket, query)

    def connect(self, websocket: ServerConnection, query: dict[str, str]) -> None:
        codes = self.codes.get(query["instance"])
        if codes:
            return websocket.close(codes.pop(0), "told to")
        try:
            backend = socket.create_connection(self.backends[query["instance"]])
        except OSError:
            return websocket.close(4003, "failed to connect to backend")
        name = f"session-{len(self.sessions)}"
        session = self.sessions[name] = Session(backend, websocket=websocket)
        websocket.send(pack(Connected(name)))
        threading.Thread(target=self.pump, args=(session,), daemon=True).start()
        self.serve(websocket, session, late=query["instance"] in self.late)
        return None

    def resume(self, websocket: ServerConnection, query: dict[str, str]) -> None:
        session = self.sessions[query["sid"]]
        self.resumed += 1
        with session.lock:
            websocket.send(pack(Reconnected(session.received)))
            self.confirm(session, int(query["ack"]))
            for start in range(0, len(session.unacked), 16384):
                websocket.send(pack(Data(bytes(session.unacked[start : start + 16384]))))
            session.websocket = websocket
        self.serve(websocket, session)

    def serve(self, websocket: ServerConnection, session: Session, *, late: bool = False) -> None:
        """From the client to the backend."""
        frames = 0
        for message in websocket:
            frame = unpack(message if isinstance(message, bytes) else b"")
            if isinstance(frame, Ack):
                with session.lock:
                    self.confirm(session, frame.received)
            if not isinstance(frame, Data):
                continue
            if late and session.sent:
                return websocket.close(4003, "backend went away")
            self.largest = max(self.largest, len(frame.data))
            session.received += len(frame.data)
            session.backend.sendall(frame.data)
            websocket.send(pack(Ack(session.received)))
            frames += 1
            if self.break_after and frames >= self.break_after[0]:
                self.break_after.pop(0)
                with session.lock:
                    session.websocket = None
                return websocket.socket.shutdown(socket.SHUT_RDWR)  # no close frame: an abnormal end
        session.backend.close()
        return None

    def confirm(self, session: Session, received: int) -> None:
        del session.unacked[: received - session.acked]
        session.acked = max(session.acked, received)

    def pump(self, session: Session) -> None:
        """From the backend to the client; what is not acknowledged is kept for a resumed session."""
        with suppress(OSError):
            while data := session.backend.recv(16384):
                with session.lock:
                    session.unacked += data
                    session.sent += len(data)
                    with suppress(ConnectionClosed):
                        if session.websocket:
                            session.websocket.send(pack(Data(data)))
        with suppress(ConnectionClosed), session.lock:
            if session.websocket:
                session.websocket.close(1000)


@contextmanager
def relay() -> Iterator[Relay]:
    made = Relay()
    with serve(made.handle, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL], compression=None, close_timeout=1) as server:
        made.url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}/v4"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            for session in made.sessions.values():
                session.backend.close()
            server.shutdown()
            thread.join()
