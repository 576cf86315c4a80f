"""The contract of the port `Bus`, for each of its implementations, with the delivery that its users build upon.

A `Post` is a bus with what is at its other end: one topic's messages, taken one at a time.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from google.api_core.exceptions import DeadlineExceeded
from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient

from tpufn.adapters.local_bus import LocalBus, Message
from tpufn.adapters.pubsub import PubSubBus, topic_id
from tpufn.domain.errors import CloudUnavailable, InputError
from tpufn.ports import Bus
from tpufn.simulation.clock import VirtualClock

from ..emulators import PubSubEmulator, free_port, fresh_name

TOPIC, OTHER = "submissions", "commands"
TRIES = 5
PATIENCE = 30.0


class Post(Protocol):
    """One implementation, ready to be tried."""

    @property
    def bus(self) -> Bus: ...
    def take(self) -> Any: ...
    def nothing(self) -> bool: ...
    def done(self, delivery: Any) -> None: ...
    def failed(self, delivery: Any) -> None: ...
    def dead(self) -> Sequence[object]: ...


class LocalPost:
    """The embedded bus. A virtual clock lets the pauses between tries pass."""

    def __init__(self, path: Path) -> None:
        self._clock = VirtualClock()
        self.bus = LocalBus(path / "bus.sqlite", self._clock)

    def take(self) -> Message:
        message = self.bus.take()
        assert message is not None
        return message

    def nothing(self) -> bool:
        self._clock.advance(3600)
        return self.bus.take() is None

    def done(self, delivery: Message) -> None:
        self.bus.done(delivery)

    def failed(self, delivery: Message) -> None:
        self.bus.failed(delivery, "no")
        self._clock.advance(60)

    def dead(self) -> Sequence[object]:
        return range(self.bus.count())


@dataclass(frozen=True)
class Pulled:
    """A message of Pub/Sub."""

    id: str
    body: Mapping[str, Any]
    ack: str


class PubSubPost:
    """Topics as they are deployed: a subscription that gives up after five tries, and a topic for what it gave up."""

    def __init__(self, emulator: PubSubEmulator) -> None:
        self.name = fresh_name()
        self.bus = PubSubBus(emulator.project, self.name)
        self._project, self._subscriber = emulator.project, SubscriberClient()
        with closing_publisher() as publisher:
            for topic in (TOPIC, OTHER, "dead-letters"):
                publisher.create_topic(name=self._topic(topic))
        self._subscribe("dead-letters")
        self._subscribe(TOPIC, dead_letter_policy=self._dead())

    def close(self) -> None:
        self.bus.close()
        self._subscriber.close()

    def _topic(self, topic: str) -> str:
        return f"projects/{self._project}/topics/{topic_id(self.name, topic)}"

    def _subscription(self, topic: str) -> str:
        return f"projects/{self._project}/subscriptions/{topic_id(self.name, topic)}"

    def _dead(self) -> dict[str, Any]:
        return {"dead_letter_topic": self._topic("dead-letters"), "max_delivery_attempts": TRIES}

    def _subscribe(self, topic: str, **how: Any) -> None:
        names = {"name": self._subscription(topic), "topic": self._topic(topic)}
        self._subscriber.create_subscription(request={**names, "ack_deadline_seconds": 60, **how})

    def take(self) -> Pulled:
        pulled = self._pull(TOPIC, PATIENCE)
        assert pulled is not None
        return pulled

    def nothing(self) -> bool:
        return self._pull(TOPIC, 0.3) is None

    def done(self, delivery: Pulled) -> None:
        self._subscriber.acknowledge(subscription=self._subscription(TOPIC), ack_ids=[delivery.ack])

    def failed(self, delivery: Pulled) -> None:
        self._subscriber.modify_ack_deadline(
            subscription=self._subscription(TOPIC), ack_ids=[delivery.ack], ack_deadline_seconds=0
        )

    def dead(self) -> Sequence[Pulled]:
        """The emulator moves a message when somebody asks its subscription again."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self.nothing()
            if pulled := self._pull("dead-letters", 0.3):
                return [pulled]
        return []

    def _pull(self, topic: str, patience: float) -> Pulled | None:
        """The next message within that many seconds. A pull may wait on the server, or come back with nothing."""
        deadline = time.monotonic() + patience
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(DeadlineExceeded):
                answer = self._subscriber.pull(
                    subscription=self._subscription(topic), max_messages=1, retry=None, timeout=left
                )
                for found in answer.received_messages:
                    message = found.message
                    return Pulled(id=message.message_id, body=msgspec.json.decode(message.data), ack=found.ack_id)
        return None


