"""What can end an attempt: a stop, a preemption notice, the command itself. Every wait looks into this one inbox."""

from __future__ import annotations

import queue
import time

from .protocol import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .protocol import Order, Place


class Interrupted(Exception):
    """A stop or a notice came before the command ran."""


class Inbox:
    """`ours`: we ended it, for `reason`; `preempted`: after a notice; `deadline`: when TERM's grace is over."""

    def __init__(self, place: Place, order: Order, on_notice: Callable[[], None]) -> None:
        self.place, self.order, self.on_notice = place, order, on_notice
        self.ours = self.preempted = False
        self.reason = ""
        self.deadline = float("inf")
        self._messages: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()

    def stopped(self, number: int = 0, frame: object = None) -> None:
        """A stop order lies on the host, or the host itself told us to end. Also a signal handler."""
        del frame
        self._messages.put(("stop", number))

    def noticed(self) -> None:
        self._messages.put(("notice", 0))

    def exited(self, code: int) -> None:
        self._messages.put(("exit", code))

    def pause(self, seconds: float) -> None:
        """Wait so long; Interrupted if the attempt is ended meanwhile."""
        try:
            kind, _ = self._messages.get(timeout=seconds) if seconds else self._messages.get_nowait()
        except queue.Empty:
            return
        self._note(kind)
        raise Interrupted

    def check(self) -> None:
        """Interrupted if the attempt is ended."""
        self.pause(0.0)

    def await_exit(self, terminate: Callable[[], object], kill: Callable[[], object]) -> int:
        """The command's exit code; `terminate` on a stop or a notice, `kill` when the grace is over."""
        while True:
            patience = None if self.deadline == float("inf") else max(0.0, self.deadline - time.monotonic())
            try:
                kind, code = self._messages.get(timeout=patience)
            except queue.Empty:
                kill()
                self.deadline = time.monotonic() + 1.0
                continue
            if kind == "exit":
                return code
            self._note(kind)
            terminate()

    def _note(self, kind: str) -> None:
        self.ours = True
        if kind == "notice":
            self.preempted, grace = True, min(self.order.grace, self.order.notice_grace)
            self.reason = self.reason or "preemption notice"
            self.on_notice()
        else:
            stop = read_json(self.place.stop)
            grace = float(stop.get("grace", self.order.grace))
            self.reason = self.reason or str(stop.get("reason") or "the host told the agent to end")
        self.deadline = min(self.deadline, time.monotonic() + grace)
