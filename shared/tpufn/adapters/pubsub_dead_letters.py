"""The dead letters of a deployment: one pull subscription that keeps them for 31 days. See `ports.DeadLetters`.

Two kinds come in: what a function could not read, as it recorded it (`tpufn.entry`), and what Pub/Sub gave up after
too many tries, as it was, with the subscription in an attribute. Looking at messages means to lease them; they are
given back at once. No pull waits: one that is given up while it waits can take messages with it, for a whole lease.
"""

import base64
import binascii
import time
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from tpufn.adapters.google_access import mending
from tpufn.adapters.pubsub import PubSubBus, topic_id
from tpufn.domain.errors import CloudUnavailable
from tpufn.domain.views import DeadLetter

if TYPE_CHECKING:
    from google.cloud.pubsub_v1 import SubscriberClient  # type: ignore[import-untyped]  # it has no annotations

_GIVEN_UP = "CloudPubSubDeadLetterSourceSubscription"
_DELIVERIES = "CloudPubSubDeadLetterSourceDeliveryCount"
_PATIENCE, _PAUSE = 1.5, 0.2
"""Seconds without any message after which there is none, and between two looks."""
_PAGE = 100


class PubSubDeadLetters:
    """`topics`: the deployment's topics, of which a letter may be. `bus` publishes again."""

    def __init__(
        self, project: str, deployment: str, *, bus: PubSubBus, topics: Collection[str], patience: float = _PATIENCE
    ) -> None:
        self._project, self._deployment, self._patience = project, deployment, patience
        self._bus, self._topics = bus, topics

    def count(self) -> int:
        try:
            held = self._pull(_PAGE)
            self._give_back(held)
        except CloudUnavailable:
            return -1
        return len(held)

    def letters(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        held = list(self._held(limit))
        self._give_back(held)
        return sorted((self._letter(each)[0] for each in held), key=lambda letter: letter.at)

    def replay(self, ids: Collection[str]) -> Sequence[DeadLetter]:
        """All are taken before the first is sent: one that is still not readable comes back at once."""
        done, others = [], []
        for each in list(self._held(1000)):
            letter, data = self._letter(each)
            if ids and letter.id not in ids:
                others.append(each)
                continue
            if letter.topic:
                self._bus.send_again(letter.topic, data)
            self._forget(each)
            done.append(letter)
        self._give_back(others)
        return done

    def close(self) -> None:
        client = self.__dict__.pop("_client", None)
        if client is not None:
            client.close()

    @cached_property
    def _client(self) -> "SubscriberClient":
        from google.cloud.pubsub_v1 import SubscriberClient

        return SubscriberClient()

    @property
    def _subscription(self) -> str:
        return f"projects/{self._project}/subscriptions/{topic_id(self._deployment, 'dead-letters')}"

    def _held(self, limit: int) -> Iterator[Any]:
        """Messages, until none has come for a while: a single pull may find nothing though there is something."""
        found, until = 0, time.monotonic() + self._patience
        while found < limit and time.monotonic() < until:
            page = self._pull(min(_PAGE, limit - found))
            if not page:
                time.sleep(_PAUSE)
                continue
            yield from page
            found, until = found + len(page), time.monotonic() + self._patience

    def _pull(self, limit: int) -> list[Any]:
        request = {"subscription": self._subscription, "max_messages": limit, "return_immediately": True}
        with self._told(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of not waiting, which is just what is wanted
            return list(self._client.pull(request=request, timeout=10.0, retry=None).received_messages)

    def _give_back(self, held: Sequence[Any]) -> None:
        if held:
            ids = [each.ack_id for each in held]
            with self._told():
                self._client.modify_ack_deadline(
                    subscription=self._subscription, ack_ids=ids, ack_deadline_seconds=0, timeout=10.0
                )

    def _forget(self, held: Any) -> None:
        with self._told():
            self._client.acknowledge(subscription=self._subscription, ack_ids=[held.ack_id], timeout=10.0)

    def _letter(self, held: Any) -> tuple[DeadLetter, bytes]:
        """What is shown, and what was sent."""
        message, source = held.message, str(held.message.attributes.get(_GIVEN_UP, ""))
        at = message.publish_time.timestamp()
        if source:
            times = message.attributes.get(_DELIVERIES, "many")
            topic = self._topic(source)
            function = source.removeprefix(topic_id(self._deployment, "")).removesuffix(f"-{topic}")
            problem = f"not handled in {times} deliveries; the log of {function} says why"
            named = {"function": function, "topic": topic, "problem": problem}
            data: bytes = message.data
        else:
            named, data = _recorded(message.data)
        return DeadLetter(id=message.message_id, at=at, body=data.decode("utf-8", "replace"), **named), data

    def _topic(self, subscription: str) -> str:
        return next((topic for topic in self._topics if subscription.endswith(f"-{topic}")), "")

    @contextmanager
    def _told(self) -> Iterator[None]:
        from google.api_core.exceptions import GoogleAPIError, NotFound
        from google.auth.exceptions import GoogleAuthError

        where = f"subscription {topic_id(self._deployment, 'dead-letters')} of project {self._project}"
        try:
            yield
        except NotFound as error:
            raise CloudUnavailable(f"{where} does not exist; is this deployment installed? `tpufn deploy`") from error
        except (GoogleAPIError, GoogleAuthError) as error:
            hint = mending(error, role="roles/pubsub.subscriber", project=self._project)
            raise CloudUnavailable(f"{where}: {error}{'; ' if hint else ''}{hint}") from error


def _recorded(data: bytes) -> tuple[dict[str, str], bytes]:
    """What a function wrote of an event that it could not read; anything else is its own dead letter."""
    try:
        body = msgspec.json.decode(data, type=dict[str, Any])
        sent = base64.b64decode(str(body["data"]), validate=True)
        return {key: str(body[key]) for key in ("function", "topic", "problem")}, sent
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, binascii.Error):
        return {"topic": "", "problem": "published to the dead letters by hand"}, data
