"""The live view: a timeline that scrolls, and below it a small standing region with the job and the race.

What has happened stays in the terminal's scrollback; only the standing region is redrawn, a few times a second.
"""

import time
from threading import Event, RLock, Thread
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from tpufn.domain.notes import Note
from tpufn_cli.flow.output import OutputLine
from tpufn_cli.flow.pace import Pace
from tpufn_cli.flow.story import Leg, Story, Whereabouts
from tpufn_cli.render import words
from tpufn_cli.render.console import styled
from tpufn_cli.render.notes import clock, phrase, subject

LEGS_SHOWN = 10
REDRAWS = 8
"""In a second."""
_WORKER_COLOURS = ("cyan", "green", "yellow", "magenta", "blue")
_QUIET = frozenset(
    {"slot.requesting", "slot.waiting", "slot.provisioning", "slot.booting", "slot.idle", "slot.busy", "slot.cleaning"}
)
"""What the race table shows already."""
_LOUD = {
    "race.won": "bold green",
    "job.succeeded": "bold green",
    "job.failed": "bold red",
    "job.rejected": "bold red",
    "job.unschedulable": "bold yellow",
    "job.waiting": "magenta",
    "attempt.settling": "magenta",
    "attempt.running": "green",
}


class LiveTeller:
    """A teller for a terminal. Use it as a context manager around the run."""

    def __init__(self, story: Story, console: Console, *, title: str, standing: bool = True) -> None:
        self._story, self._console, self._title = story, console, title
        self._pace, self._lock = Pace(), RLock()
        self._begun = time.monotonic()
        self._over = Event()
        self._shown = standing  # a picture has no use for what is redrawn
        self._live = Live(console=console, get_renderable=self._standing, transient=True, auto_refresh=False)

    def __enter__(self) -> Self:
        if not self._shown:
            return self
        self._live.start()
        Thread(target=self._pulse, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._over.set()
            self._live.stop()

    def note(self, note: Note) -> None:
        self._pace.mark(note.at)
        if note.event not in _QUIET:
            style = _style(note)
            self._print(note.at, Text(note.event, style=style), _about(note))

    def output(self, line: OutputLine) -> None:
        if line.shown:
            return
        colour = _WORKER_COLOURS[line.worker % len(_WORKER_COLOURS)]
        job = f"{line.job} " if len(self._story.jobs) > 1 else ""
        text = Text.assemble((f"{job}worker {line.worker} │ ", colour), words.printable(line.text))
        self._print(None, Text("output", style="dim"), text)

    def say(self, text: str) -> None:
        self._print(None, Text("tpufn", style="yellow"), Text(text, style="yellow"))

    def _pulse(self) -> None:
        """Redraws the standing region; with the lock, since it must not move while a line is printed above it."""
        while not self._over.wait(1 / REDRAWS):
            with self._lock:
                if not self._over.is_set():
                    self._live.refresh()

    def _print(self, at: float | None, what: Text, about: Text) -> None:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True, style="dim", width=8)
        grid.add_column(no_wrap=True, width=17)
        grid.add_column(overflow="fold")
        grid.add_row("" if at is None else clock(at, self._pace.start), what, about)
        with self._lock:
            self._console.print(grid)

    def _standing(self) -> RenderableType:
        elapsed = time.monotonic() - self._begun
        legs = legs_table(self._story, self._pace.now())
        return Group(Rule(style="dim"), header(self._story, self._title, elapsed), legs)


def header(story: Story, title: str, elapsed: float) -> RenderableType:
    """Where the job is, in one line, with the time on the right."""
    grid = Table.grid(expand=True)
    grid.add_column(overflow="ellipsis", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True, style="dim")
    for id, place in list(story.jobs.items()) or [("", Whereabouts(state="submitting"))]:
        grid.add_row(Text.assemble((id or title, "bold"), " ", _where(place)), words.span(elapsed))
    return grid


def legs_table(story: Story, now: float) -> RenderableType:
    """The race: every leg with its state and for how long."""
    grid = Table.grid(padding=(0, 2), expand=True)
    for wanted in ("slot", "type", "zone", ""):
        grid.add_column(no_wrap=True, min_width=_width(story, wanted))
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    legs = sorted(story.legs.values(), key=lambda leg: leg.slot)
    for leg in legs[:LEGS_SHOWN]:
        grid.add_row(*_leg_row(leg, now))
    more = len(legs) - LEGS_SHOWN
    return Group(grid, Text(f"and {more} more", style="dim")) if more > 0 else grid


def _width(story: Story, column: str) -> int:
    """What a column's longest value takes: only the remark gives way in a narrow terminal."""
    if not column:
        return len("provisioning 2h05m")
    indent = 2 if column == "slot" else 0
    return indent + max((len(getattr(leg, column)) for leg in story.legs.values()), default=0)


def _leg_row(leg: Leg, now: float) -> tuple[Text, ...]:
    faded = "dim" if leg.state == "free" else ""
    return (
        Text(f"  {leg.slot}", style=faded),
        Text(leg.type, style=faded),
        Text(leg.zone, style=faded),
        Text.assemble((f"{leg.state:<12}", styled(leg.state)), (f" {words.age(now - leg.since):>4}", "dim")),
        Text(leg.remark, style=styled(leg.remark)),
    )


def _where(place: Whereabouts) -> Text:
    if place.state != "active":
        return Text(place.state, style=styled(place.state))
    number = place.attempt.rpartition(".")[2]
    return Text.assemble((place.phase, styled(place.phase)), f" on {place.slot}, attempt {number}")


def _about(note: Note) -> Text:
    about = phrase(note)
    kind, _, _ = note.subject.partition(":")
    name = {"job": "", "attempt": f"attempt {note.subject.rpartition('.')[2]}"}.get(kind, subject(note))
    if name in about:  # most reasons name it themselves
        return Text(about)
    return Text.assemble((name, "bold"), ": " if name and about else "", about)


def _style(note: Note) -> str:
    if note.event in ("attempt.stopping", "attempt.closed"):
        return styled(str(note.data.get("outcome", "")))
    return _LOUD.get(note.event, "dim" if note.event.startswith("slot.") else "")
