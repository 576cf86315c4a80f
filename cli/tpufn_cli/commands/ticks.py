"""`tpufn tick`, `pause` and `resume`: the reconciling beat of a cloud deployment."""

import click

from tpufn_cli.doors import Options, choosing, command


@command("tpufn tick")
@choosing
def tick(options: Options) -> None:
    """Compare what is with what should be, now.

    Ticks come by themselves each minute; this one lists the cloud in full.
    """
    click.echo(options.client(quiet=False).tick())


@command("tpufn pause")
@choosing
def pause(options: Options) -> None:
    """Stop the ticks for maintenance.

    Running jobs go on and submissions are kept, but nothing lost is found, and idle TPUs stay, until `tpufn resume`.
    """
    click.echo(options.client(quiet=False).pause())


@command("tpufn resume")
@choosing
def resume(options: Options) -> None:
    """Start the ticks again."""
    click.echo(options.client(quiet=False).resume())
