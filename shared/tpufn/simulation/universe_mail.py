"""Everything that is on its way to a function: messages and document triggers, delivered one at a time.

Hints (triggers, wakes, workers' messages) may get lost, doubled, late or out of order, as the weather says. What people
send is durable: it comes at least once, and again until it is acknowledged.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from tpufn.domain.events import Event
from tpufn.ports import Clock
from tpufn.wire import to_event

DURABLE = frozenset({"submissions", "commands"})
TRIGGER = "trigger"
"""The topic of document triggers."""


@dataclass(frozen=True, kw_only=True)
class Weather:
    """The shares (0 to 1) of deliveries to which something happens."""

    drop: float = 0.0  # of hints
    double: float = 0.0
    late: float = 0.0
    lateness: float = 600.0  # at most (seconds)
    shuffle: bool = False  # among what is due, any may come first
    skip_tick: float = 0.0
    double_tick: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Letter:
    """One event on its way. Times are Unix seconds."""

    at: float
    topic: str
    event: Event
    tries: int = 0

    @property
    def is_durable(self) -> bool:
        return self.topic in DURABLE


class Mail:
    """Implements the port `Bus`. Equal times are delivered in the order of posting, or shuffled."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self.weather = Weather()
        self.hints = True  # False: triggers and workers' messages are all lost; the ticks' own wakes are not
        self._clock, self._rng = clock, rng
        self._letters: list[tuple[float, float, int, Letter]] = []
        self._posted = 0

    def publish(self, topic: str, body: Mapping[str, Any]) -> str:
        id = f"message-{self._posted}"
        self.post(topic, to_event(topic, id, body)) if topic != "notices" else None
        return id

    def publish_all(self, topic: str, bodies: Iterable[Mapping[str, Any]]) -> None:
        for body in bodies:
            self.publish(topic, body)

    def post(self, topic: str, event: Event) -> None:
        """Send an event on its way, in this weather."""
        weather, durable = self.weather, topic in DURABLE
        if not durable and (self._chance(weather.drop) or not (self.hints or topic == "wakes")):
            return
        for _ in range(2 if self._chance(weather.double) else 1):
            late = self._rng.uniform(0.0, weather.lateness) if self._chance(weather.late) else 0.0
            self._put(Letter(at=self._clock.now() + late, topic=topic, event=event))

    def again(self, letter: Letter) -> None:
        """A durable letter that was not acknowledged, after a growing pause."""
        if letter.is_durable:
            pause = min(2.0**letter.tries, 600.0)
            later = self._clock.now() + pause
            self._put(Letter(at=later, topic=letter.topic, event=letter.event, tries=letter.tries + 1))

    def take(self) -> Letter | None:
        """The next letter that is due."""
        if not self._letters or self._letters[0][0] > self._clock.now():
            return None
        return heapq.heappop(self._letters)[3]

    def next_at(self) -> float | None:
        return self._letters[0][0] if self._letters else None

    def lose_hints(self) -> None:
        """What was only in memory is gone."""
        self._letters = [entry for entry in self._letters if entry[3].is_durable]
        heapq.heapify(self._letters)

    @property
    def durable(self) -> int:
        """How many letters of people are still on their way."""
        return sum(entry[3].is_durable for entry in self._letters)

    def _put(self, letter: Letter) -> None:
        order = self._rng.random() if self.weather.shuffle else 0.0
        self._posted += 1
        heapq.heappush(self._letters, (letter.at, order, self._posted, letter))

    def _chance(self, share: float) -> bool:
        return share > 0.0 and self._rng.random() < share
