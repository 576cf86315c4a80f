"""How events are read: what production sends, through functions-framework as it is deployed, and what nobody should."""

import base64
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cloudevents.http import CloudEvent
from google.cloud.firestore_v1 import types
from hypothesis import given
from hypothesis import strategies as st

from tpufn.domain.errors import InputError
from tpufn.domain.events import (
    Command,
    Event,
    Notice,
    PreemptionNotice,
    Submission,
    Tick,
    Wake,
    WorkerEvent,
    WorkerReady,
    Written,
)
from tpufn.wire import TOPICS, from_cloud_event, to_body, written

TOPIC = "projects/p/topics/tpufn-my-lab-wakes"
DATABASE = "projects/p/databases/tpufn-my-lab"
MESSAGE = {"messageId": "17", "message_id": "17", "publishTime": "2026-01-01T00:00:00Z", "attributes": {"a": "b"}}


def coded(body: Any) -> str:
    return base64.b64encode(json.dumps(body).encode()).decode()


def pushed(body: Any) -> dict[str, Any]:
    return {"subscription": "projects/p/subscriptions/s", "message": {**MESSAGE, "data": coded(body)}}


def message_event(data: Any, *, topic: str = TOPIC, **attributes: str) -> CloudEvent:
    source = f"//pubsub.googleapis.com/{topic}"
    type = "google.cloud.pubsub.topic.v1.messagePublished"
    return CloudEvent({"id": "e-1", "type": type, "source": source, **attributes}, data)


def document_event(**attributes: str) -> CloudEvent:
    type = "google.cloud.firestore.document.v1.written"
    return CloudEvent(
        {"id": "e-1", "type": type, "source": f"//firestore.googleapis.com/{DATABASE}", **attributes}, b""
    )


# Documents


@pytest.mark.parametrize(
    ("path", "event"),
    [
        ("jobs/a", Written(kind="job", id="a")),
        ("jobs/a/attempts/12", Written(kind="attempt", id="a.12")),
        ("slots/spot-v6e16-ue1d-1", Written(kind="slot", id="spot-v6e16-ue1d-1")),
        ("documents/jobs/a", Written(kind="job", id="a")),
        (f"{DATABASE}/documents/jobs/a/attempts/1", Written(kind="attempt", id="a.1")),
        (f"//firestore.googleapis.com/{DATABASE}/documents/slots/s", Written(kind="slot", id="s")),
        ("documents/jobs/documents", Written(kind="job", id="documents")),
        ("jobs/documents", Written(kind="job", id="documents")),
    ],
)
def test_the_path_of_a_document_says_all(path: str, event: Event) -> None:
    """Bare as in the event's attribute, or as in its subject, or whole."""
    assert written(path) == event
    assert from_cloud_event(document_event(document=path)) == event
    assert from_cloud_event(document_event(subject=path)) == event


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "jobs", "jobs/", "jobs/a/attempts", "jobs/a/attempts/x", "jobs/a/history/n", "slots/s/history/n"),
        *("specs/a", "documents", "documents/", "documents/outbox/x", "jobs/a/attempts/1/more/2", "jobs//attempts/1"),
    ],
)
def test_other_documents_wake_nobody(path: str) -> None:
    """A trigger on them is a mistake; delivering the event again cannot help."""
    with pytest.raises(InputError, match="document"):
        written(path)


@pytest.mark.parametrize("what", ["created", "updated", "deleted", "written", "written.withAuthContext"])
def test_every_kind_of_change_is_a_hint(what: str) -> None:
    """What became of the document is read from the store."""
    event = document_event(document="jobs/a", type=f"google.cloud.firestore.document.v1.{what}")
    assert from_cloud_event(event) == Written(kind="job", id="a")


# Messages

BODIES: Mapping[str, tuple[dict[str, Any], Event]] = {
    "submissions": (
        {"submission_id": "x", "jobs": [{}], "correlation_id": "c"},
        Submission(id="x", body={"submission_id": "x", "jobs": [{}], "correlation_id": "c"}, correlation_id="c"),
    ),
    "commands": ({"verb": "cancel", "target": "a"}, Command(verb="cancel", target="a", id="17")),
    "wakes": ({"entity": "slot:s"}, Wake(entity="slot:s")),
    "worker-events": (
        {"attempt": "a.1", "worker": 2, "what": "exited"},
        WorkerEvent(attempt="a.1", worker=2, what="exited"),
    ),
    "preemptions": ({"slot": "s", "generation": 3}, PreemptionNotice(slot="s", generation=3)),
    "worker-ready": ({"slot": "s", "generation": 3, "new": 1}, WorkerReady(slot="s", generation=3)),
    "ticks": ({"full": True}, Tick(full=True)),
    "notices": (
        {"event": "job.succeeded", "subject": "job:a", "job": "a", "correlation_id": "c", "data": {"n": 1}},
        Notice(event="job.succeeded", subject="job:a", job="a", correlation_id="c", data={"n": 1}),
    ),
}


