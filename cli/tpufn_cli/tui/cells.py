"""What the tables show: values become cells. Pure; styles are the command line's names, inked by the theme later."""

from collections.abc import Iterable, Mapping

from rich.text import Text

from tpufn.domain.job import Job
from tpufn.domain.slot import HOLDING_CHIPS
from tpufn.domain.views import PoolOutlook, SlotView, Status
from tpufn_cli.console.latency import shown
from tpufn_cli.render import words
from tpufn_cli.render.console import styled
from tpufn_cli.render.jobs import where
from tpufn_cli.render.why import next_try
from tpufn_cli.tui.steady import Column
from tpufn_cli.tui.theme import ink

Cells = dict[str, Text]
_SILENT = 5.0
"""Seconds without any answer after which the top line says so."""

_STAR = Column("star", " ", 1)
_SLOT = Column("slot", "slot")
_ZONE = Column("zone", "zone")
_LATENCY = Column("latency", "latency", 7, right=True)
_TYPE = Column("type", "type")
_MODE = Column("mode", "mode")
_STATE = Column("state", "state", 14)
_AGE = Column("age", "for", 6, right=True)
_ABOUT = Column("about", "job or holder", rest=True)
_PRICE = Column("price", "$/h", 7, right=True)

SLOT_COLUMNS = {
    "wide": (_STAR, _SLOT, _ZONE, _LATENCY, _TYPE, _MODE, _STATE, _AGE, _ABOUT, _PRICE),
    "medium": (_STAR, _SLOT, _LATENCY, _TYPE, _STATE, _AGE, _ABOUT, _PRICE),
    "narrow": (_STAR, _SLOT, _STATE, _AGE, _ABOUT),
}
JOB_COLUMNS = {
    "wide": (
        Column("job", "job"),
        Column("state", "state", 13),
        Column("age", "for", 6, right=True),
        Column("priority", "priority", 8),
        Column("try", "try", 3, right=True),
        Column("counted", "preempted", 9, right=True),
        Column("submitted", "age", 6, right=True),
        Column("about", "where or why", rest=True),
    ),
    "narrow": (
        Column("job", "job"),
        Column("state", "state", 13),
        Column("age", "for", 6, right=True),
        Column("priority", "priority", 8),
        Column("about", "where or why", rest=True),
    ),
}
JOB_COLUMNS["medium"] = JOB_COLUMNS["wide"]
_POOL = Column("pool", "pool")
_NUMBERS = tuple(
    Column(key, title, 5, right=True)
    for key, title in (("free", "free"), ("coming", "legs"), ("idle", "idle"), ("busy", "busy"), ("held", "held"))
)
_CHIPS = Column("chips", "chips", 9, right=True)
_LAST = Column("last", "last outcome", 18)
_NEXT = Column("next", "next try", rest=True)
POOL_COLUMNS = {
    "wide": (_POOL, Column("type", "type"), Column("zone", "zone"), *_NUMBERS, _CHIPS, _LAST, _NEXT),
    "medium": (_POOL, *_NUMBERS, _CHIPS, _LAST, _NEXT),
    "narrow": (_POOL, _NUMBERS[0], _NUMBERS[1], _NUMBERS[3], _LAST, _NEXT),
}

GLYPHS = {
    "free": "○",
    "requesting": "◔",
    "waiting": "◔",
    "provisioning": "◑",
    "booting": "◕",
    "idle": "●",
    "busy": "●",
    "cleaning": "◐",
    "releasing": "◌",
    "retired": "·",
}
"""How far a slot is, for those who see no colours."""


def kind_of(width: int) -> str:
    """Which columns fit."""
    if width >= 128:
        return "wide"
    return "medium" if width >= 96 else "narrow"


def slot_cells(
    slot: SlotView, *, now: float, stars: Iterable[str], figures: Mapping[str, float], dark: bool, doing: str = ""
) -> Cells:
    """One row of the slot table. `doing`: what this program is doing to it just now."""
    quiet = slot.state == "free"
    charged = slot.state in HOLDING_CHIPS and slot.price_per_hour

    def text(value: str, style: str = "") -> Text:
        return Text(value, style=ink(style, dark=dark))

    plain = "dim" if quiet else ""
    return {
        "star": text("★" if slot.name in stars else " ", "yellow"),
        "slot": text(slot.name, plain),
        "zone": text(slot.zone, plain),
        "latency": text(shown(slot.zone, dict(figures)), "dim"),
        "type": text(slot.type, plain),
        "mode": text(slot.model, plain),
        "state": text(f"{GLYPHS.get(slot.state, '?')} {slot.state}", styled(slot.state) or "cyan"),
        "age": text(words.since(slot.since, now) if slot.generation or not quiet else "-", "dim"),
        "about": _about(slot, doing, dark=dark),
        "price": text(f"{slot.price_per_hour:.2f}" if charged else "-", "" if charged else "dim"),
    }


