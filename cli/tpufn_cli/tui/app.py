"""The app: what it knows, how it looks again, and how results come back from the crew.

Two crews: one looks (slots, feed, status and the visible view; a look is not started while the same look runs), one
acts for the person. Both hand their results over as messages, so that everything on the screen changes in one thread.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, cast

import libtmux  # noqa: F401  # asks standard output for its encoding when imported: before the app replaces that
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import ContentSwitcher, Footer, Static

from tpufn.domain.accelerators import region_of
from tpufn.domain.errors import TpufnError
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job
from tpufn.domain.notes import Note
from tpufn.domain.views import PoolOutlook, SlotView, Status
from tpufn_cli.console.latency import measure
from tpufn_cli.console.logtail import Page, page
from tpufn_cli.console.site import Site
from tpufn_cli.console.watcher import Watcher
from tpufn_cli.failures import problems
from tpufn_cli.tui import cells
from tpufn_cli.tui.actions import Actions
from tpufn_cli.tui.crew import Crew, Done
from tpufn_cli.tui.theme import CSS, DARK, LIGHT, ink
from tpufn_cli.tui.views import JobsView, Lines, PoolsView, SlotsView, View, note_line

_ACTIONS, _LOOKS = 8, 12
_FEED = 200


class Came(Message):
    """A crew's result, and who takes it."""

    def __init__(self, done: Done, then: Callable[[Done], None]) -> None:
        super().__init__()
        self.done, self.then = done, then


