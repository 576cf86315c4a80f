"""The cloud's bus: one Pub/Sub topic `tpufn-<name>-<topic>` per topic. See `ports.Bus` for the contract.

Nobody waits for others to publish with: a message goes out at once (3.5 ms instead of 18 for the first one). Publishing
ends within `TIMEOUT`, because a function's CPU is taken away when it has answered.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from tpufn.domain.errors import CloudUnavailable, InputError

if TYPE_CHECKING:
    from google.cloud.pubsub_v1 import PublisherClient  # type: ignore[import-untyped]  # it has no annotations

TIMEOUT = 10.0
"""Seconds until a publish has succeeded or failed, with its retries: they are safe, as delivery is at least once."""


def topic_id(deployment: str, topic: str) -> str:
    return f"tpufn-{deployment}-{topic}"


class PubSubBus:
    """`project` and the deployment's name choose the topics. The client is made at the first message."""

    def __init__(self, project: str, deployment: str, *, credentials: Any = None, timeout: float = TIMEOUT) -> None:
        self._project, self._deployment = project, deployment
        self._credentials, self._timeout = credentials, timeout

    def publish(self, topic: str, body: Mapping[str, Any]) -> str:
        return self._confirm(topic, [self._send(topic, body)])[0]

    def publish_all(self, topic: str, bodies: Iterable[Mapping[str, Any]]) -> None:
        """All are under way together; every one is durable on return."""
        self._confirm(topic, [self._send(topic, body) for body in bodies])

    def close(self) -> None:
        """Let go of the connection. The next message makes another."""
        client = self.__dict__.pop("_client", None)
        if client is not None:
            client.stop()
            client.transport.close()

    @cached_property
    def _client(self) -> "PublisherClient":
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.pubsub_v1 import PublisherClient, types

        given = {"credentials": self._credentials} if self._credentials else {}
        try:
            return PublisherClient(batch_settings=types.BatchSettings(max_latency=0), **given)
        except GoogleAuthError as error:
            raise CloudUnavailable(f"Pub/Sub: {error}; log in with: gcloud auth application-default login") from error

    def send_again(self, topic: str, data: bytes) -> None:
        """A message as it was, whether it can be read or not."""
        path = self._client.topic_path(self._project, topic_id(self._deployment, topic))
        self._confirm(topic, [self._client.publish(path, data, timeout=self._timeout / 2)])

    def _send(self, topic: str, body: Mapping[str, Any]) -> "Future[str]":
        """A wake says in an attribute what kind of entity it is about: subscriptions filter by it."""
        from google.api_core.retry import Retry
        from google.cloud.pubsub_v1.publisher.exceptions import MessageTooLargeError  # type: ignore[import-untyped]

        path = self._client.topic_path(self._project, topic_id(self._deployment, topic))
        try:
            again = Retry(initial=0.1, timeout=self._timeout)
            data = msgspec.json.encode(body)
            kind = {"kind": str(body.get("entity", "")).partition(":")[0]} if topic == "wakes" else {}
            sent: Future[str] = self._client.publish(path, data, retry=again, timeout=self._timeout / 2, **kind)
        except MessageTooLargeError as error:
            raise InputError(f"a message on {topic} is too large for Pub/Sub: {error}") from error
        return sent

    def _confirm(self, topic: str, sent: list["Future[str]"]) -> list[str]:
        """The messages' ids, once all of them are durable."""
        from google.api_core.exceptions import GoogleAPIError, NotFound

        from tpufn.adapters.google_access import mending

        where = f"topic {topic_id(self._deployment, topic)} of project {self._project}"
        try:
            return [message.result(timeout=self._timeout) for message in sent]
        except TimeoutError as error:
            raise CloudUnavailable(f"{where}: no answer within {self._timeout:.0f} s") from error
        except NotFound as error:
            raise CloudUnavailable(f"{where} does not exist; is this deployment installed? `tpufn deploy`") from error
        except GoogleAPIError as error:
            hint = mending(error, role="roles/pubsub.publisher", project=self._project)
            raise CloudUnavailable(f"{where}: {error}{'; ' if hint else ''}{hint}") from error
