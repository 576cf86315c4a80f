"""A plan as one HTML page: numbers, a Gantt chart of the slots, the length of the queue. Nothing comes from outside."""

from collections.abc import Iterator, Sequence
from html import escape

from tpufn.planning.tally import CHARGED, Span, Summary, Tally

WIDTH, LABELS, ROW = 1000, 190, 12
PLOT = 160
_ROWS = 300
"""Slots in a chart; the busiest ones where there are more."""
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --dim: #667085; --line: #d5dae3; --bg: #ffffff;
  --busy: #2f6fde; --idle: #b9c3d3; --leg: #f0c75e; --going: #e4e7ec; --queue: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --dim: #98a2b3; --line: #344054; --bg: #12161d;
  --busy: #5b93f5; --idle: #475467; --leg: #b48a1e; --going: #2a303b; --queue: #fb923c; } }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--bg); max-width: 1240px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; } th { text-align: left; color: var(--dim); font-weight: 500; }
td, th { padding: .15rem 1.2rem .15rem 0; border-bottom: 1px solid var(--line); } td.n { text-align: right; }
svg { width: 100%; height: auto; } svg text { fill: var(--dim); font: 9px system-ui, sans-serif; }
.busy { fill: var(--busy); } .idle { fill: var(--idle); } .leg { fill: var(--leg); } .going { fill: var(--going); }
.grid { stroke: var(--line); stroke-width: .5; } .queue { fill: none; stroke: var(--queue); stroke-width: 1.2; }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }
"""
_KEY = (("busy", "a job runs"), ("idle", "there, without a job"), ("leg", "asked for"), ("going", "being given back"))


def page(title: str, plans: Sequence[tuple[str, Tally]]) -> str:
    """One plan, or several side by side under each other, each with its name."""
    parts = "".join(f"<h2>{escape(name)}</h2>{_plan(tally)}" for name, tally in plans)
    table = _numbers([(name, tally.summary()) for name, tally in plans])
    head = f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>"
    return f"{head}<h1>{escape(title)}</h1>{table}{parts}\n"


def rows_of(summary: Summary) -> tuple[tuple[str, str], ...]:
    """The numbers in words, for a table of any kind."""
    waits = (summary.wait_mean, summary.wait_p50, summary.wait_p95)
    mean, median, most = map(minutes, waits) if summary.started else ("-", "-", "-")
    return (
        ("jobs", f"{summary.jobs} submitted, {summary.started} started, {summary.finished} finished"),
        ("wait, mean", mean),
        ("wait, median", median),
        ("wait, 95 %", most),
        ("utilisation", f"{summary.utilisation:.1%} of the chip-time that is paid for"),
        ("preemptions", str(summary.preemptions)),
        ("chip-hours", f"{summary.chip_hours:,.0f}"),
        ("cost", f"${summary.cost:,.0f} at list prices"),
    )


def minutes(seconds: float) -> str:
    """As people say it: 45 s, 12 min, 3.4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _numbers(plans: Sequence[tuple[str, Summary]]) -> str:
    columns = [rows_of(summary) for _, summary in plans]
    head = "".join(f"<th>{escape(name)}" for name, _ in plans)
    lines = (
        f"<tr><th>{escape(cells[0][0])}" + "".join(f"<td>{escape(text)}" for _, text in cells)
        for cells in zip(*columns, strict=True)
    )
    return f"<table><tr><th>{head}{''.join(lines)}</table>"


def _plan(tally: Tally) -> str:
    return f"{_pools(tally.summary())}{_queue(tally)}{_key()}{_gantt(tally)}"


def _pools(summary: Summary) -> str:
    head = "".join(f"<th>{name}" for name in ("pool", "attempts", "TPU-hours", "busy", "preemptions", "cost"))
    lines = (
        f"<tr><td>{escape(p.pool)}<td class=n>{p.jobs}<td class=n>{p.hours:,.1f}<td class=n>"
        f"{p.busy / p.hours if p.hours else 0:.0%}<td class=n>{p.preemptions}<td class=n>${p.cost:,.0f}"
        for p in summary.pools
    )
    return f"<table><tr>{head}{''.join(lines)}</table>"


