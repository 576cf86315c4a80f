"""Who may start here. The lease's fence grows with every lease of a generation, so a late launch can be told.

`fence.json`: `generation`; `tombstone`, the highest fence that was stopped; `attempt` and `fence` of the newest launch;
`open`, whether that attempt is not yet closed. Everything happens under one lock, which also covers the fork of a
supervisor. A supervisor holds its attempt's `alive.lock` as long as it lives: the kernel lets go of it, come what may.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from .protocol import Place, read_json, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .protocol import Order


@contextlib.contextmanager
def locked(home: str) -> Iterator[None]:
    os.makedirs(os.path.join(home, ".tpufn"), mode=0o700, exist_ok=True)
    descriptor = os.open(os.path.join(home, ".tpufn", "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def read(home: str) -> dict[str, Any]:
    empty = {"generation": 0, "tombstone": 0, "attempt": "", "fence": 0, "open": False}
    return {**empty, **read_json(_path(home))}


def admit(home: str, order: Order) -> str:
    """Empty if the attempt may start or has started already, else why not. Records a new attempt as the open one."""
    state = read(home)
    cause = _wrong_generation(home, state, order)
    if cause:
        return cause
    same_generation = state["generation"] == order.generation
    if same_generation and order.fence <= state["tombstone"]:
        return "fence {} was stopped (tombstone {})".format(order.fence, state["tombstone"])
    if state["attempt"] == order.attempt and state["fence"] == order.fence:
        return ""
    if state["open"]:
        return "attempt {} is not closed on this worker".format(state["attempt"])
    if same_generation and order.fence <= state["fence"]:
        return "fence {} is older than fence {}".format(order.fence, state["fence"])
    tombstone = state["tombstone"] if same_generation else 0
    _write(home, order.generation, tombstone, order.attempt, order.fence, True)
    return ""


def bury(home: str, order: Order) -> str:
    """Write the tombstone. Empty, or why the lease is not of this host."""
    state = read(home)
    cause = _wrong_generation(home, state, order)
    if cause:
        return cause
    if state["generation"] == order.generation:
        tombstone = max(state["tombstone"], order.fence)
        _write(home, order.generation, tombstone, state["attempt"], state["fence"], state["open"])
    else:
        _write(home, order.generation, order.fence, state["attempt"], 0, state["open"])
    return ""


def release(home: str, attempt: str) -> None:
    """The attempt left nothing behind: the next one may start. On a full disk it takes a stop to try again."""
    with contextlib.suppress(OSError), locked(home):
        state = read(home)
        if state["attempt"] == attempt and state["open"]:
            write_json(_path(home), {**state, "open": False})


def take_life(place: Place, *, patience: float = 2.0) -> int:
    """The attempt's `alive.lock` as a descriptor, or -1 if somebody holds it."""
    descriptor = os.open(place.alive, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return -1
            time.sleep(0.01)


def is_alive(place: Place) -> bool:
    """Whether a supervisor of that attempt lives."""
    try:
        descriptor = os.open(place.alive, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _path(home: str) -> str:
    return os.path.join(home, ".tpufn", "fence.json")


def _write(home: str, generation: int, tombstone: int, attempt: str, fence: int, is_open: bool) -> None:
    state = {"generation": generation, "tombstone": tombstone, "attempt": attempt, "fence": fence, "open": is_open}
    write_json(_path(home), state)


def _wrong_generation(home: str, state: dict[str, Any], order: Order) -> str:
    host = _host_generation(home)
    if host and host != str(order.generation):
        return f"this host is of generation {host}, the lease is of {order.generation}"
    if state["generation"] > order.generation:
        return "generation {} is older than generation {}".format(order.generation, state["generation"])
    return ""


def _host_generation(home: str) -> str:
    try:
        with open(os.path.join(home, ".tpufn", "generation"), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
