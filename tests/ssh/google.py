"""A metadata server, Secret Manager and Pub/Sub on loopback: what a worker asks for with the machine's identity."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


class Google:
    """`secrets` by name. `published` holds (topic, body), `attributes` the guest attributes by path."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self.published: list[tuple[str, dict[str, Any]]] = []
        self.attributes: dict[str, bytes] = {}
        self.worker = "0"
        self.preempted = threading.Event()
        self.url = ""

    @property
    def metadata(self) -> str:
        return self.url + "/computeMetadata/v1"

    @property
    def identity(self) -> dict[str, Any]:
        """What a source needs to talk to this server."""
        token = self.metadata + "/instance/service-accounts/default/token"
        return {"endpoint": self.url, "token_url": token, "backoff": 0.01}


class Handler(BaseHTTPRequestHandler):
    server: Any

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        google, url = self.server.google, urlsplit(self.path)
        if url.path.startswith("/v1/projects/p/secrets/"):
            name = url.path.split("/")[5]
            if name not in google.secrets:
                return self.answer(403, b"denied")
            data = base64.b64encode(google.secrets[name].encode()).decode()
            return self.answer(200, json.dumps({"payload": {"data": data}}).encode())
        if self.headers["Metadata-Flavor"] != "Google":
            return self.answer(403, b"")
        if url.path.endswith("/token"):
            return self.answer(200, b'{"access_token": "t", "expires_in": 3600}')
        if url.path.endswith("/preempted"):
            return self.preempted(dict(parse_qsl(url.query)))
        return self.answer(200, google.worker.encode()) if google.worker else self.answer(404, b"")

    def preempted(self, query: dict[str, str]) -> None:
        google = self.server.google
        if query.get("last_etag") == "quiet":
            google.preempted.wait(20)
        tag, word = ("over", b"TRUE") if google.preempted.is_set() else ("quiet", b"FALSE")
        self.answer(200, word, ETag=tag)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        topic = self.path.rpartition("/")[2].partition(":")[0]
        for message in body["messages"]:
            self.server.google.published.append((topic, json.loads(base64.b64decode(message["data"]))))
        self.answer(200, b"{}")

    def do_PUT(self) -> None:
        path = self.path.partition("/guest-attributes/")[2]
        self.server.google.attributes[path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, b"")

    def answer(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serve_google() -> Iterator[Google]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    google = server.google = Google()  # type: ignore[attr-defined]
    google.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield google
    finally:
        google.preempted.set()
        server.shutdown()
        thread.join()
        server.server_close()
