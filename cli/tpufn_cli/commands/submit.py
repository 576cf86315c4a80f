"""`tpufn submit`: hand a job file over, and wait for its end if asked to."""

from __future__ import annotations

import sys
from math import inf
from typing import TYPE_CHECKING

import click

from tpufn_cli.doors import Options, as_json_lines, choosing, command

if TYPE_CHECKING:
    from tpufn.client import Client
    from tpufn.domain.views import Receipt
    from tpufn_cli.flow.run import Teller


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
    _hand_over(client, receipt, to_stderr=wait, as_json=as_json)
    if wait:
        return _wait(options, client, receipt, as_json=as_json)
    if client.serves():
        client.wait_accepted(receipt)
    else:
        click.echo(options.unserved(), err=True)
    if not as_json:
        _say_next(options, receipt.jobs[0])
    return 0


def _wait(options: Options, client: Client, receipt: Receipt, *, as_json: bool) -> int:
    """To the end of the jobs; where no engine is there, first until there is one."""
    from tpufn_cli.flow.follow import leaving, teller

    tell = teller(as_json=as_json)
    with leaving(tell.say, options.again(f"watch {' '.join(receipt.jobs)}")):
        if client.serves():
            client.wait_accepted(receipt)
        else:
            click.echo(options.unserved(), err=True)
            client.wait_accepted(receipt, timeout=inf)
        return _follow(client, receipt.jobs, tell, as_json=as_json)


def _follow(client: Client, ids: tuple[str, ...], tell: Teller, *, as_json: bool) -> int:
    from tpufn_cli.flow.ending import finished_event
    from tpufn_cli.flow.follow import follow, say_ends
    from tpufn_cli.render.jsonable import print_event

    ending = follow(client, ids, tell)
    if as_json:
        print_event(finished_event(ending))
    else:
        say_ends(ending)
    return ending.exit_code


def _hand_over(client: Client, receipt: Receipt, *, to_stderr: bool, as_json: bool) -> None:
    """The ids at once: whatever comes, they are the jobs'. What follows has stdout for itself."""
    from tpufn_cli.render.jsonable import print_event

    if as_json:
        print_event(
            {"event": "submitted", "submission": receipt.submission, "jobs": receipt.jobs, "where": client.where}
        )
        return
    for id in receipt.jobs:
        click.echo(f"submitted {id}" if to_stderr else id, err=to_stderr)
    sys.stdout.flush()


def _say_next(options: Options, id: str) -> None:
    lines = (options.again(f"{command} {id}") for command in ("watch", "why", "logs -f"))
    click.secho("\n".join(f"next: {line}" for line in lines), err=True, dim=True)
