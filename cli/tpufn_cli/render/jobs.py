"""Jobs as a table, and one job with all that is known of it."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobSpec
from tpufn.domain.notes import Note
from tpufn.domain.views import JobView
from tpufn_cli.render import words
from tpufn_cli.render.attempts import attempts_table
from tpufn_cli.render.console import fitted, pairs, styled
from tpufn_cli.render.notes import clock, phrase

HISTORY_SHOWN = 12


def jobs_table(jobs: Iterable[Job], *, now: float) -> Table:
    """One row per job, in the order given."""
    headers = ("job", "state", "for", "priority", "try", "where", "age")
    rows = (
        (
            Text(job.id),
            Text(str(job.state), style=styled(job.state)),
            words.since(job.since, now),
            job.priority.label,
            str(job.attempt),
            where(job),
            words.since(job.submitted_at, now),
        )
        for job in jobs
    )
    return fitted(headers, rows, numbers=("for", "try", "age"), spare=("age", "priority", "try", "for"))


def where(job: Job) -> str:
    """The slot that it has, or what keeps it waiting, in a word or two."""
    if job.slot:
        return job.slot
    if job.unschedulable and job.wants_capacity:
        return "unschedulable"
    return f"in {job.region}" if job.region and job.wants_capacity else "-"


def job_details(view: JobView, fleet: Fleet, *, now: float, width: int = 0) -> RenderableType:
    """Facts, attempts, and the last of its history. `width` as in `fitted`."""
    parts: list[RenderableType] = [
        _facts(view.job, view.spec, now),
        Text(),
        attempts_table(view, fleet, now=now, width=width),
    ]
    if view.history:
        parts += [Text(), Text(f"history (last {min(HISTORY_SHOWN, len(view.history))})", style="bold")]
        parts.append(_history(view.history[-HISTORY_SHOWN:]))
    return Group(*parts)


def _facts(job: Job, spec: JobSpec | None, now: float) -> RenderableType:
    grid = pairs()
    grid.add_row("job", Text(job.id, style="bold"))
    if job.name and job.name != job.id:
        grid.add_row("name", job.name)
    state = Text.assemble((str(job.state), styled(job.state)), f" for {words.since(job.since, now)}")
    grid.add_row("state", state)
    for name, value in (("cause", job.cause), ("unschedulable", job.unschedulable)):
        if value:
            grid.add_row(name, value)
    grid.add_row("priority", job.priority.label)
    grid.add_row("submitted", f"{words.since(job.submitted_at, now)} ago")
    if where(job) != "-":
        grid.add_row("where", where(job))
    _failures(grid, job)
    _specification(grid, job, spec)
    return grid


def _failures(grid: Table, job: Job) -> None:
    counts = (
        (job.preemptions, "preemption"),
        (job.infrastructure_failures, "infrastructure failure"),
        (job.application_failures, "application failure"),
    )
    said = ", ".join(words.count(number, noun) for number, noun in counts if number)
    if said:
        grid.add_row("counted", said)


def _specification(grid: Table, job: Job, spec: JobSpec | None) -> None:
    grid.add_row("buckets", ", ".join(f"gs://{bucket} ({region})" for region, bucket in job.buckets.items()) or "-")
    if spec is None:
        return
    grid.add_row("tpu", spec.tpu_name or ", ".join(spec.tpu))
    grid.add_row("command", words.printable(spec.command))
    if spec.bundle.files:
        grid.add_row("bundle", f"{words.count(spec.bundle.files, 'file')}, {words.size(spec.bundle.size)}")


def _history(notes: Iterable[Note]) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    for wrap in (False, False, True):
        grid.add_column(no_wrap=not wrap, overflow="fold")
    for note in notes:
        grid.add_row(Text(clock(note.at, None), style="dim"), note.event, phrase(note))
    return grid
