"""The Cloud Storage adapter beyond the port's contract: regions, refusals, rate limits, and uploads that break."""

import pytest
import requests
from google.auth.exceptions import DefaultCredentialsError
from requests.adapters import HTTPAdapter

from tpufn.adapters.gcs import CloudBlobs, connect
from tpufn.domain.errors import CloudUnavailable, NotFound

from .rest_server import error, rest_server
from .storage_server import drop_bucket, make_bucket, storage_server

_BUCKET = "bucket-g"
_LIMITED = "The object exceeded the rate limit for object mutation operations (create, update, and delete)"


@pytest.fixture(scope="module")
def storage():
    with storage_server() as endpoint:
        yield endpoint


@pytest.fixture
def client(storage):
    make_bucket(storage, _BUCKET)
    client = connect("p", storage)
    yield client
    client.close()
    drop_bucket(storage, _BUCKET)


@pytest.fixture
def blobs(client):
    return CloudBlobs(lambda: client, first_pause=0.001)


@pytest.fixture
def scripted():
    """A bucket whose server answers with a function, and the server."""
    with rest_server(lambda *_: error(500, "not said yet")) as server:
        client = connect("p", server.endpoint)
        yield CloudBlobs(lambda: client, patience=0.2, first_pause=0.001), server
        client.close()


class Broken(HTTPAdapter):
    """Remembers its requests; the connection breaks at the pieces of these numbers."""

    def __init__(self, *at: int) -> None:
        super().__init__()
        self.at, self.count = at, 0
        self.timeouts, self.requests = [], []

    def send(self, request, *args, **options):
        self.timeouts.append(options.get("timeout"))
        self.requests.append((request.method, request.url))
        if request.method == "PUT":
            self.count += 1
            if self.count in self.at:
                raise requests.ConnectionError("broken")
        return super().send(request, *args, **options)


@pytest.mark.parametrize(("location", "region"), [("US-EAST1", "us-east1"), ("US", "us"), ("NAM4", "nam4")])
def test_regions_are_told_in_lower_case(scripted, location, region):
    """Why: a multi-region is no region of a TPU; placement must see it as it is. It is asked for once."""
    blobs, server = scripted
    server.answer = lambda *_: (200, {"name": "x", "location": location})
    assert [blobs.region("x"), blobs.region("x")] == [region, region]
    assert server.asked == [("GET", "/storage/v1/b/x")]


@pytest.mark.parametrize(
    "call",
    [lambda b: b.put("x", "k", b""), lambda b: b.get("x", "k"), lambda b: b.list("x", ""), lambda b: b.region("x")],
)
def test_a_refusal_names_bucket_and_role(scripted, call):
    """Why: a missing permission is said with what mends it."""
    blobs, server = scripted
    server.answer = lambda *_: error(403, "does not have storage access")
    with pytest.raises(CloudUnavailable, match=r"gs://x.*roles/storage\.objectUser"):
        call(blobs)
    assert len(server.asked) == 1


def test_a_rate_limit_is_waited_for(scripted):
    """Why: one object takes one mutation a second; a heartbeat must not fail by it."""
    blobs, server = scripted
    answers = iter([error(429, _LIMITED), error(503, "no"), (200, {"name": "k"})])
    server.answer = lambda *_: next(answers)
    assert blobs.put("x", "k", b"1") is True
    assert len(server.asked) == 3


def test_patience_has_an_end(scripted):
    """Why: a function has a deadline; the next event tries again."""
    blobs, server = scripted
    server.answer = lambda *_: error(429, _LIMITED)
    with pytest.raises(CloudUnavailable, match="rate limit"):
        blobs.put("x", "k", b"1")
    assert len(server.asked) > 2


def test_nobody_there():
    """Why: no network is no defect of ours."""
    client = connect("p", "http://127.0.0.1:9")
    with pytest.raises(CloudUnavailable, match="gs://x/k"):
        CloudBlobs(lambda: client, patience=0.05, first_pause=0.001).get("x", "k")
    client.close()


