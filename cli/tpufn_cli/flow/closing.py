"""The closing table of a run: every attempt with its waits and its end, then what it all took."""

import time

from rich.console import Group, RenderableType
from rich.text import Text

from tpufn.domain.fleet import Fleet
from tpufn.domain.views import JobView
from tpufn_cli.flow.ending import Ending
from tpufn_cli.render import words
from tpufn_cli.render.attempts import attempts_table, waits
from tpufn_cli.render.console import pairs, styled


def closing(ending: Ending, fleet: Fleet, *, up: str) -> RenderableType:
    """Everything that is printed when a run is over. `up`: the command that goes on with what is left."""
    parts: list[RenderableType] = []
    for view in ending.views:
        parts += [Text(), _headline(view), attempts_table(view, fleet, now=time.time())]
        if view.job.cause and view.job.state != "succeeded":
            parts.append(Text(view.job.cause, style="red"))
            parts += last_lines(view)
    return Group(*parts, Text(), _totals(ending, up))


def last_lines(view: JobView) -> list[RenderableType]:
    """The end of the output of the worker that failed first."""
    last = view.attempts[-1] if view.attempts else None
    if last is None or not last.tail:
        return []
    lines = [f"  worker {last.failed_worker} | {words.printable(line)}" for line in last.tail.splitlines()]
    return [Text("\n".join(lines), style="dim")]


def _headline(view: JobView) -> Text:
    state = str(view.job.state)
    return Text.assemble((view.job.id, "bold"), " ", (state, styled(state)))


def _totals(ending: Ending, up: str) -> RenderableType:
    attempts = sum(len(view.attempts) for view in ending.views)
    waited = sum(sum(waits(view)) for view in ending.views)
    grid = pairs()
    grid.add_row("attempts", f"{attempts}, in {words.span(ending.seconds)}")
    grid.add_row("waited", f"{words.span(waited)} for TPUs")
    grid.add_row("TPU-time", words.chip_hours(ending.chip_seconds))
    grid.add_row("cost", f"{words.money(ending.cost)} estimated, at list prices")
    grid.add_row("provisioned", _left(ending.provisioned, up))
    return grid


def _left(provisioned: int, up: str) -> Text:
    if provisioned:
        return Text(f"{words.count(provisioned, 'TPU')} still held; `{up}` goes on releasing", style="yellow")
    return Text("no TPU is held any more")
