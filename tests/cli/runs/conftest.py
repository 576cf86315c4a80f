"""An engine that plays a script of notes and output, on a thread of its own as the real one does."""

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tpufn.domain.notes import Note
from tpufn.domain.views import LogPiece

Step = Note | LogPiece | float | Callable[[], None]


class FakeEngine:
    """Plays a script on a thread: notes, output, pauses in seconds, and calls."""

    def __init__(
        self, client: Any, script: tuple[Step, ...], *, teardown: tuple[Note, ...] = (), provisioned: int = 0
    ) -> None:
        self.client, self.script, self.teardown, self.provisioned = client, script, teardown, provisioned
        self.client.more_logs = self._more_logs
        self.preempted: list[tuple[str, float]] = []
        self.simulation = SimpleNamespace(preempt=lambda tpu, *, notice: self.preempted.append((tpu, notice)))
        self.calls: list[str] = []
        self.opened: dict[str, Any] = {}
        self._listeners: list[Callable[[Note], None]] = []
        self._pieces: list[LogPiece | None] = []
        self._thread = threading.Thread(target=self._play, daemon=True)

    def subscribe(self, listener: Callable[[Note], None]) -> None:
        self._listeners.append(listener)

    def start(self) -> None:
        self.calls.append("start")
        self._thread.start()

    def stop(self) -> None:
        self.calls.append("stop")

    def drain(self, *, timeout: float = 60.0) -> int:
        self.calls.append("drain")
        for told in self.teardown:
            self.tell(told)
        return self.provisioned

    def tell(self, told: Note) -> None:
        for listener in self._listeners:
            listener(told)

    def _play(self) -> None:
        for step in self.script:
            if isinstance(step, Note):
                self.tell(step)
            elif isinstance(step, LogPiece):
                self._pieces.append(step)
            elif isinstance(step, float):
                time.sleep(step)
            else:
                step()
        self._pieces.append(None)

    def _more_logs(self) -> Iterator[LogPiece]:
        seen = 0
        while True:
            while seen == len(self._pieces):
                time.sleep(0.005)
            piece = self._pieces[seen]
            if piece is None:
                return
            seen += 1
            yield piece


def said(attempt: int, worker: int, text: str) -> LogPiece:
    return LogPiece(attempt=attempt, worker=worker, data=text.encode())


def demo_script(story: SimpleNamespace) -> tuple[Step, ...]:
    """The whole story of a demo, with the output of two workers."""
    first = (said(1, 0, "starting on v6e-16\n"), said(1, 2, "joined as worker 2\n"))
    step = (said(1, 0, "step=20/40 loss=0.43\ncheckpoint st"), said(1, 0, "ep=20\n"), 0.05)
    again = (said(2, 0, "resumed from checkpoint step=20\n"), said(2, 0, "step=40/40 loss=0.01\n"))
    return (*story.race, *story.first, *first, *step, *story.preempted, *story.second, *again, *story.done)


@pytest.fixture
def demo_engine(client: Any, doors: Any, story: SimpleNamespace) -> FakeEngine:
    """An engine that plays the demo's whole story."""
    doors.made = FakeEngine(client, demo_script(story), teardown=story.teardown)
    return doors.made


@pytest.fixture
def make_engine(client: Any) -> Callable[..., FakeEngine]:
    """An engine that plays the given steps."""
    return lambda *script, provisioned=0: FakeEngine(client, script, provisioned=provisioned)
