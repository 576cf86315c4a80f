"""The tmux mirror: one window for each usable TPU, named after its slot, in a session of its zone.

Reconciling only creates. A window is closed by an explicit act alone, so nothing that a person has on the screen is
lost because a Spot TPU was; the window of a gone TPU stays, with its last output (`remain-on-exit`), and is reported as
orphaned. A window carries its TPU's name as an option, which tells the mirror's own windows from a person's.
"""

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpufn.domain.errors import Conflict, InputError, NotFound
from tpufn.domain.fleet import Fleet, zone_code
from tpufn.domain.slot import THERE
from tpufn.domain.views import SlotView

NO_TMUX = "tmux is not installed here: windows are not mirrored; shells still open with the ssh command"
_MARK = "@tpufn-tpu"
_FIELDS = ("session_name", "window_id", "window_name", "pane_dead", _MARK)
_SEPARATOR = "\x1f"


@dataclass(frozen=True)
class Window:
    """One tmux window. `tpu`: whom it was made for, "" where a person made it."""

    session: str
    id: str
    name: str
    dead: bool
    tpu: str


@dataclass(frozen=True)
class Mirror:
    """What is mirrored: slot -> windows of its name; windows of TPUs that are gone; usable slots without a window."""

    shown: Mapping[str, tuple[Window, ...]]
    orphaned: tuple[Window, ...]
    missing: tuple[str, ...]

    @property
    def duplicates(self) -> tuple[str, ...]:
        return tuple(name for name, windows in self.shown.items() if len(windows) > 1)


def session_of(zone: str, fleet: Fleet) -> str:
    """`tpu-ew4a`, with the deployment's own short names of zones."""
    codes = json.loads(fleet.settings.get("zone_codes") or "{}")
    return f"tpu-{codes.get(zone) or zone_code(zone)}"


def compare(slots: Iterable[SlotView], windows: Iterable[Window], fleet: Fleet) -> Mirror:
    """What there is against what should be."""
    slots, windows = tuple(slots), tuple(windows)
    ours = [w for w in windows if w.session.startswith("tpu-")]
    usable = {s.name: s for s in slots if s.state in THERE and s.tpu}
    sessions = {s.name: session_of(s.zone, fleet) for s in slots}
    by_slot = {name: tuple(w for w in ours if (w.session, w.name) == (at, name)) for name, at in sessions.items()}
    kept = {name: found for name, found in by_slot.items() if found}
    held = {s.tpu for s in slots if s.tpu}
    gone = tuple(w for w in ours if w.tpu and w.tpu not in held)
    return Mirror(shown=kept, orphaned=gone, missing=tuple(name for name in usable if name not in kept))


class Tmux:
    """A tmux server, yours or that of a socket name. Every call asks the server anew: it may have died meanwhile."""

    def __init__(self, socket: str = "", *, configuration: str | None = None) -> None:
        from libtmux import Server

        self._server = Server(socket_name=socket or None, config_file=configuration)
        self._socket = socket

    @property
    def attach(self) -> str:
        """The command line before a session's name."""
        return "tmux " + (f"-L {shlex.quote(self._socket)} " if self._socket else "") + "attach -t "

    def windows(self) -> tuple[Window, ...]:
        """Every window; none where no server runs. Raises NotFound where there is no tmux."""
        wanted = _SEPARATOR.join(f"#{{{name}}}" for name in _FIELDS)
        code, lines = self._ask("list-windows", "-a", "-F", wanted)
        return tuple(_window(line) for line in lines if _SEPARATOR in line) if code == 0 else ()

    def create(self, session: str, name: str, tpu: str, command: Sequence[str]) -> None:
        """A window that stays when its command ends. One message to the server, so that a command that ends at once
        cannot take the window away before the option is set."""
        has = self._ask("has-session", "-t", f"={session}")[0] == 0
        start = ("new-window", "-d", "-t", f"={session}:") if has else ("new-session", "-d", "-s", session)
        there = f"={session}:={name}"
        keep = (";", "set-option", "-w", "-t", there, "remain-on-exit", "on")
        mark = (";", "set-option", "-w", "-t", there, _MARK, tpu)
        code, lines = self._ask(*start, "-n", name, shlex.join(command), *keep, *mark)
        if code:
            raise Conflict(f"tmux made no window {session}:{name}: {' '.join(lines) or code}")

    def respawn(self, window: Window, tpu: str, command: Sequence[str]) -> None:
        """Start the command again in a window whose command has ended."""
        mark = (";", "set-option", "-w", "-t", window.id, _MARK, tpu)
        self._ask("respawn-window", "-t", window.id, shlex.join(command), *mark)

    def select(self, session: str, name: str) -> None:
        """Make it the session's current window, and show it to a client that runs in this server."""
        self._ask("select-window", "-t", f"={session}:={name}")
        self._ask("switch-client", "-t", f"={session}")

    def close(self, window: Window) -> None:
        self._ask("kill-window", "-t", window.id)

    def _ask(self, command: str, *args: str) -> tuple[int, list[str]]:
        from libtmux.exc import TmuxCommandNotFound

        try:
            done: Any = self._server.cmd(command, *args)
        except TmuxCommandNotFound:
            raise NotFound(NO_TMUX) from None
        return done.returncode, [*done.stdout, *done.stderr]


def _window(line: str) -> Window:
    session, id, name, dead, tpu = line.split(_SEPARATOR)
    return Window(session=session, id=id, name=name, dead=dead == "1", tpu=tpu)


class TmuxMirror:
    """The mirror of one deployment's slots. `shell`: the command line of a window for a slot."""

    def __init__(self, tmux: Tmux, fleet: Fleet, shell: Callable[[SlotView], Sequence[str]]) -> None:
        self.tmux, self._fleet, self._shell = tmux, fleet, shell

    def look(self, slots: Iterable[SlotView]) -> Mirror:
        return compare(slots, self.tmux.windows(), self._fleet)

    def sync(self, slots: Iterable[SlotView]) -> tuple[str, ...]:
        """Create what is missing; the slots that got a window."""
        slots = tuple(slots)
        by_name = {s.name: s for s in slots}
        missing = self.look(slots).missing
        for name in missing:
            self._create(by_name[name])
        return missing

    def open(self, slot: SlotView) -> str:
        """A window with a living shell on the slot's TPU, made current. In words where it is."""
        session = session_of(slot.zone, self._fleet)
        there = self.look((slot,)).shown.get(slot.name, ())
        if not there:
            self._create(slot)
        elif there[0].dead:
            self.tmux.respawn(there[0], slot.tpu, self._shell(slot))
        self.tmux.select(session, slot.name)
        return f"window {slot.name} in tmux session {session}: {self.tmux.attach}{session}"

    def close(self, slot: str, slots: Iterable[SlotView]) -> str:
        """Close the slot's windows; raises NotFound where there is none."""
        mirror = self.look(slots)
        windows = mirror.shown.get(slot, ()) or tuple(w for w in mirror.orphaned if w.name == slot)
        if not windows:
            raise NotFound(f"{slot} has no tmux window; `tpufn tmux status` lists them")
        own = tuple(w for w in windows if w.tpu) or windows
        if len(own) > 1 and not own[0].tpu:
            raise InputError(f"several windows are named {slot}, and none was made by tpufn: close the one you mean")
        for window in own:
            self.tmux.close(window)
        return f"closed {len(own)} window{'s' * (len(own) != 1)} of {slot}"

    def _create(self, slot: SlotView) -> None:
        self.tmux.create(session_of(slot.zone, self._fleet), slot.name, slot.tpu, self._shell(slot))
