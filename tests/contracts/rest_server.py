"""A tiny HTTP server for adapters that talk REST: a function answers, and what was asked is remembered."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Mapping[str, Any]]


@dataclass
class RestServer:
    """`answer` gets the method and the path; `asked` is all of them, in order."""

    answer: Callable[[str, str], Answer]
    endpoint: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def rest_server(answer: Callable[[str, str], Answer]) -> Iterator[RestServer]:
    rest = RestServer(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            rest.asked.append((self.command, path))
            status, body = rest.answer(self.command, path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        rest.endpoint = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield rest
        server.shutdown()


def error(status: int, message: str) -> Answer:
    """An error as Google's services send it."""
    return status, {"error": {"code": status, "message": message}}
