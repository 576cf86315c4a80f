"""A job file from submit to the end, on an engine of our own: what `tpufn run` and `tpufn demo` do.

Everything that happens meets in one queue: the engine's notes and the lines of the workers' output, which one thread
per job reads. The main thread takes from it and tells the teller. The first Ctrl-C cancels the jobs and goes on to
the end; the second leaves at once.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tpufn.domain.errors import Conflict, InputError, TpufnError
from tpufn.domain.notes import Note
from tpufn_cli.doors import Abandoned
from tpufn_cli.flow.ending import Ending
from tpufn_cli.flow.output import OutputLine, lines
from tpufn_cli.flow.story import Story

if TYPE_CHECKING:
    from tpufn.client import Engine

T = TypeVar("T")
OUTPUT_GRACE = 5.0
"""Seconds for the last output to arrive after a job's end."""


class Teller(Protocol):
    """Shows what happens as it happens."""

    def note(self, note: Note) -> None: ...
    def output(self, line: OutputLine) -> None: ...
    def say(self, text: str) -> None:
        """A remark of the command line itself."""


class Run:
    """One run. `story` is what has happened so far; the teller reads it."""

    def __init__(self, engine: Engine, story: Story, tellers: Sequence[Teller]) -> None:
        self.engine, self.story = engine, story
        self._tellers = tellers
        self._inbox: SimpleQueue[Note | OutputLine | str] = SimpleQueue()
        self._interrupted = False

    def to_end(self, path: str) -> Ending:
        """Submit, follow, drain. Raises TpufnError if the file is refused; the engine is stopped in any case."""
        begun = time.monotonic()
        self.engine.subscribe(self._inbox.put)
        with running(self.engine):
            ids = self._submit(path)
            with self._interrupts(ids):
                self._follow(ids)
                provisioned = self._drain()
            views = tuple(self.engine.client.job(id) for id in ids)
        return self._ending(Ending(views=views, seconds=time.monotonic() - begun, provisioned=provisioned))

    def _submit(self, path: str) -> list[str]:
        client = self.engine.client
        receipt = client.submit(path, progress=self._take)
        jobs = client.wait_accepted(receipt)
        stuck = [f"{job.id}: {job.unschedulable}" for job in jobs if job.unschedulable]
        if stuck:  # nobody would change the deployment under a run of its own
            raise InputError([*stuck, "name a deployment that offers it with -d, or change `tpu` and `buckets`"])
        return [job.id for job in jobs]

    def _follow(self, ids: list[str]) -> None:
        streams = [_background(lambda id=id: self._stream(id)) for id in ids]  # type: ignore[misc]
        self._pump(lambda: self.story.ended(ids))
        deadline = time.monotonic() + OUTPUT_GRACE
        self._pump(lambda: time.monotonic() > deadline or all(stream.done() for stream in streams))

    def _drain(self) -> int:
        drained = _background(self.engine.drain)
        self._pump(drained.done)
        self._empty()
        return drained.result()

    def _ending(self, ending: Ending) -> Ending:
        meter = self.story.meter
        return replace(ending, chip_seconds=meter.chip_seconds, cost=meter.cost, interrupted=self._interrupted)

    def _pump(self, done: Callable[[], bool]) -> None:
        while not done():
            try:
                self._take(self._inbox.get(timeout=0.1))
            except Empty:
                continue

    def _empty(self) -> None:
        while not self._inbox.empty():
            self._take(self._inbox.get())

    def _take(self, item: Note | OutputLine | str) -> None:
        if isinstance(item, Note):
            self.story.add(item)
        for teller in self._tellers:
            match item:
                case Note():
                    teller.note(item)
                case OutputLine():
                    teller.output(item)
                case str():
                    teller.say(item)

    def _stream(self, id: str) -> None:
        try:
            for line in lines(id, self.engine.client.logs(id, follow=True)):
                self._inbox.put(line)
        except TpufnError as error:
            self._inbox.put(f"the output of {id} cannot be followed: {error}")

    @contextmanager
    def _interrupts(self, ids: list[str]) -> Iterator[None]:
        def interrupt(*_: Any) -> None:
            if self._interrupted:
                raise Abandoned
            self._interrupted = True
            self._inbox.put("stopping: cancels what still runs, releases the TPUs; Ctrl-C again leaves at once")
            _background(lambda: self._cancel(ids))

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _cancel(self, ids: list[str]) -> None:
        for id in ids:
            try:
                self.engine.client.cancel([id])
            except Conflict:
                continue  # it has ended
            except TpufnError as error:
                self._inbox.put(f"{id} cannot be cancelled: {error}")


@contextmanager
def running(engine: Engine) -> Iterator[None]:
    """The engine, started, and stopped at the end, unless somebody is in a hurry: its state is safe at any moment."""
    engine.start()
    try:
        yield
    except Abandoned:
        raise
    except BaseException:
        engine.stop()
        raise
    engine.stop()


def _background(work: Callable[[], T]) -> Future[T]:
    """`work` in a thread that nobody has to wait for."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    return future