def test_no_login():
    """Why: the login is looked for on the first call, and its lack is said plainly."""

    def fail():
        raise DefaultCredentialsError("Your default credentials were not found.")

    with pytest.raises(CloudUnavailable, match="gcloud auth application-default login"):
        CloudBlobs(fail).region("x")


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20, (5 << 20) + 7])
def test_uploads_of_every_size(blobs, tmp_path, size):
    """Why: whole pieces, a rest, one request or several: the same bytes, and their number is told at the end."""
    path, sent = tmp_path / "f", []
    path.write_bytes(bytes(range(251)) * (size // 251) + b"x" * (size % 251))
    assert blobs.upload(_BUCKET, "f", str(path), progress=sent.append) is True
    assert blobs.get(_BUCKET, "f") == path.read_bytes()
    assert sent[-1] == size
    assert sent == sorted(set(sent))


@pytest.mark.parametrize("at", [(1,), (2,), (3,), (2, 3)])
def test_an_upload_goes_on_after_a_break(blobs, client, storage, tmp_path, at):
    """Why: a bundle is large and the network is not always there; a piece is sent again, not the whole."""
    broken = Broken(*at)
    client._http.mount(storage, broken)
    path, sent = tmp_path / "f", []
    path.write_bytes(b"".join(b"%08d" % i for i in range(300_000)))
    assert blobs.upload(_BUCKET, "f", str(path), progress=sent.append) is True
    assert blobs.get(_BUCKET, "f") == path.read_bytes()
    assert sent == sorted(set(sent))


@pytest.mark.parametrize("size", [10, 2_500_000])
def test_the_service_decides_who_uploaded_first(blobs, client, storage, tmp_path, size):
    """Why: two people submit the same tree at the same moment. The local server looks at the condition only when an
    upload in pieces begins, the real one again at its end: so here the condition itself is looked at."""
    watched = Broken()
    client._http.mount(storage, watched)
    (tmp_path / "f").write_bytes(b"z" * size)
    assert blobs.upload(_BUCKET, "f", str(tmp_path / "f")) is True
    [begin] = [url for method, url in watched.requests if method == "POST"]
    assert "ifGenerationMatch=0" in begin


def test_an_upload_that_comes_second(scripted, tmp_path):
    """Why: it was not there when we looked, and is there now: that is no error."""
    blobs, server = scripted
    server.answer = lambda method, _: error(404 if method == "GET" else 412, "conditionNotMet")
    (tmp_path / "f").write_bytes(b"z")
    assert blobs.upload("x", "f", str(tmp_path / "f")) is False


def test_an_upload_to_no_bucket(blobs, tmp_path):
    """Why: the bucket's name is what is wrong, not the file."""
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(NotFound, match="gs://none/f"):
        blobs.upload("none", "f", str(tmp_path / "f"))


def test_a_long_listing(blobs, client, storage):
    """Why: an attempt's logs are many objects; nothing of a second page may be lost."""
    for number in range(25):
        blobs.put(_BUCKET, f"logs/{number:04d}", b"")
    pages = []

    class Short(HTTPAdapter):
        def send(self, request, *args, **options):
            request.prepare_url(request.url, {"maxResults": 10})
            pages.append(request.url)
            return super().send(request, *args, **options)

    client._http.mount(storage, Short())
    assert [each.key for each in blobs.list(_BUCKET, "logs/")] == [f"logs/{number:04d}" for number in range(25)]
    assert len(pages) == 3


def test_compressed_objects_come_as_they_are(blobs, client):
    """Why: a position in an object is a position in its bytes."""
    import gzip

    data = gzip.compress(b"text " * 100)
    blob = client.bucket(_BUCKET).blob("z")
    blob.content_encoding = "gzip"
    blob.upload_from_string(data)
    assert blobs.get(_BUCKET, "z") == data


def test_every_request_has_a_timeout(blobs, client, storage, tmp_path):
    """Why: a request without one can block its function for ever."""
    watched = Broken()
    client._http.mount(storage, watched)
    (tmp_path / "f").write_bytes(b"z" * 2_500_000)
    blobs.upload(_BUCKET, "f", str(tmp_path / "f"))
    blobs.put(_BUCKET, "k", b"1", once=True)
    blobs.get(_BUCKET, "k")
    blobs.list(_BUCKET, "")
    blobs.region(_BUCKET)
    assert len(watched.timeouts) >= 8
    assert set(watched.timeouts) == {(5.0, 20.0)}
