"""Time, for effects and engines: the only place of the core that reads the clock. Speed is not applied here."""

import threading
import time

EPOCH = 1_800_000_000.0
"""Where a virtual clock starts unless told otherwise: a plain moment, far from zero."""


class VirtualClock:
    """A clock that moves only when told. `sleep` advances it, so that a waiting loop costs nothing in a test."""

    def __init__(self, start: float = EPOCH) -> None:
        self._now = start
        self._lock = threading.Lock()

    def now(self) -> float:
        with self._lock:
            return self._now

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> float:
        """Move on by `seconds` and return the new time. Raises ValueError on a step back."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back: {seconds} s")
        with self._lock:
            self._now += seconds
            return self._now

    def advance_to(self, moment: float) -> float:
        """Move on to `moment` (Unix seconds); a moment in the past changes nothing."""
        with self._lock:
            self._now = max(self._now, moment)
            return self._now


class SkewedClock:
    """Another machine's clock: `ahead` seconds ahead of the true one."""

    def __init__(self, clock: VirtualClock, ahead: float) -> None:
        self._clock, self._ahead = clock, ahead

    def now(self) -> float:
        return self._clock.now() + self._ahead

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


class WallClock:
    """The machine's clock, in Unix seconds."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))