def test_every_topic_is_tried() -> None:
    """The table is whole."""
    assert BODIES.keys() == TOPICS.keys()


@pytest.mark.parametrize("topic", TOPICS)
def test_a_message_is_read_by_its_topic(topic: str) -> None:
    """Whatever the deployment is called, also after a topic."""
    body, expected = BODIES[topic]
    for name in ("lab", "my-wakes", "a-worker-events-b"):
        event = message_event(pushed(body), topic=f"projects/p/topics/tpufn-{name}-{topic}")
        assert from_cloud_event(event) == expected


@pytest.mark.parametrize("topic", TOPICS)
def test_what_we_publish_we_can_read(topic: str) -> None:
    """Both directions are of one shape."""
    expected = BODIES[topic][1]
    event = message_event(pushed(to_body(expected)), topic=f"projects/p/topics/tpufn-lab-{topic}")
    assert from_cloud_event(event) == expected


GARBAGE: list[Any] = [
    None,
    b"\xff\x00",
    "text",
    [],
    {},
    {"message": None},
    {"message": "text"},
    {"message": {}},
    {"message": {"data": None}},
    {"message": {"data": ""}},
    {"message": {"data": "%%%"}},
    {"message": {"data": 7}},
    {"message": {"data": base64.b64encode(b"\xff\xfe").decode()}},
    {"message": {"data": base64.b64encode(b'{"entity": "\xff"}').decode()}},
    pushed("text"),
    pushed([1]),
    pushed(None),
    pushed({}),
    pushed({"entity": {"no": "text"}}),
]


@pytest.mark.parametrize("data", GARBAGE, ids=repr)
def test_a_message_that_cannot_be_read(data: Any) -> None:
    """InputError and nothing else: it is kept as a dead letter and acknowledged."""
    with pytest.raises(InputError):
        from_cloud_event(message_event(data))


@pytest.mark.parametrize(
    "event",
    [
        message_event(pushed({"entity": "x"}), topic="projects/p/topics/other"),
        message_event(pushed({"entity": "x"}), source="//pubsub.googleapis.com/"),
        message_event(pushed({"entity": "x"}), type="google.cloud.storage.object.v1.finalized"),
        document_event(),
        document_event(document="", subject=""),
        document_event(type="google.cloud.datastore.entity.v1.written", document="jobs/a"),
    ],
)
def test_an_event_that_is_not_ours(event: CloudEvent) -> None:
    """A trigger that is wired to the wrong function."""
    with pytest.raises(InputError):
        from_cloud_event(event)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
)


@given(topic=st.sampled_from(sorted(TOPICS)), body=_JSON)
def test_any_json_is_an_event_or_wrong_input(topic: str, body: Any) -> None:
    """No message of another service can make a function fail for ever."""
    with suppress(InputError):
        from_cloud_event(message_event(pushed(body), topic=f"projects/p/topics/tpufn-lab-{topic}"))


# Through the framework

_DOOR = """
import functions_framework
from tpufn.domain.errors import InputError
from tpufn.wire import from_cloud_event

SEEN = []

@functions_framework.cloud_event
def door(event):
    try:
        SEEN.append(from_cloud_event(event))
    except InputError as error:
        SEEN.append(error)
"""

