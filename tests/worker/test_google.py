"""The agent against Cloud Storage, Pub/Sub, Secret Manager and the metadata server, as one small local server."""

import base64
import itertools
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tpufn.worker.bucket import BucketError
from tpufn.worker.gcs import CloudBucket
from tpufn.worker.google import HttpError, Session, read_secret
from tpufn.worker.report import PubsubPublisher
from tpufn.worker.watch import Heartbeat, watch_notice


class Google:
    """What the server remembers; `failures` are statuses to answer first."""

    def __init__(self):
        self.objects = {}
        self.published = []
        self.failures = []
        self.tokens = 0
        self.preempted = threading.Event()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        google, url = self.server.google, urllib.parse.urlsplit(self.path)
        if url.path == "/token":
            google.tokens += 1
            return self.answer(200, {"access_token": f"t{google.tokens}", "expires_in": 3600})
        if url.path == "/preempted":
            return self.preempted(dict(urllib.parse.parse_qsl(url.query)))
        if self.is_failing():
            return None
        if url.path.startswith("/v1/projects/p/secrets/"):
            value = base64.b64encode(url.path.encode()).decode()
            return self.answer(200, {"payload": {"data": value}})
        key = urllib.parse.unquote(url.path.partition("/o/")[2])
        if key not in google.objects:
            return self.answer(404, {})
        return self.answer(200, google.objects[key] if "alt=media" in url.query else {"generation": "1"})

    def do_POST(self):
        google, url = self.server.google, urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.is_failing():
            return None
        if url.path.startswith("/v1/projects/p/topics/"):
            google.published.append((url.path, json.loads(body)))
            return self.answer(200, {})
        query = dict(urllib.parse.parse_qsl(url.query))
        if query.get("ifGenerationMatch") == "0" and query["name"] in google.objects:
            return self.answer(412, {})
        google.objects[query["name"]] = body
        return self.answer(200, {})

    def is_failing(self):
        if not (self.headers["Authorization"] or "").startswith("Bearer t"):
            self.answer(401, {})
            return True
        if self.server.google.failures:
            self.answer(self.server.google.failures.pop(0), {})
            return True
        return False

    def preempted(self, query):
        if self.headers["Metadata-Flavor"] != "Google":
            return self.answer(403, {})
        if query.get("last_etag") == "quiet":
            self.server.google.preempted.wait(20)
        tag, word = ("over", b"TRUE") if self.server.google.preempted.is_set() else ("quiet", b"FALSE")
        return self.answer(200, word, ETag=tag)

    def answer(self, status, body, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def google():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.google = Google()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.google.url = f"http://127.0.0.1:{server.server_port}"
    yield server.google
    server.google.preempted.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def source(google):
    return {"endpoint": google.url, "token_url": google.url + "/token", "tries": 4, "backoff": 0.001}


@pytest.fixture
def bucket(source):
    return CloudBucket({**source, "kind": "gcs", "bucket": "b"})


def test_write_once(google, bucket):
    """The first result stands."""
    assert bucket.put("a/b c", b"1", once=True)
    assert not bucket.put("a/b c", b"2", once=True)
    assert google.objects == {"a/b c": b"1"}
    assert bucket.put("a/b c", b"3")
    assert google.objects == {"a/b c": b"3"}


def test_exists(bucket):
    """How `go` is seen."""
    assert not bucket.exists("jobs/a/go")
    bucket.put("jobs/a/go", b"")
    assert bucket.exists("jobs/a/go")


def test_download(bucket, tmp_path):
    """Bundles are large: they go to a file, and a stop may come in between."""
    bucket.put("x", b"y" * 3_000_000)
    calls = []
    bucket.download("x", str(tmp_path / "x"), lambda: calls.append(1))
    assert (tmp_path / "x").stat().st_size == 3_000_000
    assert len(calls) >= 3
    with pytest.raises(BucketError, match="404"):
        bucket.download("none", str(tmp_path / "y"), lambda: None)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_passing_failures_are_retried(google, bucket, status):
    """429 is daily life where an object is rewritten too fast."""
    google.failures = [status] * 3
    assert bucket.put("k", b"v", once=True)
    google.failures = [status] * 4
    with pytest.raises(BucketError, match=str(status)):
        bucket.put("k", b"v")


def test_refusals_are_not_retried(google, bucket):
    """A missing permission does not pass."""
    google.failures = [403, 500]
    with pytest.raises(BucketError, match="403"):
        bucket.put("k", b"v")
    assert google.failures == [500]


def test_nobody_there():
    """A dead network is an error of the bucket, never another one."""
    source = {
        "bucket": "b",
        "endpoint": "http://127.0.0.1:9",
        "token_url": "http://127.0.0.1:9",
        "tries": 2,
        "backoff": 0,
    }
    with pytest.raises(BucketError):
        CloudBucket(source).put("k", b"v")


def test_token_is_kept(google, bucket):
    """The metadata server is asked once an hour, not once a call."""
    for _ in range(5):
        bucket.put("k", b"v")
    assert google.tokens == 1


def test_urls_are_what_the_job_expects(bucket):
    """JOB_BUCKET and its siblings."""
    assert (bucket.url(), bucket.url("a/b"), bucket.sibling("c").url()) == ("gs://b", "gs://b/a/b", "gs://c")


def test_publish(google, source):
    """The message's data is the body alone; the topic is the address."""
    publisher = PubsubPublisher({**source, "project": "p", "prefix": "lab-"})
    publisher.send("worker-events", {"attempt": "a.1", "worker": 0, "what": "exited"})
    publisher.flush(10)
    [(path, body)] = google.published
    assert path == "/v1/projects/p/topics/lab-worker-events:publish"
    assert json.loads(base64.b64decode(body["messages"][0]["data"])) == {
        "attempt": "a.1",
        "worker": 0,
        "what": "exited",
    }


def test_publish_that_fails_is_silent(google, source):
    """Losing a message must not matter."""
    google.failures = [500] * 10
    publisher = PubsubPublisher({**source, "project": "p"})
    publisher.send("worker-events", {})
    publisher.flush(10)
    assert google.published == []


def test_secret(source):
    """Read on the worker by the machine's identity."""
    session = Session(source)
    assert read_secret(session, {**source, "project": "p"}, "key").endswith("/secrets/key/versions/latest:access")
    assert read_secret(session, {**source, "project": "p"}, "key@7").endswith("/secrets/key/versions/7:access")


def test_secret_that_is_refused(google, source):
    """The job's set-up fails with the reason."""
    google.failures = [403]
    with pytest.raises(HttpError, match="403"):
        read_secret(Session(source), {**source, "project": "p"}, "key")


def test_notice_of_the_metadata_server(google):
    """Told while it waits, not at the next poll."""
    found = threading.Event()
    watch_notice({"kind": "server", "url": google.url + "/preempted"}, found.set)
    assert not found.wait(0.1)
    google.preempted.set()
    assert found.wait(5)


def test_whole_attempt_on_cloud_storage(google, source, host, until):
    """The same attempt with the cloud's implementations of everything."""
    bucket = {**source, "kind": "gcs", "bucket": "b", "poll": 0.02, "interval": 0.1}
    order = host.order(
        'echo "$JOB_BUCKET $CHECKPOINT_GCS_DIR $TOKEN"',
        bucket=bucket,
        publish={**source, "kind": "pubsub", "project": "p"},
        metadata={"kind": "server", "url": google.url + "/preempted"},
        secrets={"TOKEN": "key"},
        secret_source={**source, "kind": "secret-manager", "project": "p"},
    )
    host.launch(order)
    prefix = "jobs/job/attempts/1"
    until(lambda: f"{prefix}/status/worker-0.prepared.json" in google.objects)
    google.objects[f"{prefix}/go"] = b""
    until(lambda: f"{prefix}/status/worker-0.closed.json" in google.objects)
    assert json.loads(google.objects[f"{prefix}/status/worker-0.exited.json"])["code"] == 0
    log = google.objects[f"{prefix}/logs/worker-0/00000000.log"].decode()
    assert log == "gs://b gs://b/jobs/job/checkpoints /v1/projects/p/secrets/key/versions/latest:access\n"
    until(lambda: len(google.published) == 4)


def test_heartbeat_keeps_to_one_write_a_second(bucket):
    """Cloud Storage takes one write of an object a second: an impatient order cannot ask for more."""
    beats, times = threading.Event(), []
    heartbeat = Heartbeat(lambda body: (times.append(time.monotonic()), beats.set()), dict, interval=0.01, least=0.2)
    assert bucket.rewrite == 1.0
    heartbeat.start()
    for _ in range(3):
        assert beats.wait(10)
        beats.clear()
        heartbeat.hurry()
    heartbeat.stop()
    heartbeat.join(10)
    assert all(later - earlier >= 0.19 for earlier, later in itertools.pairwise(times))
