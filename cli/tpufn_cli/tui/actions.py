"""What the keys do. Each returns at once; what may be slow runs on the acting crew, once per slot and verb."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from tpufn.domain.errors import TpufnError
from tpufn.domain.job import Job, Priority
from tpufn.domain.views import SlotView
from tpufn_cli.console import clipboard
from tpufn_cli.console.setup import SetUp
from tpufn_cli.console.site import Site
from tpufn_cli.console.tmux import session_of
from tpufn_cli.tui.crew import Crew, Done
from tpufn_cli.tui.dialogs import Dialog, KeyDialog, help_content, slot_content

if TYPE_CHECKING:
    from tpufn_cli.tui.app import ConsoleApp

ARMED_FOR = 4.0
"""Seconds in which the second press of a key that destroys counts."""


class _Console(Protocol):
    """What the actions need of the app."""

    site: Site
    acts: Crew
    slots: tuple[SlotView, ...]
    jobs: tuple[Job, ...]
    stars: frozenset[str]


class Actions:
    """Mixed into the app."""

    _armed: tuple[str, str, float] = ("", "", 0.0)

    @property
    def _app(self) -> ConsoleApp:
        return cast("ConsoleApp", self)

    # -- the frame of every act

    def do(self, verb: str, name: str, work: Callable[[], Any], then: Callable[[Any], None] | None = None) -> None:
        """Run `work` on the crew and say what it answers. A second press while it runs says so."""
        app = self._app

        def take(done: Done) -> None:
            if done.error is not None:
                app._complain(done)
            elif then is not None:
                then(done.value)
            else:
                app.say(_said(done.value))
            app.look()

        if not app.start(f"{verb} {name}", work, take):
            running = f"{verb} {name}" in app.acts.busy
            app.say(f"{name}: {verb} is under way" if running else "too much is under way; wait for some of it to end")
        app.draw()

    def doing(self, name: str) -> str:
        """What is being done to this slot now, in words."""
        return ", ".join(
            sorted(key.removesuffix(f" {name}") for key in self._app.acts.busy if key.endswith(f" {name}"))
        )

    def _twice(self, verb: str, name: str, warning: str) -> bool:
        """Whether this is the second press; the first one warns."""
        before, self._armed = self._armed, (verb, name, time.monotonic())
        if before[:2] == (verb, name) and self._armed[2] - before[2] < ARMED_FOR:
            self._armed = ("", "", 0.0)
            return True
        self._app.notify(warning, severity="warning", timeout=ARMED_FOR, markup=False)
        return False

    def _slot(self) -> SlotView | None:
        chosen = self._app.view.chosen
        return next((slot for slot in self._app.slots if slot.name == chosen), None)

    # -- capacity

    def action_queue(self) -> None:
        if slot := self._slot():
            name = slot.name
            self.do("queue", name, lambda: self._app.site.client.queue((name,)))

    def action_queue_all(self) -> None:
        free = [slot.name for slot in self._app.slots if slot.state == "free" and not slot.hold]
        if free:
            self.do("queue", "all", lambda: self._app.site.client.queue(free), lambda got: self._queued(len(got)))
        else:
            self._app.say("no slot is free")

    def _queued(self, number: int) -> None:
        self._app.say(f"asked for {number} TPUs, held for you")

    def action_star(self) -> None:
        if slot := self._slot():
            self._app.stars = self._app.stars ^ {slot.name}
            stars = self._app.stars
            self._app.draw()
            self._app.start(
                f"remember {slot.name}", lambda: self._app.site.memory.set_stars(stars), self._app._complain
            )

    def action_race(self) -> None:
        free = [slot.name for slot in self._app.slots if slot.name in self._app.stars and slot.state == "free"]
        if free:
            self.do("race", "the starred", lambda: self._app.site.client.race(free))
        else:
            self._app.say("no starred slot is free; b stars one", bad=True)

    def action_hold(self) -> None:
        if slot := self._slot():
            name, client = slot.name, self._app.site.client
            change = client.release if slot.hold else client.hold
            self.do("release" if slot.hold else "hold", name, lambda: change((name,)))

    def action_delete(self) -> None:
        slot = self._slot()
        if slot is None:
            return
        if slot.state == "free":
            self._app.say(f"{slot.name} is free: there is nothing to delete")
            return
        name, site = slot.name, self._app.site
        if self._twice("delete", name, f"press d again to delete {name} ({slot.state})"):
            self.do("delete", name, lambda: _deleted(site, name))

    # -- shells and set-ups

    def action_open_window(self) -> None:
        if slot := self._slot():
            self.do("open", slot.name, lambda: self._app.site.mirror.open(slot))

    def action_close_window(self) -> None:
        slot = self._slot()
        if slot is None:
            return
        name, site, slots = slot.name, self._app.site, self._app.slots
        if self._twice("close", name, f"press x again to close the tmux window of {name}"):
            self.do("close", name, lambda: site.mirror.close(name, slots))

    def action_copy_ssh(self) -> None:
        if slot := self._slot():
            self.do("copy ssh", slot.name, lambda: _ssh_command(self._app.site, slot), self._copied)

    def _copied(self, found: tuple[str, str]) -> None:
        command, how = found
        if not how and self._app.site.environment.get("TERM", "") not in ("", "dumb", "linux"):
            self._app.copy_to_clipboard(command)
            how = "copied through the terminal"
        self._app.say(f"{how or 'to copy'}: {command}")

    def action_set_up(self) -> None:
        slot = self._slot()
        if slot is None:
            return
        app, name = self._app, slot.name

        def tell(worker: int, line: str) -> None:
            app.output.append(f"{name} w{worker} │ {line}")

        def ended(done: SetUp) -> None:
            app.say(done.words, bad=not done.ok)

        self.do("set up", name, lambda: app.site.set_up(slot, tell=tell), ended)

    def action_save_key(self) -> None:
        def save(key: str | None) -> None:
            if key:
                self.do("save", "key", lambda: self._app.site.keys.save(key))

        about = "A Tailscale auth key. It is kept in a file that you alone can read."
        self._app.push_screen(KeyDialog("Tailscale", about), save)

    def action_join_tailnet(self) -> None:
        if slot := self._slot():
            self.do("join", slot.name, lambda: self._app.site.join_tailnet(slot), self._joined(slot.name))

    def _joined(self, name: str) -> Callable[[Any], None]:
        def tell(failed: Mapping[int, str]) -> None:
            said = "; ".join(f"worker {worker}: {cause}" for worker, cause in failed.items())
            self._app.say(f"{name}: {said or 'joined the tailnet'}", bad=bool(failed))

        return tell

    # -- dialogs

    def action_info(self) -> None:
        slot = self._slot()
        if slot is None:
            return
        now = self._app.now()
        dialog = Dialog(slot.name, slot_content(slot, now=now, ssh="", created=0.0, set_up="", window=""))
        self._app.push_screen(dialog)

        def more(found: Mapping[str, Any]) -> None:
            if dialog.is_attached:
                dialog.replace(slot_content(slot, now=now, **found))

        self.do("ask about", slot.name, lambda: _facts(self._app.site, slot), more)

    def action_help(self) -> None:
        self._app.push_screen(Dialog("keys", help_content()))

    # -- jobs

    def _job(self) -> Job | None:
        chosen = self._app.view.chosen
        return next((job for job in self._app.jobs if job.id == chosen), None)

    def action_priority(self, by: int) -> None:
        if job := self._job():
            id, wanted = job.id, Priority(min(max(job.priority + by, Priority.LOW), Priority.HIGH))
            self.do("set the priority of", id, lambda: f"{id}: {self._app.site.client.set_priority(id, wanted)}")

    def action_cancel_job(self) -> None:
        job = self._job()
        if job is not None and self._twice("cancel", job.id, f"press d again to cancel {job.id} ({job.state})"):
            id = job.id
            self.do("cancel", id, lambda: self._app.site.client.cancel((id,)))

    def action_retry_job(self) -> None:
        if job := self._job():
            id = job.id
            self.do("retry", id, lambda: f"{id} goes on as {self._app.site.client.retry(id)}")

    def action_follow(self) -> None:
        self._app.prefers_output = not self._app.prefers_output
        self._app.draw()


def _said(answer: Any) -> str:
    """The client's answer in words: a sentence, or name -> sentence."""
    if isinstance(answer, Mapping):
        return "\n".join(f"{name}: {said}" for name, said in answer.items())
    return str(answer)


