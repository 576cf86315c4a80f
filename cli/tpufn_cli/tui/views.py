"""The three views: slots with the event log, jobs with one job's story and output, pools with what the cloud said."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.widgets import RichLog, Static

from tpufn.domain.notes import Note
from tpufn.domain.views import Explanation, JobView, LogPiece, PoolOutlook
from tpufn_cli.render import words
from tpufn_cli.render.console import styled
from tpufn_cli.render.jobs import job_details
from tpufn_cli.render.notes import clock, phrase, subject
from tpufn_cli.render.why import explanation
from tpufn_cli.tui import cells
from tpufn_cli.tui.steady import SteadyTable
from tpufn_cli.tui.theme import ink

if TYPE_CHECKING:
    from tpufn_cli.tui.app import ConsoleApp

_KEPT = 3000
_MOVES: list[BindingType] = [
    Binding("j", "move(1)", show=False),
    Binding("k", "move(-1)", show=False),
]


class View(Container):
    """A page of the console. `draw` brings it to what the app knows; it is called often and must be cheap."""

    @property
    def console(self) -> ConsoleApp:
        from tpufn_cli.tui.app import ConsoleApp

        assert isinstance(self.app, ConsoleApp)
        return self.app

    @property
    def table(self) -> SteadyTable:
        return self.query_one(SteadyTable)

    @property
    def chosen(self) -> str:
        return self.table.chosen

    def action_move(self, by: int) -> None:
        self.table.move_cursor(row=self.table.cursor_row + by)

    def draw(self) -> None:
        raise NotImplementedError


class Lines(RichLog):
    """Lines that fit the panel, one row each, and again after the terminal or the theme has changed.

    What is kept are makers of lines, since colours belong to the theme.
    """

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes, max_lines=_KEPT, min_width=1)
        self._makers: deque[Callable[[], Text]] = deque(maxlen=_KEPT)

    def add(self, makers: Iterable[Callable[[], Text]]) -> None:
        for make in makers:
            self._makers.append(make)
            self._put(make)

    def again(self) -> None:
        """Write everything anew."""
        self.clear()
        for make in self._makers:
            self._put(make)

    def forget(self) -> None:
        self._makers.clear()
        self.clear()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.again()

    def _put(self, make: Callable[[], Text]) -> None:
        line = make()
        line.no_wrap, line.overflow = True, "ellipsis"
        self.write(line, width=max(20, self.scrollable_content_region.width), shrink=False, expand=False)


class SlotsView(View):
    """The fixed table of slots, and what happens below it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "app.queue", "Queue"),
        Binding("a", "app.queue_all", "Queue all free", show=False),
        Binding("b", "app.star", "Star"),
        Binding("B", "app.race", "Race"),
        Binding("h", "app.hold", "Hold"),
        Binding("d", "app.delete", "Delete"),
        Binding("o", "app.open_window", "Shell"),
        Binding("x", "app.close_window", "Close window", show=False),
        Binding("s", "app.copy_ssh", "Copy ssh", show=False),
        Binding("S", "app.set_up", "Set up", show=False),
        Binding("t", "app.save_key", "Tailscale key", show=False),
        Binding("T", "app.join_tailnet", "Join tailnet", show=False),
        Binding("i", "app.info", "Info"),
        *_MOVES,
    ]

    def compose(self) -> ComposeResult:
        yield SteadyTable(id="slots-table")
        log = Lines(id="log", classes="panel")
        log.border_title = "events"
        log.can_focus = False
        yield log

    def draw(self) -> None:
        app = self.console
        rows = {
            slot.name: cells.slot_cells(
                slot,
                now=app.now(),
                stars=app.stars,
                figures=app.figures,
                dark=app.is_dark,
                doing=app.doing(slot.name),
            )
            for slot in app.slots
        }
        self.table.show(cells.SLOT_COLUMNS[app.kind], rows)

    @property
    def log_panel(self) -> Lines:
        return self.query_one("#log", Lines)


