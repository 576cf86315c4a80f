"""Threads for what may be slow: a bounded number, one task per key at a time, and none outlives the program.

They are daemon threads, which the interpreter does not wait for: a cloud that hangs cannot keep the program from
ending. A thread serves many tasks, so that stores which keep a connection per thread keep few.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any


@dataclass(frozen=True)
class Done:
    """A task's end: its value, or the exception that it raised."""

    key: str
    value: Any = None
    error: Exception | None = None


@dataclass(frozen=True)
class _Task:
    key: str
    work: Callable[[], Any]
    tell: Callable[[Done], None]


class Crew:
    """`size` threads at most, started when needed."""

    def __init__(self, size: int, *, name: str) -> None:
        self._size, self._name = size, name
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._threads = 0

    def start(self, key: str, work: Callable[[], Any], tell: Callable[[Done], None]) -> bool:
        """Run `work` unless a task of this key runs or everybody is busy; `tell` hears of its end, in the thread."""
        with self._lock:
            if key in self._busy or len(self._busy) >= self._size:
                return False
            self._busy.add(key)
            grow = len(self._busy) > self._threads
            self._threads += grow
        self._tasks.put(_Task(key, work, tell))
        if grow:
            threading.Thread(target=self._serve, name=f"{self._name}-{self._threads}", daemon=True).start()
        return True

    @property
    def busy(self) -> frozenset[str]:
        """The keys of the tasks that run."""
        with self._lock:
            return frozenset(self._busy)

    def _serve(self) -> None:
        while True:
            task = self._tasks.get()
            try:
                done = Done(task.key, value=task.work())
            except Exception as error:  # shown to the person, whatever it is: the program goes on
                done = Done(task.key, error=error)
            with self._lock:
                self._busy.discard(task.key)
            task.tell(done)