def _queue(tally: Tally) -> str:
    """Jobs that wait for a TPU, as steps."""
    most = max((length for _, length in tally.queue), default=0) or 1
    points, last = [f"{LABELS},{PLOT}"], 0
    for at, length in tally.queue:
        points += [f"{_x(at, tally):.1f},{_y(last, most):.1f}", f"{_x(at, tally):.1f},{_y(length, most):.1f}"]
        last = length
    points.append(f"{LABELS + WIDTH},{_y(last, most):.1f}")
    label = f'<text x="{LABELS - 6}" y="14" text-anchor="end">{most} waiting</text>'
    line = f'<polyline class=queue points="{" ".join(points)}"/>'
    return _svg(PLOT + 16, f"{_days(tally, PLOT)}{label}{line}")


def _y(length: int, most: int) -> float:
    return PLOT - length / most * (PLOT - 10)


def _gantt(tally: Tally) -> str:
    by_slot: dict[str, list[Span]] = {}
    for span in tally.spans:
        by_slot.setdefault(span.slot, []).append(span)
    names = sorted(by_slot, key=lambda name: -sum(s.end - s.start for s in by_slot[name]))[:_ROWS]
    height = len(names) * ROW
    bars = "".join(_row(number, name, by_slot[name], tally) for number, name in enumerate(sorted(names, key=_natural)))
    return _svg(height + 16, f"{_days(tally, height)}{bars}")


def _row(number: int, name: str, spans: Sequence[Span], tally: Tally) -> str:
    y = number * ROW
    label = f'<text x="{LABELS - 6}" y="{y + 9}" text-anchor="end">{escape(name)}</text>'
    return label + "".join(_bar(span, y, tally) for span in spans)


def _bar(span: Span, y: int, tally: Tally) -> str:
    kind = "busy" if span.job else "idle" if span.state in CHARGED else "going" if span.state == "releasing" else "leg"
    width = max(0.2, _x(span.end, tally) - _x(span.start, tally))
    what = escape(f"{span.job or span.state}, {minutes(span.end - span.start)}")
    place = f'x="{_x(span.start, tally):.1f}" y="{y + 1}" width="{width:.1f}" height="{ROW - 2}"'
    return f"<rect class={kind} {place}><title>{what}</title></rect>"


def _days(tally: Tally, height: int) -> str:
    days = tally.horizon / 86400
    step = max(1, round(days / 14)) if days > 2 else 0.25
    lines: list[str] = []
    at = 0.0
    while at <= days + 1e-9:
        x = _x(at * 86400, tally)
        lines.append(f'<line class=grid x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>')
        lines.append(f'<text x="{x:.1f}" y="{height + 12}" text-anchor="middle">day {at:g}</text>')
        at += step
    return "".join(lines)


def _key() -> str:
    return "<p class=key>" + "".join(f'<span style="background: var(--{kind})"></span>{text}' for kind, text in _KEY)


def _x(at: float, tally: Tally) -> float:
    return LABELS + at / tally.horizon * WIDTH


def _svg(height: int, inside: str) -> str:
    return f'<svg viewBox="0 0 {LABELS + WIDTH + 20} {height}" xmlns="http://www.w3.org/2000/svg">{inside}</svg>'


def _natural(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if number.isdecimal() else (name, 0)


def shown(tally: Tally) -> Iterator[tuple[str, ...]]:
    """The pools as rows of text."""
    for pool in tally.summary().pools:
        share = f"{pool.busy / pool.hours:.0%}" if pool.hours else "-"
        yield (pool.pool, str(pool.jobs), f"{pool.hours:,.1f}", share, str(pool.preemptions), f"${pool.cost:,.0f}")