def note_line(note: Note, *, dark: bool, narrow: bool = False) -> Text:
    """A note as a line of the event log, coloured by what it says; in columns where there is room."""
    event = note.event
    state = event.partition(".")[2].replace("won", "won the race").replace("lost", "lost the race")
    style = styled(state) or {"held": "yellow", "refused": "red", "unschedulable": "red"}.get(state, "")
    return Text.assemble(
        (f"{clock(note.at, None)} ", ink("dim", dark=dark)),
        (f"{event:<{0 if narrow else 18}} ", ink(style, dark=dark)),
        (f"{subject(note):<{0 if narrow else 22}} ", ""),
        (phrase(note), ink("dim", dark=dark)),
    )


class JobsView(View):
    """The queue; below it the chosen job's story and its output as it comes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("plus,equals_sign", "app.priority(1)", "Priority +", key_display="+"),
        Binding("minus", "app.priority(-1)", "Priority -", key_display="-"),
        Binding("d", "app.cancel_job", "Cancel"),
        Binding("R", "app.retry_job", "Retry"),
        Binding("w", "app.follow", "Why / output"),
        *_MOVES,
    ]

    def compose(self) -> ComposeResult:
        yield SteadyTable(id="jobs-table")
        with Horizontal(id="below"):
            with VerticalScroll(id="detail", classes="panel") as detail:
                detail.border_title = "why"
                yield Static(id="story")
            output = Lines(id="output", classes="panel")
            output.border_title = "output"
            yield output

    def draw(self) -> None:
        app = self.console
        rows = {job.id: cells.job_cells(job, now=app.now(), dark=app.is_dark) for job in app.jobs}
        self.table.show(cells.JOB_COLUMNS[app.kind], rows)
        narrow = app.kind == "narrow"
        self.query_one("#detail").display = not narrow or not app.prefers_output
        self.query_one("#output").display = not narrow or app.prefers_output

    def tell(self, view: JobView, why: Explanation) -> None:
        """The chosen job's story."""
        app, width = self.console, self.query_one("#story", Static).content_size.width
        parts: list[RenderableType] = [
            explanation(why, width=width),
            Text(),
            job_details(view, app.fleet, now=app.now(), width=width),
        ]
        self.query_one("#story", Static).update(Group(*parts))
        self.query_one("#detail").border_title = view.job.id

    def clear(self) -> None:
        self.query_one("#output", Lines).forget()
        self.query_one("#story", Static).update("")

    def output(self, pieces: Iterable[LogPiece]) -> None:
        """More of the chosen job's output."""
        lines = [
            (f"{piece.attempt}.w{piece.worker} ", words.printable(line))
            for piece in pieces
            for line in piece.data.decode("utf-8", "replace").splitlines()
        ]
        self.query_one("#output", Lines).add(partial(self._line, mark, text) for mark, text in lines)

    def _line(self, mark: str, text: str) -> Text:
        return Text.assemble((mark, ink("dim", dark=self.console.is_dark)), text)


class PoolsView(View):
    """Every pool: places, chips, what the cloud said last, and when it is asked again."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "app.look", "Refresh"), *_MOVES]

    def compose(self) -> ComposeResult:
        yield SteadyTable(id="pools-table")
        panel = Static(id="outlook", classes="panel")
        panel.border_title = "what it waits for"
        yield panel

    def draw(self) -> None:
        app = self.console
        rows = {pool.pool: cells.pool_cells(pool, now=app.now(), dark=app.is_dark) for pool in app.pools}
        self.table.show(cells.POOL_COLUMNS[app.kind], rows)
        chosen = next((pool for pool in app.pools if pool.pool == self.chosen), None)
        self.query_one("#outlook", Static).update(_outlook(chosen, dark=app.is_dark) if chosen else Text("no pool"))


def _outlook(pool: PoolOutlook, *, dark: bool) -> Text:
    text = Text.assemble((f"{pool.type} in {pool.zone}: ", "bold"), pool.verdict or "nothing to say")
    if pool.last_text:
        text.append(f'\nthe cloud said: "{words.printable(pool.last_text)}"', style=ink("dim", dark=dark))
    if pool.scope:
        text.append(f"\nthe cool-down covers {pool.scope}", style=ink("dim", dark=dark))
    return text
