"""The engine in the foreground until somebody stops it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from tpufn.domain.job import TERMINAL
from tpufn.domain.notes import Note
from tpufn.domain.slot import SlotState
from tpufn.domain.views import Status
from tpufn_cli.doors import Abandoned
from tpufn_cli.flow.run import ENDED_BY, NOBODY_READS, Teller, running
from tpufn_cli.render import words

if TYPE_CHECKING:
    from tpufn.client import Engine

_HOLDS_NOTHING = frozenset({SlotState.FREE, SlotState.RETIRED})


def serve(engine: Engine, tell: Teller, *, again: str) -> int:
    """Tell every note until a signal asks for the end, or nobody reads any more; then stop, and say what is left.
    `again` is the command that goes on."""
    notes: SimpleQueue[Note] = SimpleQueue()
    engine.subscribe(notes.put)
    code = 0
    with _until_stopped() as stopped, running(engine):
        tell.say("the engine runs; Ctrl-C stops it and leaves its jobs and TPUs as they are")
        try:
            while not stopped:
                _tell_next(notes, tell)
        except OSError as error:
            if error.errno not in NOBODY_READS:
                raise
            code = 128 + signal.SIGPIPE
        left = engine.client.status()
    while not (code or notes.empty()):
        tell.note(notes.get())
    with suppress(OSError) if code else nullcontext():
        tell.say(farewell(left, again=again))
    return code


def farewell(status: Status, *, again: str) -> str:
    """What is left behind, and how to go on."""
    jobs = sum(number for state, number in status.jobs.items() if state not in TERMINAL)
    tpus = sum(number for state, number in status.slots.items() if state not in _HOLDS_NOTHING)
    return (
        f"stopped; {words.count(jobs, 'job')} unfinished, {words.count(tpus, 'TPU')} requested or held"
        f" ({words.money(status.cost_per_hour)}/h); `{again}` goes on from here"
    )


def _tell_next(notes: SimpleQueue[Note], tell: Teller) -> None:
    try:
        tell.note(notes.get(timeout=0.2))
    except Empty:
        return


@contextmanager
def _until_stopped() -> Iterator[list[int]]:
    """A list that a signal makes non-empty; the second signal leaves at once."""
    caught: list[int] = []

    def stop(number: int, _: Any) -> None:
        if caught:
            raise Abandoned
        caught.append(number)

    before = {number: signal.signal(number, stop) for number in ENDED_BY}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
