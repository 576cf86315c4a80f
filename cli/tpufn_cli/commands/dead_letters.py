"""`tpufn dead-letters list` and `replay`: messages that nobody could deliver or read."""

import time

import click

from tpufn_cli.doors import Options, as_json, choosing


@click.group(name="dead-letters", epilog="\b\nExample:\n  tpufn dead-letters list")
def dead_letters() -> None:
    """Messages that could not be delivered or read."""


@dead_letters.command(name="list", epilog="\b\nExample:\n  tpufn dead-letters list --json")
@as_json
@choosing
def list_letters(options: Options, as_json: bool) -> None:
    """Show them, oldest first; they stay."""
    from tpufn_cli.render.jsonable import print_document

    found = options.client(quiet=as_json).dead_letters()
    if as_json:
        print_document(found)
    elif not found:
        click.echo("no dead letters", err=True)
    else:
        from tpufn_cli.render.console import show
        from tpufn_cli.render.letters import letters_table

        show(letters_table(found, now=time.time()))


@dead_letters.command(name="replay", epilog="\b\nExample:\n  tpufn dead-letters replay 8123")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All of them.")
@as_json
@choosing
def replay(options: Options, ids: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Send them again, each to its topic, and forget them here.

    Every function bears a message twice. One that is still not readable comes back.
    """
    from tpufn_cli.render.jsonable import print_document

    if bool(ids) == everything:
        raise click.UsageError("name the ids of dead letters, or give --all")
    answers = options.client(quiet=as_json).replay(ids)
    if as_json:
        print_document(answers)
        return
    for id, answer in answers.items():
        click.echo(f"{id}: {answer}")
