"""`tpufn completion`."""

import click

from tpufn_cli.doors import command

SHELLS = ("bash", "zsh", "fish")


@command('eval "$(tpufn completion bash)"', "tpufn completion fish > ~/.config/fish/completions/tpufn.fish")
@click.argument("shell", metavar="|".join(SHELLS), type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell code that completes commands."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is not None:
        click.echo(kind(ctx.find_root().command, {}, "tpufn", "_TPUFN_COMPLETE").source())