Call = Callable[[str, bytes, Mapping[str, str]], tuple[int, list[Any]]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """POST to a function. The status, and what it has read."""
    import functions_framework

    for name in ("FUNCTION_TARGET", "FUNCTION_SOURCE", "FUNCTION_SIGNATURE_TYPE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    source = tmp_path / "wire_door.py"
    source.write_text(_DOOR)
    client = functions_framework.create_app("door", str(source)).test_client()

    def post(path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, list[Any]]:
        status = client.post(path, data=body, headers=dict(headers)).status_code
        return status, sys.modules["wire_door"].SEEN

    yield post
    del sys.modules["wire_door"]


FIRESTORE_HEADERS = {
    "ce-specversion": "1.0",
    "ce-id": "e-1",
    "ce-type": "google.cloud.firestore.document.v1.written",
    "ce-source": f"//firestore.googleapis.com/{DATABASE}",
    "ce-subject": "documents/jobs/a/attempts/3",
    "ce-time": "2026-01-01T00:00:00.000000Z",
    "ce-dataschema": "https://github.com/googleapis/google-cloudevents/blob/main/proto/google/events/cloud/firestore/v1/data.proto",
    "ce-datacontenttype": "application/protobuf",
    "ce-project": "p",
    "ce-database": "tpufn-my-lab",
    "ce-namespace": "(default)",
    "ce-document": "jobs/a/attempts/3",
    "ce-location": "us-central1",
    "content-type": "application/protobuf",
}


def document_data() -> bytes:
    """`DocumentEventData{value = 1, old_value = 2}`, put together by hand: its schema is in no library of ours."""
    name = f"{DATABASE}/documents/jobs/a/attempts/3"
    value = types.Document.serialize(types.Document(name=name, fields={"body": types.Value(string_value="{}")}))
    return b"".join(bytes([number << 3 | 2, len(value) & 0x7F | 0x80, len(value) >> 7]) + value for number in (1, 2))


@pytest.mark.parametrize("body", [document_data(), b"", b"\xff garbage"])
def test_a_documents_change_in_binary_mode(call: Call, body: bytes) -> None:
    """As Eventarc sends it. Its body, good or bad, is not looked at."""
    assert call("/", body, FIRESTORE_HEADERS) == (200, [Written(kind="attempt", id="a.3")])


def test_a_documents_change_in_structured_mode(call: Call) -> None:
    """The other form of the same."""
    attributes = {key[3:]: value for key, value in FIRESTORE_HEADERS.items() if key.startswith("ce-")}
    body = {**attributes, "data_base64": base64.b64encode(document_data()).decode()}
    headers = {"content-type": "application/cloudevents+json"}
    assert call("/", json.dumps(body).encode(), headers) == (200, [Written(kind="attempt", id="a.3")])


MESSAGE_ATTRIBUTES = {
    "specversion": "1.0",
    "id": "e-1",
    "type": "google.cloud.pubsub.topic.v1.messagePublished",
    "source": f"//pubsub.googleapis.com/{TOPIC}",
    "time": "2026-01-01T00:00:00Z",
}
JSON = {"content-type": "application/json"}


def message_forms(data: Any) -> dict[str, tuple[str, bytes, dict[str, str]]]:
    body = json.dumps(data).encode()
    binary = {f"ce-{key}": value for key, value in MESSAGE_ATTRIBUTES.items()}
    structured = json.dumps({**MESSAGE_ATTRIBUTES, "datacontenttype": "application/json", "data": data}).encode()
    return {
        "binary": ("/", body, {**binary, **JSON}),
        "structured": ("/", structured, {"content-type": "application/cloudevents+json"}),
        "push": (f"/{TOPIC}", body, JSON),
        "push with a query": (f"/{TOPIC}?__GCP_CloudEventsMode=CUSTOM_PUBSUB_{TOPIC.replace('/', '%2F')}", body, JSON),
    }


@pytest.mark.parametrize("form", message_forms({}))
def test_a_message_in_all_forms(call: Call, form: str) -> None:
    """Eventarc's and a push subscription's."""
    assert call(*message_forms(pushed({"entity": "slot:s"}))[form]) == (200, [Wake(entity="slot:s")])


@pytest.mark.parametrize("form", message_forms({}))
def test_a_commands_id_is_its_messages_in_all_forms(call: Call, form: str) -> None:
    """It is what makes a second delivery known as the same."""
    path, body, headers = message_forms(pushed({"verb": "hold", "target": "s"}))[form]
    path, body = path.replace("wakes", "commands"), body.replace(b"wakes", b"commands")
    headers = {key: value.replace("wakes", "commands") for key, value in headers.items()}
    assert call(path, body, headers) == (200, [Command(verb="hold", target="s", id="17")])


@pytest.mark.parametrize("form", message_forms({}))
def test_garbage_in_all_forms_is_acknowledged(call: Call, form: str) -> None:
    """Once it has come to us it is never delivered again."""
    status, [error] = call(*message_forms({"subscription": "s", "message": {**MESSAGE, "data": "bm8="}})[form])
    assert (status, type(error)) == (200, InputError)
