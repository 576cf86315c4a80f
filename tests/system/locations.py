"""A door to the Cloud Storage server that knows where each bucket is: the server says one place for all of them.

People's clients go through it, as they ask for regions. A bucket's name ends with its region.
"""

import http.client
import json
import threading
import urllib.parse
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_BUCKETS = "/storage/v1/b/"
_OWN = ("connection", "content-length", "host", "transfer-encoding")


@contextmanager
def located(endpoint: str, regions: Collection[str]) -> Iterator[str]:
    """The endpoint to go to instead."""
    target = urllib.parse.urlsplit(endpoint)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OWN}
            with closing(http.client.HTTPConnection(target.hostname or "", target.port, timeout=30)) as connection:
                connection.request(self.command, self.path, sent, headers)
                answer = connection.getresponse()
                body = placed(self.path, answer.status, answer.read(), regions)
            with suppress(BrokenPipeError, ConnectionResetError):  # whoever asked may have been killed meanwhile
                self._answer(answer, body)

        def _answer(self, answer: http.client.HTTPResponse, body: bytes) -> None:
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OWN:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def placed(path: str, status: int, body: bytes, regions: Collection[str]) -> bytes:
    """A bucket's own description with its region; anything else as it is."""
    name = path.partition("?")[0].removeprefix(_BUCKETS)
    region = next((each for each in regions if name.endswith(f"-{each}")), "")
    if status != 200 or "/" in name or not region:
        return body
    return json.dumps({**json.loads(body), "location": region.upper()}).encode()
