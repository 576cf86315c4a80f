"""The clock of a sandbox with a seed: it moves in steps, and stands still while the outcome of real work decides.

Simulated capacity is exact, local processes are not: how long a launch takes depends on the machine. So that the same
seed gives the same sequence of events, time moves on a grid, a step only when everything that is known has been
handled, and not at all while workers are being launched or stopped. A wait that is too long ends it: then time goes on,
and the sequence may differ.
"""

import threading
import time

PATIENCE = 10.0
"""Seconds for which time stands still at most."""


class PacedClock:
    """Unix seconds on a grid of `step`, from the start of the process on. Somebody must call `advance`."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._lock = threading.Lock()
        self._now = time.time() // step * step
        self._last = time.monotonic()
        self._held_since: float | None = None

    def now(self) -> float:
        return self._now

    def advance(self) -> bool:
        """Move one step, if one is due: none is skipped, and what a slow machine is behind is caught up with."""
        with self._lock:
            moment = time.monotonic()
            if self._held_since is not None and moment - self._held_since < PATIENCE:
                self._last = moment
            due = moment - self._last >= self._step
            if due:
                self._now += self._step
                self._last += self._step
            return due

    def hold(self, held: bool) -> None:
        """Stand still, or go on."""
        with self._lock:
            if held and self._held_since is None:
                self._held_since = time.monotonic()
            elif not held:
                self._held_since = None

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Holder:
    """Holds the clock while any attempt is being launched or stopped; told of every state that is committed."""

    def __init__(self, clock: PacedClock) -> None:
        self._clock = clock
        self._moving: set[str] = set()

    def saw(self, attempt: str, state: str) -> None:
        if state in ("assigned", "launching", "stopping"):
            self._moving.add(attempt)
        else:
            self._moving.discard(attempt)
        self._clock.hold(bool(self._moving))
