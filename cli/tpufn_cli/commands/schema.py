"""`tpufn schema`."""

import click

from tpufn_cli.doors import command

KINDS = ("submission", "command", "event", "job", "deployment")


@command("tpufn schema job > job.schema.json")
@click.argument("kind", metavar="|".join(KINDS), type=click.Choice(KINDS))
def schema(kind: str) -> None:
    """Print a JSON Schema.

    `job` and `deployment` are the files; `submission` and `command` are the messages that other services publish,
    `event` is what they receive.
    """
    from tpufn.spec.schema import json_schema
    from tpufn_cli.render.jsonable import print_document

    print_document(json_schema(kind))