def _about(slot: SlotView, doing: str, *, dark: bool) -> Text:
    parts: list[tuple[str, str]] = []
    if doing:
        parts.append((f"{doing}…", ink("cyan", dark=dark)))
    if slot.hold:
        parts.append((f"⚑ {slot.hold}", ink("yellow", dark=dark)))
    if slot.job:
        parts.append((slot.attempt or slot.job, ink("green", dark=dark)))
    elif slot.cause and slot.state != "idle":
        parts.append((slot.cause, ink("dim", dark=dark)))
    spaced = [piece for part in parts for piece in (part, ("  ", ""))][:-1]
    return Text.assemble(*spaced)


def job_cells(job: Job, *, now: float, dark: bool) -> Cells:
    def text(value: str, style: str = "") -> Text:
        return Text(value, style=ink(style, dark=dark))

    about = where(job)
    if about == "-":
        about = job.unschedulable if job.wants_capacity and job.unschedulable else job.cause
    return {
        "job": text(job.id, "dim" if job.is_terminal else ""),
        "state": text(str(job.state), styled(job.state)),
        "age": text(words.since(job.since, now), "dim"),
        "priority": text(job.priority.label, {"high": "yellow", "low": "dim"}.get(job.priority.label, "")),
        "try": text(str(job.attempt or "-"), "dim"),
        "counted": text(str(job.preemptions or "-"), "magenta" if job.preemptions else "dim"),
        "submitted": text(words.since(job.submitted_at, now), "dim"),
        "about": text(about.splitlines()[0] if about else "", "dim" if job.is_terminal else ""),
    }


def pool_cells(pool: PoolOutlook, *, now: float, dark: bool) -> Cells:
    def text(value: str, style: str = "") -> Text:
        return Text(value, style=ink(style, dark=dark))

    def number(value: int, style: str) -> Text:
        return text(str(value), style if value else "dim")

    last = f"{pool.last_outcome} {words.age(now - pool.last_at)} ago" if pool.last_outcome else "-"
    cooling = pool.next_try_at > now
    return {
        "pool": text(pool.pool),
        "type": text(pool.type, "dim"),
        "zone": text(pool.zone, "dim"),
        "free": text(f"{pool.free}/{pool.ceiling}", "" if pool.free else "dim"),
        "coming": number(pool.coming, "blue"),
        "idle": number(pool.idle, "cyan"),
        "busy": number(pool.busy, "green"),
        "held": number(pool.held, "yellow"),
        "chips": text(f"{pool.chips_used}/{pool.chip_limit}" if pool.chip_limit else str(pool.chips_used), "dim"),
        "last": text(last, "green" if pool.last_outcome == "granted" else "yellow" if pool.last_outcome else "dim"),
        "next": text(next_try(pool.next_try_at, now), "yellow" if cooling else "dim"),
    }


def summary(status: Status, *, dark: bool, late: float = 0.0, narrow: bool = False) -> Text:
    """The right end of the top line: jobs, TPUs, money, and whether somebody works on them."""
    jobs = sum(number for state, number in status.jobs.items() if state in ("pending", "waiting", "active"))
    runs, silent = status.engine == "running", late >= _SILENT
    parts = [
        (words.count(status.chips, "chip"), "cyan" if status.chips else "dim"),
        (f"{words.money(status.cost_per_hour)}/h", "yellow" if status.cost_per_hour else "dim"),
        (f"▲ no answer for {words.age(late)}", "red") if silent else _engine(status.engine, runs),
    ]
    if not narrow:
        parts.insert(0, (words.count(jobs, "open job"), ""))
    pieces = [piece for text, style in parts for piece in ((text, ink(style, dark=dark)), ("  ", ""))]
    return Text.assemble(*pieces[:-1])


def _engine(state: str, runs: bool) -> tuple[str, str]:
    return (f"● {state}", "green") if runs else (f"▲ {state}", "red")
