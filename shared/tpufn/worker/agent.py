"""The commands launch, stop, status and ready. Each answers with one JSON line and leaves long work to a child."""

from __future__ import annotations

import json
import os
import sys

from . import fence
from .bucket import BucketError, open_bucket
from .protocol import VERSION, Order, OrderError, Place, read_json, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

ACCEPTED, WRONG, REFUSED = 0, 2, 3
_USAGE = "usage: agent launch|stop|status|ready --home DIR < ORDER"


def main(arguments: list[str]) -> int:
    """0 accepted, 2 wrong input, 3 refused."""
    commands = {"launch": launch, "stop": stop, "status": status, "ready": ready}
    if len(arguments) != 3 or arguments[0] not in commands or arguments[1] != "--home":
        return _answer({"answer": "wrong", "cause": _USAGE}, WRONG)
    try:
        body = json.loads(sys.stdin.buffer.read() or b"{}")
        home = os.path.realpath(arguments[2])
        os.makedirs(os.path.join(home, ".tpufn", "attempts"), mode=0o700, exist_ok=True)
        return commands[arguments[0]](home, body)
    except (OrderError, ValueError, KeyError, TypeError) as error:
        return _answer({"answer": "wrong", "cause": f"{type(error).__name__}: {error}"}, WRONG)


def launch(home: str, body: Mapping[str, Any]) -> int:
    """Start the attempt's supervisor, once. A second launch of the same attempt is accepted and starts nothing."""
    order = Order(body)
    place = Place(home, order.attempt)
    with fence.locked(home):
        cause = fence.admit(home, order)
        if cause:
            return _answer({"answer": "refused", "cause": cause}, REFUSED)
        if os.path.exists(place.state) or fence.is_alive(place):
            return _answer({"answer": "accepted", "started": False}, ACCEPTED)
        os.makedirs(place.own, mode=0o700, exist_ok=True)
        write_json(place.order, body)
        _tell_accepted(order)
        _leave_behind(place, lambda: _supervise(place, order))
    return _answer({"answer": "accepted", "started": True}, ACCEPTED)


def stop(home: str, body: Mapping[str, Any]) -> int:
    """The tombstone first; then the supervisor ends the attempt, or a stand-in does where there is none."""
    order = Order({"worker": 0, **body})
    place = Place(home, order.attempt)
    with fence.locked(home):
        cause = fence.bury(home, order)
        if cause:
            return _answer({"answer": "refused", "cause": cause}, REFUSED)
        if read_json(place.closed).get("clean"):
            return _answer({"answer": "accepted", "closed": True}, ACCEPTED)
        os.makedirs(place.own, mode=0o700, exist_ok=True)
        write_json(place.stop, {"grace": order.grace, "reason": order.reason})
        if fence.is_alive(place):
            _wake_supervisor(place)
        else:
            launched = read_json(place.order)
            known = Order({**body, **launched}) if launched else order
            _leave_behind(place, lambda: _close(place, known, order, bool(launched)))
    return _answer({"answer": "accepted", "closed": False}, ACCEPTED)


def status(home: str, body: Mapping[str, Any]) -> int:
    """What is here: attempts, device holders, caches, fence. Changes nothing."""
    from .caches import described
    from .devices import holders

    directory = os.path.join(home, ".tpufn", "attempts")
    places = {name: Place(home, name) for name in sorted(os.listdir(directory))}
    answer = {
        "attempts": {name: _describe(place) for name, place in places.items()},
        "holders": holders(list(body.get("devices", ()))),
        "caches": described(Place(home, "")),
        "fence": fence.read(home),
        "startup": read_json(os.path.join(home, ".tpufn", "startup.json")),
        "version": VERSION,
    }
    return _answer(answer, ACCEPTED)


def ready(home: str, body: Mapping[str, Any]) -> int:
    """The machine has booted: tell that it is there."""
    from . import ready as boot

    return boot.ready(home, body)


def _describe(place: Place) -> dict[str, Any]:
    state, closed = read_json(place.state), read_json(place.closed)
    is_alive = not closed and fence.is_alive(place)
    return {"alive": is_alive, "phase": "closed" if closed else state.get("phase", ""), "pid": state.get("pid", 0)}


def _answer(body: Mapping[str, Any], code: int) -> int:
    sys.stdout.write(json.dumps(body) + "\n")
    sys.stdout.flush()
    return code


def _tell_accepted(order: Order) -> None:
    """The object only; the supervisor tries again if the bucket did not take it, and sends the message."""
    content = json.dumps({"attempt": order.attempt, "worker": order.worker}).encode()
    try:
        source = {"tries": 2, **order.bucket}
        key = f"{order.prefix}/status/worker-{order.worker}.accepted.json"
        open_bucket(source).put(key, content, once=True)
    except BucketError:
        return


def _wake_supervisor(place: Place) -> None:
    """It reads the stop order when it is signalled, or when it begins."""
    import signal

    from .process import send

    pid = int(read_json(place.state).get("pid", 0))
    if pid:
        send(pid, signal.SIGTERM)


def _supervise(place: Place, order: Order) -> None:
    from .supervisor import Supervisor

    Supervisor(place, order).run()


def _close(place: Place, order: Order, stop_order: Order, known: bool) -> None:
    from .closing import close_orphan

    close_orphan(place, order, stop_order, known=known)


def _leave_behind(place: Place, work: Callable[[], None]) -> None:
    """Do the work in a process that holds the attempt's life and that no end of the caller reaches."""
    life = fence.take_life(place)
    if life < 0:
        return
    child = os.fork()
    if child:
        os.close(life)
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            _detach(place, life)
            work()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(0)


def _detach(place: Place, life: int) -> None:
    """No terminal, no pipe and no lock of the caller's, no directory that is kept from being removed."""
    os.chdir("/")
    os.closerange(3, life)
    os.closerange(life + 1, 256)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
