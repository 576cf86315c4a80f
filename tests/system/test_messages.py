"""What other services send and hear, and what becomes of what nobody can read."""

import base64
import io
import json
import tarfile
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpufn import __version__
from tpufn.cloud_client import LARGEST
from tpufn.decide.submit import rejected_id
from tpufn.declare import apply_fleet, version_advice
from tpufn.domain.errors import Conflict, InputError
from tpufn.domain.job import JobState
from tpufn.domain.views import Receipt
from tpufn.spec.submission import digest, make_id

from .deployment import Deployment
from .events import Request, post, written

HERE = Path(__file__).parent


def publish(deployment: Deployment, topic: str, data: bytes) -> str:
    """As `gcloud pubsub topics publish` sends it. Returns the message's id."""
    url = f"http://{deployment.cloud.pubsub.host}/v1/{deployment.topic(topic)}:publish"
    body = json.dumps({"messages": [{"data": base64.b64encode(data).decode()}]}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, {"content-type": "application/json"})) as answer:
        return str(json.load(answer)["messageIds"][0])


def job(deployment: Deployment, **keys: Any) -> dict[str, Any]:
    buckets = {"us-east5": f"gs://{deployment.buckets['us-east5']}"}
    return {"tpu": "v6e-4", "command": "true", "buckets": buckets, **keys}


def put_archive(deployment: Deployment, key: str, files: dict[str, str]) -> str:
    """A bundle that somebody else made. Returns its address."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    bucket, query = deployment.buckets["us-east5"], urllib.parse.urlencode({"uploadType": "media", "name": key})
    url = f"{deployment.cloud.storage}/upload/storage/v1/b/{bucket}/o?{query}"
    with urllib.request.urlopen(urllib.request.Request(url, packed.getvalue(), method="POST")):
        return f"gs://{bucket}/{key}"


def test_a_plain_publish_runs_a_job_and_its_events_come_out(deployment: Deployment) -> None:
    """The documented JSON, a bundle in a bucket, no id of its own; the feed carries the submitter's own mark."""
    deployment.pulled("feed", seconds=0.3)
    bundle = {"uri": put_archive(deployment, "other/code.tar.gz", {"hello.txt": "hello from elsewhere\n"})}
    body = {"v": 1, "correlation_id": "ticket-7", "jobs": [job(deployment, bundle=bundle, command="cat hello.txt")]}
    id = make_id("", publish(deployment, "submissions", json.dumps(body).encode()), 0)
    deployment.until_ended(id)
    assert deployment.job(id).state is JobState.SUCCEEDED, deployment.describe()
    assert [piece.data for piece in deployment.client().logs(id)] == [b"hello from elsewhere\n"]
    told = [json.loads(data) for _, data in deployment.pulled("feed", seconds=1.5)]
    mine = {note["event"] for note in told if note["correlation_id"] == "ticket-7"}
    assert mine >= {"job.submitted", "attempt.assigned", "attempt.running", "job.succeeded", "attempt.closed"}
    assert len({note["id"] for note in told}) >= len(mine)


def test_the_same_submission_twice_is_one_job_and_another_body_a_conflict(deployment: Deployment) -> None:
    """The client chooses the id; what it says first counts."""
    client = deployment.client()
    body = {"v": 1, "submission_id": "twice", "jobs": [job(deployment, id="twice", tpu="v6e-64")]}
    for _ in range(3):
        publish(deployment, "submissions", json.dumps(body).encode())
    deployment.until(lambda: deployment.job("twice"))
    other = {**body, "jobs": [job(deployment, id="twice", tpu="v6e-64", command="false")]}
    publish(deployment, "submissions", json.dumps(other).encode())
    refused = rejected_id("twice", digest(other))
    deployment.until(lambda: deployment.job(refused))
    assert "twice is taken by another job" in deployment.job(refused).cause
    assert client.job("twice").spec.command == "true"
    assert [note.event for note in deployment.history("twice")].count("job.submitted") == 1
    with pytest.raises(Conflict, match="taken by another job"):
        client.wait_accepted(_receipt("twice", other))
    client.cancel(["twice"])


def _receipt(submission: str, body: dict[str, Any]) -> Receipt:
    return Receipt(submission=submission, digest=digest(body), jobs=(submission,))


def test_a_bad_submission_is_a_rejected_job(deployment: Deployment) -> None:
    """`tpufn jobs` shows it with the reason, and whoever waits for it hears it."""
    body = {"v": 1, "submission_id": "bad", "jobs": [job(deployment, tpu="v6e-5"), job(deployment, command="")]}
    publish(deployment, "submissions", json.dumps(body).encode())
    with pytest.raises(InputError, match="v6e-5"):
        deployment.client().wait_accepted(_receipt("bad", body))
    [rejected] = [j for j in deployment.client().jobs(states=["rejected"]) if j.submission == "bad"]
    assert "jobs[1].command" in rejected.cause


