"""The slot table, and the deployment at a glance."""

from collections.abc import Iterable, Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tpufn.domain.slot import HOLDING_CHIPS
from tpufn.domain.views import SlotView, Status
from tpufn_cli.render import words
from tpufn_cli.render.console import fitted, pairs, styled


def slots_table(slots: Iterable[SlotView], *, now: float) -> Table:
    """One row per slot. The name carries type and zone; the last column says what it is about."""
    headers = ("slot", "state", "for", "gen", "$/h", "job or cause")
    rows = (
        (
            Text(slot.name, style="" if slot.state != "free" else "dim"),
            Text(slot.state, style=styled(slot.state)),
            words.since(slot.since, now),
            str(slot.generation),
            f"{slot.price_per_hour:.2f}" if slot.state in HOLDING_CHIPS else "-",
            _about(slot),
        )
        for slot in slots
    )
    return fitted(headers, rows, numbers=("for", "gen", "$/h"), spare=("gen", "$/h", "for"))


def _about(slot: SlotView) -> Text:
    hold = (f"held by {slot.hold}; ", "yellow") if slot.hold else ""
    about = slot.attempt or slot.job or slot.cause
    return Text.assemble(hold, about or "-")


def status_view(status: Status) -> RenderableType:
    """Mode, engine, jobs, slots, money."""
    grid = pairs()
    grid.add_row("deployment", f"{status.deployment} ({status.mode})")
    served = "ticks" if status.mode == "cloud" else "engine"
    grid.add_row(served, Text(_ENGINE.get(status.engine, status.engine), style=_style(status.engine)))
    grid.add_row("jobs", _counts(status.jobs))
    grid.add_row("slots", _counts(status.slots))
    grid.add_row("held now", f"{words.count(status.chips, 'chip')}, {words.money(status.cost_per_hour)}/h")
    grid.add_row("effects", f"{status.open_effects} open")
    if status.waiting:
        grid.add_row("messages", Text(f"{status.waiting} wait for an engine", style="yellow"))
    if status.dead_letters:
        known = str(status.dead_letters) if status.dead_letters > 0 else "not yours to see"
        grid.add_row("dead letters", Text(known, style="red" if status.dead_letters > 0 else "dim"))
    return grid


def _style(engine: str) -> str:
    return "green" if engine == "running" else "yellow"


_ENGINE = {
    "paused": "paused: `tpufn resume` starts them again",
    "late": "late: none came in the last 3 minutes; `tpufn tick` makes one now",
    "unknown": "unknown: not yours to see",
}


def _counts(counts: Mapping[str, int]) -> Text:
    parts = [part for state, number in counts.items() if number for part in _one(state, number)]
    return Text.assemble(*parts[:-1]) if parts else Text("none", style="dim")


def _one(state: str, number: int) -> tuple[tuple[str, str], str]:
    return (f"{number} {state}", styled(state)), ", "
