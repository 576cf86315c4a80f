"""`tpufn jobs` and `tpufn job ID`."""

import time

import click

from tpufn_cli.doors import Options, as_json, choosing, command


@command("tpufn jobs --state pending --state active", "tpufn jobs --json")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only these states; may be repeated.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True)
@as_json
@choosing
def jobs(options: Options, states: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List jobs, newest first."""
    from tpufn_cli.render.jsonable import print_document

    _check(states)
    found = options.client(quiet=as_json, thorough=True).jobs(states=states, limit=limit)
    if as_json:
        print_document(found)
    elif not found:
        click.echo("no jobs", err=True)
    else:
        from tpufn_cli.render.console import show
        from tpufn_cli.render.jobs import jobs_table

        show(jobs_table(found, now=time.time()))


def _check(states: tuple[str, ...]) -> None:
    from tpufn.domain.job import JobState

    known = [state.value for state in JobState]
    for state in states:
        if state not in known:
            raise click.UsageError(f"{state!r} is not a state; the states are {', '.join(known)}")


@command("tpufn job demo-7f3a", "tpufn job demo-7f3a --json")
@click.argument("id", metavar="ID")
@as_json
@choosing
def job(options: Options, id: str, as_json: bool) -> None:
    """Show one job: attempts, history, specification."""
    from tpufn_cli.render.jsonable import print_document

    client = options.client(quiet=as_json)
    view = client.job(id)
    if as_json:
        print_document(view)
        return
    from tpufn_cli.render.console import show
    from tpufn_cli.render.jobs import job_details

    show(job_details(view, client.fleet(), now=time.time()))
