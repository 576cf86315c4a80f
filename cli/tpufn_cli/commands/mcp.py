"""`tpufn mcp`."""

import os
import sys

import click

from tpufn_cli.doors import Options, choosing, command


@command("tpufn mcp -d lab.yaml", "claude mcp add tpufn -- tpufn mcp -d /path/to/lab.yaml")
@click.option("--set", "flags", multiple=True, metavar="KEY=VALUE", help="A key of `tpufn config`; may be repeated.")
@choosing
def mcp(options: Options, flags: tuple[str, ...]) -> None:
    """Serve an assistant over MCP, on standard input and output.

    Slots, jobs, tmux windows and set-ups as tools. What destroys something is refused without confirm=true.
    """
    from tpufn_cli.console.opening import open_site
    from tpufn_cli.console.site import Site
    from tpufn_cli.mcp import sdk

    sdk.load()
    from tpufn_cli.mcp.server import serve

    if sys.stdin.isatty():
        click.echo("this speaks MCP on standard input; a client starts it (README: MCP)", err=True)

    def opener() -> Site:
        return open_site(options, quiet=True, flags=flags)

    serve(opener)
    sys.stderr.flush()
    os._exit(0)  # a call that hangs in its thread is not waited for