def _deleted(site: Site, name: str) -> str:
    answer = site.client.delete((name,))[name]
    window = site.after_delete((name,), close_tmux=False)[name]
    return "; ".join(filter(None, (f"{name}: {answer}", window)))


def _ssh_command(site: Site, slot: SlotView) -> tuple[str, str]:
    """(the command, how it was copied; "" where no tool could)."""
    command = shlex.join(site.shell(slot))
    return command, clipboard.copy(command, environment=site.environment, terminal=None)


def _facts(site: Site, slot: SlotView) -> dict[str, Any]:
    """What the dialog shows beyond the table: asked of tmux, memory and the feed."""
    ssh = _or_why(lambda: shlex.join(site.shell(slot)))
    window = _or_why(lambda: _window(site, slot))
    asked = [n.at for n in site.client.feed(limit=1000) if n.slot == slot.name and n.event == "slot.requesting"]
    created = slot.requested_at or (asked[-1] if asked and slot.tpu else 0.0)
    return {"ssh": ssh, "window": window, "created": created, "set_up": site.memory.set_up().get(slot.tpu, "")}


def _window(site: Site, slot: SlotView) -> str:
    there = site.mirror.look((slot,)).shown.get(slot.name)
    return f"window {slot.name} in session {session_of(slot.zone, site.fleet)}" if there else ""


def _or_why(ask: Callable[[], str]) -> str:
    """An answer, or why there is none: one missing fact must not hide the others."""
    try:
        return ask()
    except TpufnError as error:
        return str(error)
