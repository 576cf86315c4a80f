"""A job file from submit to the end, on an engine of our own: what `tpufn run` and `tpufn demo` do.

Everything that happens meets in one queue: the engine's notes and the lines of the workers' output, which one thread
per job reads. The main thread takes from it and tells the teller. Whatever ends a run early (Ctrl-C, SIGTERM, a closed
terminal, a reader that went away, an error) cancels the jobs, and goes on until no TPU is held; a second signal leaves
at once.
"""

from __future__ import annotations

import errno
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
    from tpufn.domain.views import Receipt

T = TypeVar("T")
OUTPUT_GRACE = 5.0
"""Seconds for the last output to arrive after a job's end."""
ENDED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPING = "stopping: cancels what still runs, releases the TPUs; Ctrl-C again leaves at once"
NOBODY_READS = (errno.EPIPE, errno.EIO)
"""A pipe whose reader went away; a terminal that was closed."""


class Stopped(Exception):
    """A signal asked for the end."""


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
        self._receipt: Receipt | None = None
        self._signal = 0
        self._given_up = False

    def to_end(self, path: str) -> Ending:
        """Submit, follow, drain. Raises TpufnError if the file is refused; the engine is stopped in any case."""
        begun = time.monotonic()
        self.engine.subscribe(self._inbox.put)
        with self._signals(), running(self.engine):
            self._work(path)
            provisioned = self._drain()
            views = tuple(self.engine.client.job(id) for id in self._ids())
        return self._ending(Ending(views=views, seconds=time.monotonic() - begun, provisioned=provisioned))

    def _work(self, path: str) -> None:
        """Submit and follow; whatever ends that early, nothing is left running."""
        try:
            self._submit(path)
            self._follow()
        except Abandoned:
            raise
        except BaseException as error:
            asked = self._is_asked_for(error)
            self._give_up("" if isinstance(error, TpufnError) else STOPPING)
            if not asked:
                if self._ids():
                    self._drain()
                raise

    def _is_asked_for(self, error: BaseException) -> bool:
        """Whether somebody wanted the end: by a signal, or by reading no further."""
        if isinstance(error, OSError) and error.errno in NOBODY_READS:
            self._signal = self._signal or signal.SIGPIPE
            return True
        return isinstance(error, Stopped)

    def _submit(self, path: str) -> None:
        client = self.engine.client
        self._receipt = client.submit(path, progress=self._progress)
        jobs = client.wait_accepted(self._receipt)
        stuck = [f"{job.id}: {job.unschedulable}" for job in jobs if job.unschedulable]
        if stuck:  # nobody would change the deployment under a run of its own
            fix = "name a deployment that offers it with -d, or change `tpu` and `buckets`"
            others = "; the other jobs of the file are cancelled" if len(jobs) > len(stuck) else ""
            raise InputError([*stuck, f"{fix}{others}"])

    def _progress(self, note: Note) -> None:
        """Told while the file is read and its bundles are sent: until then nothing has to be taken back."""
        self._go_on()
        self._take(note)

    def _follow(self) -> None:
        ids = self._ids()
        streams = [_background(lambda id=id: self._stream(id)) for id in ids]  # type: ignore[misc]
        self._pump(lambda: self.story.ended(ids))
        deadline = time.monotonic() + OUTPUT_GRACE
        self._pump(lambda: time.monotonic() > deadline or all(stream.done() for stream in streams))

    def _give_up(self, remark: str) -> None:
        """Cancel what still runs and wait for its end; the drain then releases the TPUs."""
        self._given_up = True
        live = [id for id in self._ids() if not self.story.ended([id])]
        if remark and live:
            self._inbox.put(remark)
        for id in live:
            self._cancel(id)
        self._pump(lambda: self.story.ended(live))

    def _cancel(self, id: str) -> None:
        try:
            self.engine.client.cancel([id])
        except Conflict:
            return  # it has ended
        except TpufnError as error:
            self._inbox.put(f"{id} cannot be cancelled: {error}")

    def _ids(self) -> list[str]:
        """Our jobs, as far as they exist: what has been sent when the end comes is waited for."""
        if self._receipt is None:
            return []
        try:
            return [job.id for job in self.engine.client.wait_accepted(self._receipt)]
        except TpufnError:
            return []

    def _drain(self) -> int:
        self._given_up = True
        drained = _background(self.engine.drain)
        self._pump(drained.done)
        self._empty()
        return drained.result()

    def _ending(self, ending: Ending) -> Ending:
        meter = self.story.meter
        return replace(ending, chip_seconds=meter.chip_seconds, cost=meter.cost, signal=self._signal)

    def _pump(self, done: Callable[[], bool]) -> None:
        while not done():
            self._go_on()
            try:
                self._take(self._inbox.get(timeout=0.1))
            except Empty:
                continue

    def _go_on(self) -> None:
        if self._signal and not self._given_up:
            raise Stopped

    def _empty(self) -> None:
        while not self._inbox.empty():
            self._take(self._inbox.get())

    def _take(self, item: Note | OutputLine | str) -> None:
        if isinstance(item, Note):
            self.story.add(item)
        for teller in self._tellers:
            try:
                _tell(teller, item)
            except OSError:
                if not self._given_up:  # else the others and the clean end go first
                    raise

    def _stream(self, id: str) -> None:
        try:
            for line in lines(id, self.engine.client.logs(id, follow=True)):
                self._inbox.put(line)
        except TpufnError as error:
            self._inbox.put(f"the output of {id} cannot be followed: {error}")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, _: Any) -> None:
            if self._signal:
                raise Abandoned
            self._signal = number

        before = {number: signal.signal(number, stop) for number in ENDED_BY}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _tell(teller: Teller, item: Note | OutputLine | str) -> None:
    match item:
        case Note():
            teller.note(item)
        case OutputLine():
            teller.output(item)
        case str():
            teller.say(item)


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
