"""Messages <-> events: the only place that knows what goes over a topic."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tpufn.domain.errors import InputError
from tpufn.domain.events import Command, Event, PreemptionNotice, Submission, Wake, WorkerEvent, WorkerReady

TOPICS: Mapping[str, type[Any]] = {
    "submissions": Submission,
    "commands": Command,
    "wakes": Wake,
    "worker-events": WorkerEvent,
    "preemptions": PreemptionNotice,
    "worker-ready": WorkerReady,
}


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
