"""`tpufn simulate`: what a deployment would do with a workload, before anything is bought."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpufn_cli.doors import Options, as_json, choosing, command

if TYPE_CHECKING:
    from tpufn.domain.fleet import Fleet
    from tpufn.planning.tally import Tally
    from tpufn.planning.workload import Planned


@command(
    "tpufn simulate deployment.yaml jobs.yaml --days 14 --html report.html",
    "tpufn simulate small.yaml jobs.yaml --compare large.yaml",
)
@click.argument("path", metavar="DEPLOYMENT.YAML")
@click.argument("jobs", metavar="JOBS.YAML")
@click.option("--days", type=click.FloatRange(min=0.01, max=366), default=14.0, show_default=True, help="How long.")
@click.option("--compare", metavar="OTHER.YAML", help="Another deployment file, with the same jobs.")
@click.option("--capacity", metavar="FILE", help="What the cloud has; `recorded`: as its history says.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed, another fortnight.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with charts.")
@as_json
@choosing
def simulate(
    options: Options,
    path: str,
    jobs: str,
    days: float,
    compare: str | None,
    capacity: str | None,
    seed: int,
    html: Path | None,
    as_json: bool,
) -> None:
    """Play a workload through a deployment, on simulated capacity.

    The real decisions run on a virtual clock: two weeks in half a minute. JOBS.YAML has `jobs`, a list of {at, tpu,
    duration, checkpoint_every, priority, count}, or `rate` with `per_hour` and a `mix` of such kinds. Prints waits,
    utilisation, preemptions, TPU-hours and cost.
    """
    from tpufn.planning.workload import planned, read_workload

    if html is not None and not html.absolute().parent.is_dir():
        raise click.UsageError(f"--html: there is no folder {html.parent}")
    work = planned(read_workload(jobs), days=days, seed=seed)
    how: dict[str, Any] = {"days": days, "seed": seed, "capacity": capacity, "quiet": as_json}
    names = (path, *([compare] if compare else []))
    plans = [(name, _play(options, name, work, **how)) for name in names]
    _tell(plans, as_json=as_json)
    if html is not None:
        from tpufn.planning.page import page

        html.write_text(page(f"{days:g} days of {jobs}", plans), encoding="utf-8")
        click.echo(f"written  {html}", err=True)


def _play(
    options: Options,
    name: str,
    work: tuple[Planned, ...],
    *,
    days: float,
    seed: int,
    capacity: str | None,
    quiet: bool,
) -> Tally:
    from rich.console import Console
    from rich.progress import Progress

    from tpufn.planning.capacity import choose
    from tpufn.planning.play import play
    from tpufn.spec.deployment import load_deployment

    fleet = load_deployment(name).fleet
    if not quiet:
        _warn(name, fleet, work)
    chips = choose(capacity, fleet, seed=seed, history=lambda: options.client(quiet=True).outcomes())
    with Progress(console=Console(stderr=True), transient=True, disable=quiet) as shown:
        task = shown.add_task(f"{name}: {len(work)} jobs", total=1.0)
        return play(
            fleet, work, chips, days=days, seed=seed, progress=lambda share: shown.update(task, completed=share)
        )


def _warn(name: str, fleet: Fleet, work: tuple[Planned, ...]) -> None:
    """Jobs that can never start, by their types: they are in no wait."""
    there = {pool.type for pool in fleet.pools}
    never = Counter(", ".join(job.tpu) for job in work if "any" not in job.tpu and not there & set(job.tpu))
    for types, number in never.items():
        click.echo(f"{click.style('warning:', fg='yellow')} {name} has no {types}: {number} jobs never start", err=True)


def _tell(plans: list[tuple[str, Tally]], *, as_json: bool) -> None:
    if as_json:
        from tpufn_cli.render.jsonable import print_document

        found: list[Any] = [{"deployment": name, "summary": tally.summary()} for name, tally in plans]
        print_document({"plans": found})
        return
    from tpufn.planning.page import rows_of, shown
    from tpufn_cli.render.console import show, table

    summary = table("", *(name for name, _ in plans))
    for cells in zip(*(rows_of(tally.summary()) for _, tally in plans), strict=True):
        summary.add_row(cells[0][0], *(text for _, text in cells))
    show(summary)
    numbers = ("attempts", "TPU-hours", "busy", "preemptions", "cost")
    for name, tally in plans:
        click.echo(f"\n{name}")
        pools = table("pool", *numbers, numbers=numbers)
        for row in shown(tally):
            pools.add_row(*row)
        show(pools)