@contextlib.contextmanager
def closing_publisher() -> Iterator[PublisherClient]:
    publisher = PublisherClient()
    yield publisher
    publisher.stop()
    publisher.transport.close()


@pytest.fixture
def pubsub_post(pubsub_emulator: PubSubEmulator) -> Iterator[PubSubPost]:
    with closing(PubSubPost(pubsub_emulator)) as post:
        yield post


@pytest.fixture(params=["local", "pubsub"])
def post(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return LocalPost(tmp_path) if request.param == "local" else request.getfixturevalue("pubsub_post")


def test_a_message_arrives_as_it_was(post: Post) -> None:
    """With the id that the publisher was told: it may be what a submission is known by."""
    body = {"text": "ü\n", "number": 1.5, "nested": {"list": [1, None, True]}, "": ""}
    id = post.bus.publish(TOPIC, body)
    delivery = post.take()
    assert (delivery.id, delivery.body) == (id, body)
    post.done(delivery)


def test_an_empty_body_is_a_message(post: Post) -> None:
    """A tick says nothing but that it is time."""
    post.bus.publish(TOPIC, {})
    assert post.take().body == {}


def test_every_message_has_an_id_of_its_own(post: Post) -> None:
    """Two submissions of one body without an id are two."""
    ids = [post.bus.publish(TOPIC, {}) for _ in range(10)]
    assert len(set(ids)) == 10
    assert all(ids)


def test_all_of_many_arrive(post: Post) -> None:
    """A tick wakes whatever is overdue at once; none gets lost on the way."""
    post.bus.publish_all(TOPIC, ({"n": n} for n in range(50)))
    seen = set()
    while len(seen) < 50:
        delivery = post.take()
        seen.add(delivery.body["n"])
        post.done(delivery)
    assert seen == set(range(50))


def test_none_of_many_is_nothing(post: Post) -> None:
    """A tick that found nothing publishes nothing."""
    post.bus.publish_all(TOPIC, [])
    assert post.nothing()


def test_what_was_handled_does_not_come_again(post: Post) -> None:
    """At least once is not for ever."""
    post.bus.publish(TOPIC, {})
    post.done(post.take())
    assert post.nothing()


def test_what_failed_comes_again_with_its_id(post: Post) -> None:
    """A transient fault costs a redelivery, and the second one is known as the same."""
    id = post.bus.publish(TOPIC, {"n": 1})
    post.failed(post.take())
    again = post.take()
    assert (again.id, again.body) == (id, {"n": 1})
    post.done(again)
    assert post.nothing()


def test_after_five_tries_it_is_a_dead_letter(post: Post) -> None:
    """A message that nobody can handle must not go round for days."""
    post.bus.publish(TOPIC, {"bad": True})
    for _ in range(TRIES):
        post.failed(post.take())
    assert post.nothing()
    assert len(post.dead()) == 1


def test_a_dead_letter_does_not_hold_up_the_others(post: Post) -> None:
    """One bad submission, one good one."""
    post.bus.publish(TOPIC, {"bad": True})
    post.bus.publish(TOPIC, {"bad": False})
    tries = []
    while len(tries) < TRIES + 1:
        delivery = post.take()
        tries.append(delivery.body["bad"])
        (post.failed if delivery.body["bad"] else post.done)(delivery)
    assert sorted(tries) == [False] + [True] * TRIES


def test_publishing_from_many_threads(post: Post) -> None:
    """A function serves several events at once."""
    ids: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: ids.append(post.bus.publish(TOPIC, {"n": n})))  # type: ignore[misc]
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = set()
    while len(taken) < 16:
        delivery = post.take()
        taken.add(delivery.id)
        post.done(delivery)
    assert taken == set(ids)


