"""`tpufn fleet apply`: the fleet changes without Terraform."""

import click

from tpufn_cli.doors import Options, as_json, choosing


@click.group(name="fleet", epilog="\b\nExample:\n  tpufn fleet apply deployment.yaml")
def fleet() -> None:
    """Declare the fleet."""


@fleet.command(name="apply", epilog="\b\nExample:\n  tpufn fleet apply deployment.yaml")
@click.argument("path", metavar="[DEPLOYMENT.YAML]", required=False, default="")
@as_json
@choosing
def apply(options: Options, path: str, as_json: bool) -> None:
    """Declare what the deployment file says, at once.

    New pools can be used from now on; slots of pools that left the file are given back when their jobs have ended.
    What the project could not have is asked for again: run it when a quota was raised.
    """
    from dataclasses import replace

    from tpufn_cli.render.jsonable import print_document

    chosen = replace(options, deployment=options.deployment or path or None)
    applied = chosen.client(quiet=as_json).apply(path)
    if as_json:
        print_document(applied)
        return
    from tpufn_cli.render.words import count

    slots = sum(1 for _ in applied.slots())
    click.echo(
        f"{applied.name}: revision {applied.revision}, {count(len(applied.pools), 'pool')}, {count(slots, 'slot')}"
    )
