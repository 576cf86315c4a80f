"""Dialogs over a view: help, a slot's facts, the Tailscale key."""

from typing import ClassVar

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tpufn.domain.views import SlotView
from tpufn_cli.render import words
from tpufn_cli.render.console import pairs
from tpufn_cli.render.notes import clock


class Dialog(ModalScreen[str]):
    """A box over the view; any way out dismisses it, and quitting quits from here too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,i,enter", "leave", show=False),
        Binding("q", "app.quit", show=False),
        Binding("ctrl+c", "app.quit", show=False, priority=True),
    ]

    def __init__(self, title: str, content: RenderableType) -> None:
        super().__init__()
        self._title, self._content = title, content

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = "esc closes"
            yield Static(self._content, id="content")

    def replace(self, content: RenderableType) -> None:
        self.query_one("#content", Static).update(content)

    def action_leave(self) -> None:
        self.dismiss("")


class KeyDialog(Dialog):
    """Asks for a secret, and shows dots."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = "enter saves, esc leaves"
            yield Static(self._content)
            yield Input(password=True, placeholder="tskey-auth-…")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


_HELP: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Slots",
        (
            ("c / a", "queue this slot, or every free one, for you"),
            ("b / B", "star this slot; race the starred: the first granted is kept"),
            ("h", "hold it for people, or give it back to the jobs"),
            ("d d", "cancel the request or delete the TPU"),
            ("o / x x", "open, or close, its tmux window"),
            ("s", "copy the ssh command"),
            ("S", "run the set-up scripts on all workers"),
            ("t / T", "save a Tailscale key; join the workers to the tailnet"),
            ("i", "addresses, age and more"),
        ),
    ),
    (
        "Jobs",
        (
            ("+ / -", "raise or lower the priority"),
            ("d d", "cancel the job"),
            ("R", "submit it again, with its checkpoints"),
            ("w", "narrow terminals: its story or its output"),
        ),
    ),
    (
        "Everywhere",
        (
            ("1 2 3", "slots, jobs, pools"),
            ("r", "look now"),
            ("ctrl+t", "dark or light"),
            ("?", "this help"),
            ("q", "quit; what was asked for goes on (not the engine of --up)"),
        ),
    ),
)


def help_content() -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    for title, keys in _HELP:
        grid.add_row(Text(title, style="bold"), "")
        for key, meaning in keys:
            grid.add_row(Text(f"  {key}"), meaning)
        grid.add_row("", "")
    return grid


def slot_content(slot: SlotView, *, now: float, ssh: str, created: float, set_up: str, window: str) -> RenderableType:
    """A slot's facts. `created`: when its TPU was asked for, 0 where that is not known."""
    grid = pairs()
    grid.add_row("TPU", slot.tpu or "none")
    grid.add_row("type", f"{slot.type}, {slot.model}, in {slot.zone}")
    grid.add_row("state", f"{slot.state} for {words.since(slot.since, now)}, generation {slot.generation}")
    if slot.cause:
        grid.add_row("because", slot.cause)
    if slot.hold:
        grid.add_row("held by", slot.hold)
    if slot.job:
        grid.add_row("job", slot.attempt or slot.job)
    if created:
        grid.add_row("asked for", f"{clock(created, None)}, {words.since(created, now)} ago")
    for index, address in enumerate(slot.workers):
        grid.add_row("addresses" if index == 0 else "", f"w{index}  {address}")
    grid.add_row("price", words.per_hour(slot.price_per_hour))
    for name, value in (("ssh", ssh), ("set-up", set_up), ("tmux", window)):
        if value:
            grid.add_row(name, value)
    return grid
