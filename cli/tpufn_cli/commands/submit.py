"""`tpufn submit`: hand a job file over, and wait for its end if asked to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tpufn_cli.doors import Options, as_json_lines, choosing, command

if TYPE_CHECKING:
    from tpufn.client import Client
    from tpufn.domain.views import Receipt


@command("tpufn submit job.yaml --wait", "id=$(tpufn -d lab.yaml submit job.yaml)")
@click.argument("path", metavar="JOB.YAML")
@click.option("--job-id", metavar="ID", help="The job's id; submitting it again changes nothing.")
@click.option("--wait", is_flag=True, help="Follow until the end; the exit code says how it ended.")
@as_json_lines
@choosing
def submit(options: Options, path: str, job_id: str | None, wait: bool, as_json: bool) -> int:
    """Submit a job file, or `-` for standard input.

    Prints the job's id on stdout, everything else on stderr. With --wait it prints what happens until the end.
    """
    from tpufn_cli.flow.follow import progress

    if job_id == "":
        raise click.UsageError("--job-id is empty: name one, or leave it out")
    client = options.client(quiet=as_json)
    receipt = client.submit(path, job_id=job_id or "", progress=None if as_json else progress)
    if not wait:
        _hand_over(client, receipt, as_json=as_json)
    _await(client, receipt, wait=wait)
    if wait:
        return _follow(client, receipt.jobs, as_json=as_json)
    if not as_json:
        _say_next(options, receipt.jobs[0])
    return 0


def _await(client: Client, receipt: Receipt, *, wait: bool) -> None:
    """Until the jobs exist, or are refused; not at all where no engine is there to make them."""
    if client.serves():
        client.wait_accepted(receipt)
        return
    click.echo("no engine runs here: `tpufn up` in another terminal takes the job on", err=True)
    if wait:
        client.wait_accepted(receipt, timeout=3600.0)


def _follow(client: Client, ids: tuple[str, ...], *, as_json: bool) -> int:
    from tpufn_cli.flow.ending import finished_event
    from tpufn_cli.flow.follow import follow, say_ends, teller
    from tpufn_cli.render.jsonable import print_event

    ending = follow(client, ids, teller(as_json=as_json))
    if as_json:
        print_event(finished_event(ending))
    else:
        say_ends(ending)
    return ending.exit_code


def _hand_over(client: Client, receipt: Receipt, *, as_json: bool) -> None:
    """The ids at once: whatever comes, they are the jobs'."""
    from tpufn_cli.render.jsonable import print_event

    if as_json:
        print_event(
            {"event": "submitted", "submission": receipt.submission, "jobs": receipt.jobs, "where": client.where}
        )
        return
    for id in receipt.jobs:
        click.echo(id)
    sys.stdout.flush()


def _say_next(options: Options, id: str) -> None:
    lines = (options.again(f"{command} {id}") for command in ("watch", "why", "logs -f"))
    click.secho("\n".join(f"next: {line}" for line in lines), err=True, dim=True)
