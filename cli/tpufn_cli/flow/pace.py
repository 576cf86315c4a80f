"""The notes' clock between notes. Notes carry the store's time, which a sandbox may compress or a cloud may skew."""

import time


class Pace:
    """The time of the last note, and from there on our own seconds."""

    def __init__(self) -> None:
        self.start = 0.0
        self._at = 0.0
        self._marked = time.monotonic()

    def mark(self, at: float) -> None:
        """A note of the time `at` has come."""
        self.start = self.start or at
        if at >= self._at:
            self._at, self._marked = at, time.monotonic()

    def now(self) -> float:
        return self._at + (time.monotonic() - self._marked) if self._at else 0.0
