"""The rich console for stdout. Without a terminal it is wide and plain, so that pipes get whole names."""

import os
import sys
from collections.abc import Iterable

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 180
STYLES = {
    "succeeded": "green",
    "free": "dim",
    "idle": "cyan",
    "busy": "green",
    "running": "green",
    "active": "green",
    "failed": "red",
    "rejected": "red",
    "timed-out": "red",
    "cancelled": "yellow",
    "cancelling": "yellow",
    "preempted": "magenta",
    "infrastructure": "magenta",
    "interrupted": "magenta",
    "unfit": "magenta",
    "releasing": "yellow",
    "waiting": "yellow",
    "pending": "yellow",
    "requesting": "yellow",
    "provisioning": "blue",
    "booting": "blue",
    "won the race": "bold green",
    "lost the race": "dim",
}
"""The colour of a state or an outcome, everywhere the same."""


def console() -> Console:
    """For one command's stdout."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def show(what: RenderableType) -> None:
    """Print on stdout; into a pipe without trailing blanks."""
    out = console()
    if out.is_terminal:
        out.print(what)
        return
    with out.capture() as captured:
        out.print(what)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def table(*headers: str, numbers: tuple[str, ...] = ()) -> Table:
    """An empty table with light lines. `numbers` are the headers of right-aligned columns."""
    lines = box.SIMPLE_HEAD if sys.stdout.isatty() else None
    made = Table(box=lines, pad_edge=False, padding=(0, 1), header_style="bold", show_edge=False)
    for header in headers:
        right = header in numbers
        made.add_column(header, justify="right" if right else "left", no_wrap=right, overflow="fold")
    return made


def fitted(
    headers: tuple[str, ...],
    rows: Iterable[tuple[str | Text, ...]],
    *,
    numbers: tuple[str, ...],
    spare: tuple[str, ...],
    width: int = 0,
) -> Table:
    """A table of these rows in which no cell is broken, if that can be: where the terminal is too narrow, the columns
    that can be spared are left out, the first of them first. `width`: of what is not as wide as the terminal."""
    cells, kept, width = list(rows), list(headers), width or console().width
    gap = 3 if sys.stdout.isatty() else 2  # with lines there is one more cell between two columns
    for column in spare:
        if sum(_widest(headers, cells, name) + gap for name in kept) - gap > width:
            kept.remove(column)
    made = table(*kept, numbers=numbers)
    for row in cells:
        made.add_row(*(cell for name, cell in zip(headers, row, strict=True) if name in kept))
    return made


def _widest(headers: tuple[str, ...], rows: list[tuple[str | Text, ...]], name: str) -> int:
    at = headers.index(name)
    return max([len(name), *(cell_len(str(row[at])) for row in rows)])


def pairs() -> Table:
    """An empty grid of names and values."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    return made


def styled(state: str) -> str:
    """The style of a state; none for an unknown one."""
    return STYLES.get(state, "")
