"""Tools become a server: annotations, threads, errors, and a wire that nothing else writes to.

Each call runs in a thread, so that calls in parallel are answered in parallel and a hung cloud holds up nobody else.
The wire is moved away from the descriptors 0 and 1 before anything starts: a child process inherits neither, and what
a library prints goes to standard error.
"""

import functools
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import anyio
import anyio.to_thread

from tpufn.domain.errors import TpufnError
from tpufn_cli.console.site import Site
from tpufn_cli.failures import problems
from tpufn_cli.mcp import sdk
from tpufn_cli.mcp.job_tools import JobTools
from tpufn_cli.mcp.slot_tools import SlotTools

AT_ONCE = 32
INSTRUCTIONS = (
    "tpufn gets scarce Google Cloud TPUs and keeps them busy. A slot is a fixed place that holds at most one TPU; jobs "
    "get slots by themselves. queue_slot, race_slots and hold_slot take capacity for the person instead, which costs "
    "money until cancel_slot. Start with fleet_status; why_job explains waiting and failures."
)


@dataclass(frozen=True)
class Kind:
    """What a tool does to the world, as the protocol's annotations say it."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    def annotations(self) -> dict[str, bool]:
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.read_only or self.idempotent,
            "openWorldHint": True,
        }


READ = Kind(read_only=True)
CHANGE = Kind()
AGAIN = Kind(idempotent=True)
DESTROY = Kind(destructive=True, idempotent=True)

KINDS: dict[str, Kind] = {
    "list_slots": READ,
    "slot_info": READ,
    "ssh_command": READ,
    "tmux_status": READ,
    "list_jobs": READ,
    "job_status": READ,
    "why_job": READ,
    "job_logs": READ,
    "fleet_status": READ,
    "validate_job": READ,
    "simulate": READ,
    "queue_slot": CHANGE,
    "queue_slots": CHANGE,
    "race_slots": CHANGE,
    "hold_slot": AGAIN,
    "release_slot": AGAIN,
    "setup_vm": AGAIN,
    "tailscale_setup": AGAIN,
    "tmux_sync": AGAIN,
    "tmux_open": AGAIN,
    "submit_job": CHANGE,
    "retry_job": CHANGE,
    "set_priority": AGAIN,
    "cancel_slot": DESTROY,
    "cancel_job": DESTROY,
    "tmux_close": DESTROY,
}


class Lazy:
    """Opens the site at the first call, and again after a failure: a person may start the engine meanwhile."""

    def __init__(self, opener: Callable[[], Site]) -> None:
        self._open, self._lock = opener, Lock()
        self._site: Site | None = None

    def __call__(self) -> Site:
        with self._lock:
            if self._site is None:
                self._site = self._open()
            return self._site

    def close(self) -> None:
        if self._site is not None:
            self._site.close()


def make_server(site: Callable[[], Site], *, lifespan: Any = None) -> Any:
    """The server with all tools. Raises InputError where no SDK is installed."""
    server_class, tool_error, annotations = sdk.load()
    server = server_class("tpufn", instructions=INSTRUCTIONS, lifespan=lifespan, log_level="WARNING")
    limiter = anyio.CapacityLimiter(AT_ONCE)
    slots, jobs = SlotTools(site), JobTools(site)
    for name, kind in KINDS.items():
        method = getattr(slots, name, None) or getattr(jobs, name)
        hints = annotations.model_validate(kind.annotations())
        register = server.tool(name=name, annotations=hints, structured_output=True)
        register(_threaded(method, limiter, tool_error))
    return server


def _threaded(method: Callable[..., Any], limiter: anyio.CapacityLimiter, tool_error: Any) -> Callable[..., Any]:
    """The tool as a coroutine. A refusal is told in words with its fix; anything else is named as a defect."""

    @functools.wraps(method)
    async def call(**arguments: Any) -> Any:
        work = functools.partial(method, **arguments)
        try:
            return await anyio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True)
        except TpufnError as error:
            raise tool_error("\n".join(problems(error))) from error
        except Exception as error:
            raise tool_error(f"a defect in tpufn: {type(error).__name__}: {error}") from error

    return call


def serve(opener: Callable[[], Site]) -> None:
    """Serve until the client goes."""
    site = Lazy(opener)
    release = _take_the_wire()

    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[dict[str, Any]]:
        release()  # the transport has its streams now
        yield {}

    try:
        anyio.run(make_server(site, lifespan=lifespan).run_stdio_async)
    finally:
        site.close()


def _take_the_wire() -> Callable[[], None]:
    """Give the transport private copies of standard input and output. The result points `sys` away from them."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdin = os.fdopen(wire_in, "r", encoding="utf-8")
    sys.stdout = os.fdopen(wire_out, "w", encoding="utf-8")
    kept = (sys.stdin, sys.stdout)

    def release() -> None:
        sys.stdin, sys.stdout = open(os.devnull, encoding="utf-8"), sys.stderr  # noqa: SIM115  # for the process's life
        _kept.append(kept)

    return release


_kept: list[Any] = []
"""The transport's streams: collecting them would close the wire."""