def test_a_large_submission_is_an_object_that_the_message_names(deployment: Deployment) -> None:
    """Above 200 KB: the message stays small, the job is whole."""
    path, bucket = deployment.home / "large.yaml", deployment.buckets["us-east5"]
    keys = f"tpu: v6e-64, buckets: ['gs://{bucket}'], command: 'true', env: {{DATA: {'x' * 120_000}}}"
    path.write_text("jobs:\n" + "".join(f"  - {{id: large-{n}, bundle: {HERE / 'job'}, {keys}}}\n" for n in (1, 2)))
    client = deployment.client()
    client.wait_accepted(client.submit(str(path)))
    assert [len(client.job(f"large-{n}").spec.env["DATA"]) for n in (1, 2)] == [120_000, 120_000]
    sent = [p.data for p in deployment.pushes.seen if p.topic == "submissions"]
    [message] = [json.loads(data) for data in sent if b'"specs"' in data]
    assert max(map(len, sent)) < LARGEST
    assert message["specs"].startswith(f"gs://{deployment.own_bucket}/submissions/")
    lost = {**message, "submission_id": "lost", "specs": "gs://no/thing"}
    publish(deployment, "submissions", json.dumps(lost).encode())
    with pytest.raises(InputError, match="there is no gs://no/thing"):
        client.wait_accepted(_receipt("lost", lost))
    publish(deployment, "commands", json.dumps({"verb": "cancel", "target": "large-1", "by": "a script"}).encode())
    client.cancel(["large-2"])
    deployment.until_ended("large-1", "large-2")
    assert deployment.job("large-1").cause == "cancelled by a script"


def test_what_cannot_be_read_is_kept_and_acknowledged(deployment: Deployment) -> None:
    """Not JSON, a document of no use, no event at all: each once in the dead letters, and once more when replayed."""
    deployment.pulled("dead-letters", seconds=0.3)
    before = len(deployment.pushes.seen)
    publish(deployment, "submissions", b"{not json")
    assert post(deployment.url("assign"), written(deployment, "strange/thing")) == 200
    unread = Request(
        headers={"ce-specversion": "1.0", "ce-id": "1", "ce-type": "other", "ce-source": "/x"}, body=b"\xff"
    )
    assert post(deployment.url("execute"), unread) == 200
    client = deployment.client()
    deployment.until(lambda: client.status().dead_letters >= 3)
    letters = {(each.function, each.topic): each for each in client.dead_letters()}
    assert set(letters) == {("submit", "submissions"), ("assign", ""), ("execute", "")}
    assert letters["submit", "submissions"].body == "{not json"
    assert len([p for p in deployment.pushes.seen[before:] if p.topic == "submissions"]) == 1
    [logged] = [line for line in deployment.logged("submit") if line["severity"] == "WARNING"]
    assert (logged["function"], "not readable" in logged["message"]) == ("submit", True)
    [answer] = client.replay([letters["submit", "submissions"].id]).values()
    assert answer == "sent again to submissions"
    deployment.until(lambda: [each.topic for each in client.dead_letters()].count("submissions") == 1)
    assert set(client.replay([]).values()) == {"sent again to submissions", "forgotten"}


def test_what_always_fails_goes_to_the_dead_letters(deployment: Deployment, failing: Callable[[str], None]) -> None:
    """Pub/Sub gives up after its tries; replayed when the fault is mended, it is handled."""
    deployment.pulled("dead-letters", seconds=0.3)
    failing("ticks")
    deployment.bus.publish("ticks", {"full": True})
    client = deployment.client()
    deployment.until(lambda: client.status().dead_letters >= 2)
    letters = client.dead_letters()
    assert {(each.function, each.topic) for each in letters} == {("autoscale", "ticks"), ("idle-teardown", "ticks")}
    assert "not handled in 5 deliveries" in letters[0].problem
    failing("")
    assert set(client.replay([]).values()) == {"sent again to ticks"}
    assert not client.dead_letters()


@pytest.fixture
def failing(deployment: Deployment) -> Callable[[str], None]:
    """Makes a topic's pushes fail. The ticks of the clock stand still meanwhile."""
    deployment.ticks.on = False

    def choose(topic: str) -> None:
        deployment.pushes.failing = topic

    return choose


def test_pause_and_resume(deployment: Deployment) -> None:
    """`status` says how the ticks stand; a paused deployment does not tick, and one that ticks on demand does once."""
    client = deployment.client()
    deployment.until(lambda: client.status().engine == "running")
    ran = deployment.tpufn("pause")
    assert (ran.returncode, "`tpufn resume`" in ran.stdout) == (0, True), ran.stderr
    assert client.status().engine == "paused"
    assert not deployment.ticks.on
    client.resume()
    assert deployment.ticks.on
    assert client.status().engine == "running"
    deployment.ticks.on = False
    before = len([p for p in deployment.pushes.seen if p.topic == "ticks"])
    client.tick()
    deployment.until(lambda: len([p for p in deployment.pushes.seen if p.topic == "ticks"]) >= before + 2)


def test_functions_say_their_version(deployment: Deployment) -> None:
    """The client says so where it is of another one; declaring the fleet again keeps what they said."""
    client = deployment.client()
    deployment.until(lambda: client.fleet().functions)
    assert client.fleet().functions == __version__
    assert client.advice() == ()
    assert version_advice("9.0.0", __version__)[0].endswith("`pip install tpufn==9.0.0` brings this command line up")
    assert apply_fleet(deployment.store, client.fleet()).functions == __version__


def test_logs_are_one_json_object_a_line(deployment: Deployment) -> None:
    """With severity, function and what the event was about."""
    for function in ("submit", "assign", "execute"):
        lines = deployment.logged(function)
        assert lines
        assert {line["function"] for line in lines} == {function}
        assert {line["severity"] for line in lines} <= {"INFO", "WARNING", "ERROR"}
    assert any(line.get("attempt") and line.get("job") for line in deployment.logged("execute"))
