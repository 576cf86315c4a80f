"""One attempt on one worker, from the accepted order to the proof that nothing of it is left.

    device check -> workspace -> bundle -> caches -> prepared -> go -> command -> exited -> everything ended -> closed

A stop (SIGTERM to this process), a preemption notice and the command's end arrive in one inbox, which every wait
watches. An end that follows our own TERM is reported when the whole tree has ended or its grace is over: a job that
saves a checkpoint in a child of its shell is not done when the shell is. An end by itself is reported at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from . import caches, evidence, fence, prepare, scope, workspace
from .bucket import BucketError, open_bucket
from .closing import close
from .command import Command
from .inbox import Inbox, Interrupted
from .logs import Spool, Uploader
from .prepare import DeviceBusy
from .process import Tree, adopt_orphans, boot
from .protocol import Order, Place, write_json
from .pump import Pump
from .report import Reporter, open_publisher
from .watch import Heartbeat, watch_notice
from .workspace import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FLUSH = 2.0  # for the last of the logs before the end is told


class Supervisor:
    """`phase` is how far it came; the inbox says what ended the attempt, if not the command itself."""

    def __init__(self, place: Place, order: Order) -> None:
        self.place, self.order = place, order
        self.bucket = open_bucket(order.bucket)
        self.report = Reporter(order, self.bucket, open_publisher(order.publish))
        self.tree = Tree(place, order.attempt, supervisor=os.getpid())
        self.inbox = Inbox(place, order, self._tell_notice)
        self.heartbeat = Heartbeat(
            self.report.heartbeat, self.status, interval=order.heartbeat, least=self.bucket.rewrite
        )
        self.spool = Spool(
            place.spool,
            interval=order.log_interval or self.bucket.interval,
            limit=order.log_limit,
            room=order.spool_limit,
        )
        self.uploader = Uploader(self.spool, self.bucket, f"{order.prefix}/logs/worker-{order.worker}")
        self.pump: Pump | None = None
        self.phase = "device"
        self.began = time.monotonic()

    def run(self) -> None:
        self._begin()
        try:
            exited = self._attempt()
        except Exception as error:
            exited = self._end(None, f"the agent failed: {type(error).__name__}")
            raise
        finally:
            self.report.result("exited", exited)
            self._finish(exited)

    def status(self) -> dict[str, Any]:
        seconds = round(time.monotonic() - self.began, 3)
        logs = {"logged": self.spool.total, "dropped": self.spool.dropped}
        return {"phase": self.phase, "seconds": seconds, "notice": self.inbox.preempted, **logs}

    def _begin(self) -> None:
        adopt_orphans()
        self.tree.scope = scope.enter(self.order.attempt)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.inbox.stopped)
        self._enter("device")
        self.report.result("accepted", {})
        self.heartbeat.start()
        self.uploader.start()
        watch_notice(self.order.metadata, self.inbox.noticed)
        if os.path.exists(self.place.stop):
            self.inbox.stopped()

    def _tell_notice(self) -> None:
        """As a message, and for those without Pub/Sub in a heartbeat that comes at once."""
        self.report.notice()
        self.heartbeat.hurry()

    def _attempt(self) -> dict[str, Any]:
        """`exited`'s content."""
        try:
            prepare.await_devices(self.order, self.inbox.pause)
            self._enter("setup")
            ready = prepare.command_environment(self.place, self.order, self.bucket, self.inbox.check)
            self.report.result("prepared", {"caches": caches.ready(self.place)})
            self._await_go()
            return self._command(ready)
        except Interrupted:
            return self._end(None, self.inbox.reason)
        except DeviceBusy as error:
            return {**self._end(None, str(error)), "signature": "device-busy"}
        except (SetupError, OSError) as error:
            return self._end(None, str(error))

    def _await_go(self) -> None:
        deadline = time.monotonic() + self.order.go_timeout
        while not self._is_going():
            if time.monotonic() >= deadline:
                raise SetupError(f"no go within {self.order.go_timeout} s")
            self.inbox.pause(self.bucket.poll)
        self.inbox.check()

    def _is_going(self) -> bool:
        try:
            return self.bucket.exists(self.order.prefix + "/go")
        except BucketError:
            return False

    def _command(self, environment: dict[bytes, bytes]) -> dict[str, Any]:
        command = Command(self.place, self.order.command, environment)
        self.began = time.monotonic()
        self.tree.session = command.session
        command.reap(self.inbox.exited)
        self.pump = Pump(command.output, self.spool)
        self.pump.start()
        self._enter("command")
        code = self.inbox.await_exit(lambda: self.tree.signal(signal.SIGTERM), self.tree.kill)
        runtime = time.monotonic() - self.began
        if self.inbox.ours and not self.tree.wait(self.inbox.deadline):
            self.tree.kill()
        return {**self._end(code, self.inbox.reason), "runtime": round(runtime, 3)}

    def _end(self, code: int | None, reason: str) -> dict[str, Any]:
        output = b""
        if self.pump:
            self.pump.catch_up(_FLUSH)
            self.spool.flush(_FLUSH)
            output = self.pump.tail()
        return {
            "phase": self.phase,
            "code": code,
            "ours": self.inbox.ours,
            "preempted": self.inbox.preempted,
            "reason": reason,
            "signature": evidence.signature(output),
            "tail": evidence.tail(output),
            "runtime": 0.0,
        }

    def _finish(self, exited: dict[str, Any]) -> None:
        if exited["code"] != 0 and not self.inbox.ours:
            self.report.diagnostics(evidence.diagnostics(self.place, self.order))
        if exited["code"] is not None:
            self.tree.signal(signal.SIGTERM)
            self.tree.wait(time.monotonic() + (0.0 if self.inbox.ours else self.order.linger))
        self._enter("closing", phase=self.phase)
        closed = close(self.place, self.order, self.tree)
        self._drain()
        if closed["clean"]:
            fence.release(self.place.home, self.order.attempt)
        self.report.result("closed", closed)
        self.report.drain(self.order.report_timeout)
        self.heartbeat.stop()
        self.report.publisher.flush(10.0)

    def _drain(self) -> None:
        """The rest of the output, as long as that is worth the TPU's time."""
        if self.pump:
            self.pump.join(_FLUSH)
        self.spool.end()
        if self.uploader.give_up_after(self.order.drain_timeout):
            workspace.remove(self.place.spool)

    def _enter(self, name: str, *, phase: str = "") -> None:
        self.phase = phase or name
        state = {"phase": name, "pid": os.getpid(), "session": self.tree.session, "boot": boot()}
        state["scope"] = self.tree.scope
        with contextlib.suppress(OSError):  # a full disk ends no attempt
            write_json(self.place.state, state)
