"""Messages <-> events: the only place that knows what goes over a topic, and how Google's events carry it.

A deployed function gets CloudEvents from functions-framework, which reads all forms that there are: binary and
structured ones, and a push subscription's bare body. Of such a body it takes the topic from the request's path, so a
push endpoint ends in `/projects/PROJECT/topics/TOPIC`. Of a document's change only the path counts, and that is in the
event's attributes: its protobuf body is not even looked at, and may be of any version.
"""

import base64
import binascii
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

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

if TYPE_CHECKING:
    from cloudevents.http import CloudEvent

TOPICS: Mapping[str, type[Any]] = {
    "submissions": Submission,
    "commands": Command,
    "wakes": Wake,
    "worker-events": WorkerEvent,
    "preemptions": PreemptionNotice,
    "worker-ready": WorkerReady,
    "ticks": Tick,
    "notices": Notice,
}
_DOCUMENT = "google.cloud.firestore.document.v1."
_MESSAGE = "google.cloud.pubsub.topic.v1.messagePublished"


def to_event(topic: str, message_id: str, body: Mapping[str, Any]) -> Event:
    """The event that a message carries. Raises InputError on a body that is not of the topic's shape.

    A submission's own id counts, and the message's where it has none; a command's likewise.
    """
    if topic == "submissions":
        correlation = str(body.get("correlation_id") or "")
        return Submission(id=str(body.get("submission_id") or message_id), body=body, correlation_id=correlation)
    if topic == "commands":
        body = {**body, "id": body.get("id") or message_id}
    try:
        event: Event = msgspec.convert(body, TOPICS[topic], strict=False)
    except (KeyError, msgspec.ValidationError) as error:
        raise InputError(f"{topic}: message {message_id} is not readable: {error}") from None
    return event


def to_body(event: Event) -> dict[str, Any]:
    """The message body of an event."""
    if isinstance(event, Submission):
        return dict(event.body)
    body: dict[str, Any] = msgspec.to_builtins(event)
    return body


def from_cloud_event(event: "CloudEvent") -> Event:
    """What Firestore or Pub/Sub sent. Raises InputError on anything that cannot be read: it never will be."""
    type = str(event.get("type"))
    if type.startswith(_DOCUMENT):
        return written(str(event.get("document") or event.get("subject") or ""))
    if type == _MESSAGE:
        return _from_message(event)
    raise InputError(f"event type {type!r}: neither a document's change nor a message")


def written(path: str) -> Written:
    """The change of the document at a path: bare, behind `documents/`, or behind its database's whole name."""
    parts = path.strip("/").split("/")
    if parts[0] not in ("jobs", "slots") and "documents" in parts:
        parts = parts[parts.index("documents") + 1 :]
    match parts:
        case ["jobs", id] if id:
            return Written(kind="job", id=id)
        case ["jobs", id, "attempts", number] if id and number.isdecimal():
            return Written(kind="attempt", id=f"{id}.{number}")
        case ["slots", name] if name:
            return Written(kind="slot", id=name)
    raise InputError(f"document {path!r}: not one that wakes anybody")


def _from_message(event: "CloudEvent") -> Event:
    """`{"message": {"data": BASE64, "messageId": ...}}` on the topic that the event's source names."""
    id, topic = str(event.get("id")), _topic(str(event.get("source")))
    message = event.data.get("message") if isinstance(event.data, dict) else None
    if not isinstance(message, dict):
        raise InputError(f"{topic}: event {id} holds no message")
    id = str(message.get("messageId") or message.get("message_id") or id)
    try:
        data = base64.b64decode(str(message.get("data") or ""), validate=True)
        body = msgspec.json.decode(data, type=dict[str, Any])
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{topic}: message {id} is no JSON object: {error}") from None
    return to_event(topic, id, body)


def raw(event: "CloudEvent") -> tuple[str, bytes]:
    """(topic, data) of what could not be read: the message as it was sent, or the whole body where it is none."""
    data = event.data
    message = data.get("message") if isinstance(data, dict) else None
    if isinstance(message, dict):
        with suppress(InputError, binascii.Error, ValueError):
            return _topic(str(event.get("source"))), base64.b64decode(str(message.get("data") or ""), validate=True)
    return "", data if isinstance(data, bytes) else msgspec.json.encode(data)


def _topic(source: str) -> str:
    """`//pubsub.googleapis.com/projects/P/topics/tpufn-NAME-wakes` is `wakes`."""
    name = source.rpartition("/topics/")[2]
    for topic in TOPICS:
        if name == topic or name.endswith(f"-{topic}"):
            return topic
    raise InputError(f"a message from {source!r}: none of the topics {', '.join(TOPICS)}")
