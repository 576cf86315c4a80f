"""`tpufn tui`: the terminal UI."""

import sys

import click

from tpufn_cli.doors import Options, choosing, command


@command("tpufn tui", "tpufn tui --sandbox --up")
@click.option("--up", is_flag=True, help="Run the embedded engine too, for as long as the terminal UI is open.")
@click.option("--set", "flags", multiple=True, metavar="KEY=VALUE", help="A key of `tpufn config`; may be repeated.")
@choosing
def tui(options: Options, up: bool, flags: tuple[str, ...]) -> int:
    """Watch and steer everything in a terminal UI.

    Slots, jobs and pools, with keys for capacity of your own: `?` shows them all. Quitting stops nothing but --up.
    """
    from contextlib import AbstractContextManager, nullcontext

    from tpufn_cli.console.opening import site_of

    if not sys.stdout.isatty() and not sys.stderr.isatty():
        raise click.UsageError("this is not a terminal; `tpufn slots`, `jobs` and `watch` print instead")
    held: AbstractContextManager[None] = nullcontext()
    if up:
        from tpufn_cli.flow.run import running

        engine = options.engine(quiet=True, seed=None, speed=1.0)
        client, held = engine.client, running(engine)
    else:
        client = options.client(quiet=True)
    from tpufn_cli.tui.app import ConsoleApp

    site = site_of(client, options, flags=flags)
    site.personal  # noqa: B018  # a wrong key is said before the screen is taken
    with held:
        app = ConsoleApp(site)
        app.run()
    _remember(app)
    if up:
        from tpufn_cli.flow.serve import farewell

        click.echo(farewell(client.status(), again=options.again("up")), err=True)
    return 128 + app.ended_by if app.ended_by else 0


def _remember(app: object) -> None:
    from tpufn_cli.tui.app import ConsoleApp

    assert isinstance(app, ConsoleApp)
    if app.last_cursor:
        app.site.memory.set_cursor(app.last_cursor)
