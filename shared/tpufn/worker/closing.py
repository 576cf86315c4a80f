"""The stop proof: end whatever is left of an attempt, look again, and say so."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time

from . import caches, devices, fence, workspace
from .bucket import open_bucket
from .process import Tree, boot
from .protocol import Order, Place, read_json, write_json
from .report import Reporter, open_publisher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RELEASED = 5.0  # seconds for the kernel to let go of a device whose holder is dead


def close(place: Place, order: Order, tree: Tree) -> dict[str, Any]:
    """KILL what is left, verify, tidy up. Returns `closed`'s content, which is also kept on the host."""
    gone = tree.kill()
    held = _holders(order)
    with contextlib.suppress(workspace.SetupError):
        caches.drop_unready(place)
    with contextlib.suppress(workspace.SetupError):
        workspace.remove_shared_memory(place.home, order.shm)
    left = sorted(tree.find())
    is_clean = gone and not left and not held
    index = caches.update_index(place)
    closed = {"clean": is_clean, "caches": sorted(index), "cache_index": index, "left": left, "holders": held}
    with contextlib.suppress(OSError):  # a full disk must not keep the proof from the bucket
        write_json(place.closed, closed)
        _forget_secrets(place)
    return closed


def close_orphan(place: Place, order: Order, stop: Order, *, known: bool) -> None:
    """Stop an attempt whose supervisor is dead, or which never started here: TERM, grace, KILL, verify, report."""
    state = read_json(place.state)
    is_known = state.get("boot") == boot()
    session, scope = (int(state["session"]), str(state.get("scope", ""))) if is_known else (0, "")
    tree = Tree(place, order.attempt, session=session, scope=scope)
    if tree.signal(signal.SIGTERM):
        tree.wait(time.monotonic() + stop.grace)
    closed = close(place, order, tree)
    report = Reporter(order, open_bucket(order.bucket), open_publisher(order.publish))
    if known:
        report.result("exited", _lost(place, stop.reason))
    if closed["clean"]:
        fence.release(place.home, order.attempt)
    report.result("closed", closed)
    report.drain(order.report_timeout)
    report.publisher.flush(10.0)


def _lost(place: Place, reason: str) -> dict[str, Any]:
    """What `exited` says where the supervisor cannot: refused by the bucket if it had said it."""
    phase = read_json(place.state).get("phase", "setup")
    phase = phase if phase in ("device", "setup", "command") else "command"
    cause = "the worker's agent died" + (", then: " + reason if reason else "")
    return {
        "phase": phase,
        "code": None,
        "ours": True,
        "preempted": False,
        "reason": cause,
        "signature": "",
        "tail": "",
    }


def _holders(order: Order) -> list[dict[str, Any]]:
    deadline = time.monotonic() + min(_RELEASED, order.device_timeout)
    held = devices.holders(order.devices)
    while held and time.monotonic() < deadline:
        time.sleep(0.1)
        held = devices.holders(order.devices)
    return held


def _forget_secrets(place: Place) -> None:
    """The order's secrets and environment are needed no more; where to report is."""
    kept = {k: v for k, v in read_json(place.order).items() if k not in ("secrets", "env", "command")}
    if kept:
        write_json(place.order, kept)
    with contextlib.suppress(OSError):
        os.unlink(place.bash_env)
    for name in os.listdir(os.path.dirname(place.own)):
        _remove_old(os.path.join(os.path.dirname(place.own), name), place.own)


def _remove_old(path: str, present: str) -> None:
    """The agent's own files of a closed attempt go a day after it."""
    closed = os.path.join(path, "closed.json")
    with contextlib.suppress(OSError):
        if path != present and time.time() - os.stat(closed).st_mtime > 86400:
            shutil.rmtree(path, ignore_errors=True)
