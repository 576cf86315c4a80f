"""From the command's pipe into the spool."""

from __future__ import annotations

import array
import fcntl
import os
import termios
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .logs import Spool

_REMEMBERED = 64 * 1024


class Pump(threading.Thread):
    """Reads the command's output into the spool and remembers its end."""

    def __init__(self, source: int, spool: Spool) -> None:
        super().__init__(daemon=True)
        self.source, self.spool = source, spool
        self.last = bytearray()
        self._busy = False

    def run(self) -> None:
        data = b"-"
        while data:
            data = os.read(self.source, 1 << 18)
            self._busy = True
            self._remember(data)
            self.spool.append(data)
            self._busy = False
        os.close(self.source)

    def catch_up(self, timeout: float) -> None:
        """Until everything that was written so far is in the spool."""
        deadline = time.monotonic() + timeout
        while self.is_alive() and time.monotonic() < deadline:
            self.join(0.002)
            if self.is_alive() and not self._is_behind():
                return

    def tail(self) -> bytes:
        return bytes(self.last[-_REMEMBERED:])

    def _remember(self, data: bytes) -> None:
        self.last += data[-_REMEMBERED:]
        if len(self.last) > 4 * _REMEMBERED:
            del self.last[:-_REMEMBERED]

    def _is_behind(self) -> bool:
        waiting = array.array("i", [0])
        try:
            fcntl.ioctl(self.source, termios.FIONREAD, waiting)
        except OSError:
            return False
        return waiting[0] > 0 or self._busy