def test_topics_are_apart(pubsub_post: PubSubPost) -> None:
    """Each has its own subscribers."""
    pubsub_post.bus.publish(OTHER, {})
    assert pubsub_post.nothing()


def test_deployments_are_apart(pubsub_post: PubSubPost, pubsub_emulator: PubSubEmulator) -> None:
    """Two of them in one project."""
    with closing(PubSubPost(pubsub_emulator)) as other:
        other.bus.publish(TOPIC, {})
        assert pubsub_post.nothing()


@pytest.mark.parametrize("call", [lambda b: b.publish("none", {}), lambda b: b.publish_all("none", [{}])])
def test_a_missing_topic_is_said(pubsub_post: PubSubPost, call: Callable[[Bus], object]) -> None:
    """With what mends it."""
    with pytest.raises(CloudUnavailable, match="deploy"):
        call(pubsub_post.bus)


def test_no_server_is_said_in_time(pubsub_emulator: PubSubEmulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own patience is ten minutes."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", f"127.0.0.1:{free_port()}")
    begin = time.monotonic()
    with closing(PubSubBus(pubsub_emulator.project, "lab", timeout=0.5)) as bus, pytest.raises(CloudUnavailable):
        bus.publish(TOPIC, {})
    assert time.monotonic() - begin < 8


def test_a_message_that_pubsub_cannot_carry(pubsub_post: PubSubPost) -> None:
    """About 10 MB. Submissions above 200 KB come as an object that the message names."""
    with pytest.raises(InputError, match="too large"):
        pubsub_post.bus.publish(TOPIC, {"x": "x" * 10_500_000})


def test_a_closed_bus_opens_again(pubsub_post: PubSubPost) -> None:
    """Closing lets go of the connection, no more."""
    pubsub_post.bus.close()
    pubsub_post.bus.publish(TOPIC, {"n": 1})
    assert pubsub_post.take().body == {"n": 1}


def test_a_command_waits_for_what_was_sent_before_it(tmp_path: Path) -> None:
    """It may be about a job whose submission another thread has in hand, or which has failed and comes again."""
    clock = VirtualClock()
    bus = LocalBus(tmp_path / "bus.sqlite", clock)
    for topic, body in (("submissions", {"n": 1}), ("commands", {"n": 2}), ("submissions", {"n": 3})):
        bus.publish(topic, body)
    assert [message.body["n"] for message in bus.waiting()] == [1, 2, 3]
    first = bus.take()
    assert first is not None
    assert first.body == {"n": 1}
    third = bus.take()
    assert third is not None
    assert third.body == {"n": 3}, "whatever else there is need not wait"
    assert bus.take() is None
    bus.failed(first, "not now")
    assert bus.take() is None
    clock.advance(2.0)
    again = bus.take()
    assert again is not None
    assert again.body == {"n": 1}
    bus.done(again)
    command = bus.take()
    assert command is not None
    assert command.body == {"n": 2}


def test_a_message_that_has_gone_meanwhile_cannot_fail(tmp_path: Path) -> None:
    """Somebody else was done with it: the thread that fails late goes on."""
    bus = LocalBus(tmp_path / "bus.sqlite", VirtualClock())
    bus.publish("submissions", {})
    message = bus.take()
    assert message is not None
    bus.done(message)
    bus.failed(message, "late")
    assert bus.waiting() == []
