"""The processes of a simulated host: found by what every one of them inherits, so that nothing has to be remembered."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

from tpufn.worker.process import HAS_PROC, Entry, boot, descendants, directory, environ, freeze_and_kill, table
from tpufn.worker.protocol import read_json

MARK = "TPUFN_HOST"


def kill(hosts: Iterable[Path], *, patience: float = 10.0) -> bool:
    """KILL everything on these hosts until two looks in a row find nothing; False if some will not go."""
    places = [host.resolve() for host in hosts]
    deadline = time.monotonic() + patience
    quiet = 0
    while quiet < 2:
        found = running(places)
        quiet = 0 if found else quiet + 1
        if time.monotonic() >= deadline:
            return False
        if freeze_and_kill(found):
            time.sleep(0.005)
    return True


def running(hosts: Iterable[Path]) -> set[int]:
    """The process ids on these hosts: marked, in a session that an agent noted, at work there, or descended of such."""
    places = [str(host) for host in hosts]
    entries = table()
    sessions = {session for place in places for session in _sessions(Path(place))}
    found = {entry.pid for entry in entries if entry.group in sessions or _is_on(places, entry)}
    return (found | descendants(entries, found)) - {os.getpid()}


def _is_on(places: list[str], entry: Entry) -> bool:
    variables, at = (environ(entry.pid), directory(entry.pid)) if HAS_PROC else _ask_psutil(entry.pid)
    if any(os.fsencode(f"\0{MARK}={place}\0") in variables for place in places):
        return True
    return not entry.has_terminal and any(at == place or at.startswith(place + os.sep) for place in places)


def _ask_psutil(pid: int) -> tuple[bytes, str]:
    """Where there is no /proc."""
    import psutil

    try:
        process = psutil.Process(pid)
        return b"\0" + os.fsencode(f"{MARK}={process.environ().get(MARK, '')}") + b"\0", process.cwd()
    except (psutil.Error, OSError):
        return b"", ""


def _sessions(host: Path) -> set[int]:
    """The sessions of commands that are not known to have ended, in this run of the machine."""
    attempts = (host / ".tpufn" / "attempts").glob("*/state.json")
    states = (read_json(str(path)) for path in attempts if not (path.parent / "closed.json").exists())
    return {int(state["session"]) for state in states if state.get("session") and state.get("boot") == boot()}
