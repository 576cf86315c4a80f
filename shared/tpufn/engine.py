"""The embedded engine: every function in one process, over the embedded store and bus.

A commit's documents wake functions as Firestore triggers would; messages come from the bus; ticks come from the clock.
All of these are hints: after a crash the first tick finds what is open. With one thread (the sandbox) events are
handled one after the other in the order in which they were caused, so that a run with a seed can be repeated.
"""

import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tpufn.adapters.local_bus import LocalBus, Mailbox, Message
from tpufn.adapters.lock import EngineLock
from tpufn.codec import reference
from tpufn.domain.errors import InputError, Stale
from tpufn.domain.events import Event, Tick, Written
from tpufn.domain.notes import Note
from tpufn.flows.registry import woken_by
from tpufn.ports import Clock, Commit
from tpufn.runner import Runner
from tpufn.wire import to_event

_TRIGGERS = ("job", "slot", "attempt")
_POLL = 0.01
"""Seconds between looks at the bus: what another process publishes is seen within this."""


class EmbeddedEngine:
    """Starts threads that handle events until it is stopped. Workers that have a mailbox drop their messages there.

    `advance` lets the simulated cloud move. When nothing is left to do, `pace` may move the clock, and says if it did.
    """

    def __init__(
        self,
        runner: Runner,
        bus: LocalBus,
        *,
        clock: Clock,
        lock: EngineLock,
        mailbox: Mailbox | None = None,
        log: Path,
        threads: int = 1,
        advance: Callable[[], None] = lambda: None,
        pace: Callable[[], bool] = lambda: False,
    ) -> None:
        self.runner, self.bus = runner, bus
        self._clock, self._lock, self._mailbox, self._log = clock, lock, mailbox, log
        self._advance, self._pace = advance, pace
        self._written: dict[Written, None] = {}  # in order, each once
        self._listeners: list[Callable[[Note], None]] = []
        self._wake = threading.Condition()
        self._stopping = False
        self._next_tick = 0.0
        self._next_full = 0.0
        self._threads = [threading.Thread(target=self._run, name=f"engine-{i}", daemon=True) for i in range(threads)]

    def start_on(self, prepare: Callable[[], None]) -> None:
        """Take the state, `prepare` it, and go. Raises Conflict when another engine has it."""
        self._lock.acquire()
        self.runner.take_over()
        prepare()
        if self._mailbox is not None:
            self._mailbox.open()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish the events in hand and stop. State, jobs and TPUs stay as they are."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        if self._mailbox is not None:
            self._mailbox.close()
        self._lock.release()

    def subscribe(self, listener: Callable[[Note], None]) -> None:
        self._listeners.append(listener)

    def on_commit(self, commit: Commit) -> None:
        """The store's trigger: remember what was written, tell the listeners."""
        with self._wake:
            for document in commit.writes:
                kind, id = reference(document)
                if kind in _TRIGGERS:
                    self._written[Written(kind=kind, id=id)] = None
            self._wake.notify()
        for note in commit.notes:
            for listener in self._listeners:
                listener(note)

    def deliver(self, topic: str, body: Any) -> None:
        """A worker's message."""
        self.bus.publish(topic, body)
        with self._wake:
            self._wake.notify()

    def _run(self) -> None:
        while not self._stopping:
            if not self.step():
                with self._wake:
                    if not self._written and not self.bus.has_hints and not self._stopping:
                        self._wake.wait(_POLL)

    def step(self) -> bool:
        """Handle one event. False when there was none and the time is the same."""
        self._advance()
        if (written := self._next_written()) is not None:
            self._handle(written)
        elif (message := self.bus.take()) is not None:
            self._receive(message)
        elif self._tick_is_due():
            self._handle(self._tick())
        else:
            return self._pace()
        return True

    def _next_written(self) -> Written | None:
        with self._wake:
            first = next(iter(self._written), None)
            if first is not None:
                del self._written[first]
            return first

    def _tick_is_due(self) -> bool:
        now = self._clock.now()
        with self._wake:
            if now < self._next_tick:
                return False
            self._next_tick = now + self.runner.policy.tick
            return True

    def _tick(self) -> Tick:
        """The first one, and one every so often, lists the cloud even when every slot is free."""
        now = self._clock.now()
        full = now >= self._next_full
        if full:
            self._next_full = now + self.runner.policy.idle_sweep
        return Tick(full=full)

    def _receive(self, message: Message) -> None:
        """One message: acknowledged when handled, buried when unreadable, redelivered when it failed."""
        try:
            event = to_event(message.topic, message.id, message.body)
        except InputError as error:
            self.bus.bury(message, str(error))
            return
        failure = self._handle(event)
        if failure:
            self.bus.failed(message, failure)
        else:
            self.bus.done(message)

    def _handle(self, event: Event) -> str:
        """Every function that the event wakes. Returns the last failure's text: a failing function never stops the
        others, and the next tick finds what it left."""
        failure = ""
        for function in woken_by(event):
            try:
                self.runner.handle(function, event)
            except Stale as error:
                failure = str(error)
            except Exception as error:  # recorded, and redelivered or found by the tick
                failure = f"{type(error).__name__}: {error}"
                self._record(f"{function.name} on {event}", traceback.format_exc().splitlines())
        return failure

    def _record(self, what: str, lines: Iterable[str]) -> None:
        with self._log.open("a") as log:
            log.write("\n".join([f"{self._clock.now():.3f} {what}", *lines, ""]))