class ConsoleApp(Actions, App[None]):
    """`now` is a clock for ages. `site` is only asked by the crews: it may be slow."""

    CSS = CSS
    TITLE = "tpufn"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "view('slots')", "Slots", show=False),
        Binding("2", "view('jobs')", "Jobs", show=False),
        Binding("3", "view('pools')", "Pools", show=False),
        Binding("r", "look", "Refresh", show=False),
        Binding("ctrl+t", "toggle_light", "Dark or light", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q,ctrl+c", "quit", "Quit", key_display="q", priority=False),
    ]
    VIEWS: ClassVar = (("slots", "Slots"), ("jobs", "Jobs"), ("pools", "Pools"))

    def __init__(self, site: Site, *, now: Callable[[], float] = time.time, measures: bool = True) -> None:
        super().__init__()
        self.site, self.now = site, now
        self.looks, self.acts = Crew(_LOOKS, name="look"), Crew(_ACTIONS, name="act")
        self.slots: tuple[SlotView, ...] = ()
        self.jobs: tuple[Job, ...] = ()
        self.pools: tuple[PoolOutlook, ...] = ()
        self.fleet = Fleet(name="")
        self.status: Status | None = None
        self.figures: dict[str, float] = {}
        self.stars: frozenset[str] = site.memory.stars
        self.kind = "wide"
        self.prefers_output = False
        self.output: deque[str] = deque(maxlen=5000)
        self._feed_seen = self._log_of = self._log_cursor = ""
        self._answered = time.monotonic()
        self._watcher, self._measures = Watcher(site), measures
        self._complained: set[str] = set()
        self._placed = False
        self._summary = Text()
        self.last_cursor = ""
        self.ended_by = 0

    # -- the frame

    def compose(self) -> ComposeResult:
        with Horizontal(id="top"):
            yield Static("tpufn", id="brand")
            yield Static(id="tabs")
            yield Static(Text(self.site.client.where, no_wrap=True, overflow="ellipsis"), id="where")
            yield Static(id="summary")
        with ContentSwitcher(id="views", initial="slots"):
            yield SlotsView(id="slots")
            yield JobsView(id="jobs")
            yield PoolsView(id="pools")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        wanted = self.site.personal.text("tui.theme") or self.site.memory.theme
        self.theme = wanted if wanted in self.available_themes else DARK.name
        self._draw_tabs()
        self.view.table.focus()
        self._heed_signals()
        self.set_interval(self.site.personal.number("tui.refresh"), self.look)
        self.set_interval(0.2, self._drain)
        self.look()

    def on_resize(self, event: events.Resize) -> None:
        self.kind = cells.kind_of(event.size.width)
        self.set_class(self.kind == "narrow", "narrow")
        self.set_class(event.size.height < 16, "short")
        self.call_after_refresh(self.draw)

    @property
    def view(self) -> View:
        current = self.screen_stack[0].query_one(ContentSwitcher).current or "slots"
        return cast(View, self.screen_stack[0].query_one(f"#{current}"))

    @property
    def is_dark(self) -> bool:
        return self.current_theme.dark

    def action_view(self, name: str) -> None:
        self.screen_stack[0].query_one(ContentSwitcher).current = name
        self._draw_tabs()
        self.view.table.focus()
        self.call_after_refresh(self.draw)
        self.look()

    def action_toggle_light(self) -> None:
        self.theme = LIGHT.name if self.is_dark else DARK.name
        self._draw_tabs()
        self.draw()
        for lines in self.query(Lines):
            lines.again()
        name = self.theme
        self.start("remember theme", lambda: self.site.memory.set_theme(name), self._complain)

    def action_look(self) -> None:
        self.look()

    def _heed_signals(self) -> None:
        """Ended from outside, or its terminal closed: still by the way out, which gives the terminal back as it was."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(ValueError, RuntimeError, NotImplementedError):  # not the main thread, or no such signals
                loop.add_signal_handler(number, self._ended, number)

    def _ended(self, number: int) -> None:
        self.ended_by = number
        self._leave()

    async def action_quit(self) -> None:
        """Ends at once: the crews' threads are not waited for."""
        self._leave()

    def _leave(self) -> None:
        self.last_cursor = self._slots_view.table.chosen
        self._watcher.stop()
        self.site.close()
        self.exit()

    # -- looking

    def look(self) -> None:
        """Start every look that is due and does not run yet."""
        if not self._is_up:
            return
        client, after = self.site.client, self._feed_seen
        self.look_at("slots", client.slots, self._came_slots)
        self.look_at("feed", lambda: client.feed(after=after, limit=_FEED), self._came_feed)
        self.look_at("status", client.status, self._came_status)
        if not self.fleet.name:
            self.look_at("fleet", self._surroundings, self._came_fleet)
        if self.view.id == "jobs":
            self.look_at("jobs", lambda: client.jobs(limit=200), self._came_jobs)
            self._look_at_job()
        elif self.view.id == "pools":
            self.look_at("pools", client.pools, self._came_pools)
        self.draw()

    def _look_at_job(self) -> None:
        client, id, cursor = self.site.client, self.view.chosen, self._log_cursor
        if not id:
            return
        if id != self._log_of:
            self._log_of, self._log_cursor, cursor = id, "", ""
            cast(JobsView, self.view).clear()
        self.look_at("story", lambda: (client.job(id), client.why(id)), self._came_story)
        self.look_at("output", lambda: (id, page(client, id, cursor=cursor, limit=1 << 18)), self._came_output)

    def _surroundings(self) -> Fleet:
        return self.site.fleet

    def look_at(self, key: str, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """A look: its failure is said once, until it succeeds again."""

        def take(done: Done) -> None:
            if done.error is not None:
                self._complain_once(key, done.error)
                return
            self._complained.discard(key)
            self._answered = time.monotonic()
            then(done.value)

        self.looks.start(key, work, self._hand_over(take))

    def start(self, key: str, work: Callable[[], Any], then: Callable[[Done], None]) -> bool:
        """An act of the person; False where it runs already or too many do."""
        return self.acts.start(key, work, self._hand_over(then))

    def _hand_over(self, take: Callable[[Done], None]) -> Callable[[Done], None]:
        def tell(done: Done) -> None:
            try:
                self.post_message(Came(done, take))
            except RuntimeError:
                return  # the app's loop has ended: nobody is there to see it

        return tell

    def on_came(self, message: Came) -> None:
        if self._is_up:
            message.then(message.done)

    @property
    def _is_up(self) -> bool:
        """Whether the screen is there: results and timers may come while the app ends."""
        return bool(self.screen_stack) and bool(self.screen_stack[0].query("#summary"))

    def _came_slots(self, slots: tuple[SlotView, ...]) -> None:
        self.slots = slots
        self.draw()
        if not self._placed and slots:
            self._placed = True
            self._slots_view.table.choose(self.site.memory.cursor)
        for duty, act in self._watcher.duties(slots).items():
            self.look_at(duty, act, self._came_said)

    def _came_feed(self, notes: tuple[Note, ...]) -> None:
        fresh = [note for note in notes if note.id != self._feed_seen]
        if fresh:
            self._feed_seen = fresh[-1].id
            self._slots_view.log_panel.add(partial(self._note_line, note) for note in fresh)

    def _came_status(self, status: Status) -> None:
        self.status = status
        self._draw_top()

    def _came_fleet(self, fleet: Fleet) -> None:
        self.fleet = fleet
        if self._measures:
            regions = tuple(dict.fromkeys(region_of(zone) for zone in fleet.zones))
            self.look_at("latency", lambda: measure(regions, self.site.memory, now=time.time()), self._came_figures)

    def _came_figures(self, figures: dict[str, float]) -> None:
        self.figures = figures
        self.draw()

    def _came_jobs(self, jobs: tuple[Job, ...]) -> None:
        self.jobs = jobs
        self.draw()

    def _came_pools(self, pools: tuple[PoolOutlook, ...]) -> None:
        self.pools = pools
        self.draw()

    def _came_story(self, found: Any) -> None:
        view, why = found
        if view.job.id == self._log_of:
            self._jobs_view.tell(view, why)

    def _came_output(self, found: tuple[str, Page]) -> None:
        id, fresh = found
        if id == self._log_of:
            self._log_cursor = fresh.cursor
            self._jobs_view.output(fresh.pieces)

    def _came_said(self, said: tuple[str, ...]) -> None:
        for line in said:
            self.say(line)

    @property
    def _slots_view(self) -> SlotsView:
        return cast(SlotsView, self.screen_stack[0].query_one("#slots"))

    @property
    def _jobs_view(self) -> JobsView:
        return cast(JobsView, self.screen_stack[0].query_one("#jobs"))

    # -- drawing

    def draw(self) -> None:
        """Bring the visible view to what is known: one repaint, however much has changed."""
        if not self._is_up:
            return
        with self.batch_update():
            self.view.draw()
            self._draw_top()

    def _draw_top(self) -> None:
        if self.status is None:
            return
        late = time.monotonic() - self._answered
        text = cells.summary(self.status, dark=self.is_dark, late=late, narrow=self.kind == "narrow")
        if text != self._summary or text.spans != self._summary.spans:
            self._summary = text
            self.screen_stack[0].query_one("#summary", Static).update(text)

    def _draw_tabs(self) -> None:
        current = self.screen_stack[0].query_one(ContentSwitcher).current
        text = Text()
        for number, (name, title) in enumerate(self.VIEWS, 1):
            style = "bold reverse" if name == current else ink("dim", dark=self.is_dark)
            text.append(f" {number} {title} ", style=style)
        self.screen_stack[0].query_one("#tabs", Static).update(text)

    def _drain(self) -> None:
        """Output of set-ups, which may come in thousands of lines, a few times a second."""
        if not self._is_up:
            return
        lines = [self.output.popleft() for _ in range(len(self.output))]
        self._slots_view.log_panel.add(partial(self._output_line, line) for line in lines)

    def _note_line(self, note: Note) -> Text:
        return note_line(note, dark=self.is_dark, narrow=self.kind == "narrow")

    def _output_line(self, line: str) -> Text:
        return Text(line, style=ink("cyan", dark=self.is_dark))

    # -- saying

    def say(self, text: str, *, bad: bool = False) -> None:
        self.notify(text, severity="error" if bad else "information", timeout=8 if bad else 5, markup=False)

    def _complain(self, done: Done) -> None:
        if done.error is not None:
            self.say(worded(done.error), bad=True)

    def _complain_once(self, key: str, error: Exception) -> None:
        if key not in self._complained:
            self._complained.add(key)
            self.say(worded(error), bad=True)


def worded(error: Exception) -> str:
    """An error as a person reads it."""
    if isinstance(error, TpufnError):
        return "\n".join(problems(error))
    return f"a defect in tpufn: {type(error).__name__}: {error}"
