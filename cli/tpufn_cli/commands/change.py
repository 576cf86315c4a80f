"""Small changes: a job's priority, a new try of an ended job, a TPU that is given up."""

import click

from tpufn_cli.doors import Options, as_json, choosing, command


@command("tpufn set-priority demo-7f3a high", name="set-priority")
@click.argument("id", metavar="ID")
@click.argument("priority", metavar="low|normal|high", type=click.Choice(["low", "normal", "high"]))
@as_json
@choosing
def set_priority(options: Options, id: str, priority: str, as_json: bool) -> None:
    """Change a job's priority.

    It changes the order in which pending jobs get capacity; a running job is never stopped for another.
    """
    from tpufn.domain.job import Priority

    answer = options.client(quiet=as_json).set_priority(id, Priority[priority.upper()])
    _answer({"job": id, "priority": priority, "answer": answer}, f"{id}: {answer}", as_json=as_json)


@command("tpufn retry demo-7f3a")
@click.argument("id", metavar="ID")
@as_json
@choosing
def retry(options: Options, id: str, as_json: bool) -> None:
    """Submit a failed job again, with its checkpoints.

    Or a cancelled one: the same command, bundle and environment, under a new id, which is printed.
    """
    client = options.client(quiet=as_json)
    new = client.retry(id)
    if not client.serves():
        click.echo(options.unserved(), err=True)
    _answer({"job": new, "retry_of": id}, new, as_json=as_json)


@command("tpufn interrupt spot-v6e16-ue5a-1")
@click.argument("slot", metavar="SLOT")
@as_json
@choosing
def interrupt(options: Options, slot: str, as_json: bool) -> None:
    """Give a busy TPU up; its job retries.

    The job's attempt is stopped and closed as interrupted; nothing is counted against the job.
    """
    answer = options.client(quiet=as_json).interrupt(slot)
    _answer({"slot": slot, "answer": answer}, f"{slot}: {answer}", as_json=as_json)


def _answer(document: dict[str, str], line: str, *, as_json: bool) -> None:
    from tpufn_cli.render.jsonable import print_document

    if as_json:
        print_document(document)
    else:
        click.echo(line)
