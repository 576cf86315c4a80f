"""`tpufn tmux`: the windows that mirror the usable TPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpufn_cli.doors import Options, as_json, choosing, epilog

if TYPE_CHECKING:
    from tpufn_cli.console.tmux import Mirror

_set = click.option("--set", "flags", multiple=True, metavar="KEY=VALUE", help="A key of `tpufn config`.")


@click.group(epilog=epilog("tpufn tmux sync", "tpufn tmux open spot-v6e16-ue5a-1"))
@choosing
def tmux(options: Options) -> None:
    """Keep a tmux window for each usable TPU.

    Sessions are named after zones (tpu-ew4a), windows after slots. Nothing is ever closed except by `close`.
    """
    click.get_current_context().obj = options


@tmux.command(epilog=epilog("tpufn tmux sync"))
@_set
@as_json
@choosing
def sync(options: Options, flags: tuple[str, ...], as_json: bool) -> None:
    """Open the windows that are missing."""
    from tpufn_cli.console.opening import open_site
    from tpufn_cli.render.jsonable import print_document

    site = open_site(options, quiet=as_json, flags=flags)
    slots = site.client.slots()
    made = site.mirror.sync(slots)
    if as_json:
        print_document({"opened": made})
        return
    for name in made:
        click.echo(f"{name}: opened")
    _say(site.mirror.look(slots))


@tmux.command(epilog=epilog("tpufn tmux status --json"))
@_set
@as_json
@choosing
def status(options: Options, flags: tuple[str, ...], as_json: bool) -> None:
    """Say which slots have a window, which do not, and which windows are orphaned."""
    from tpufn_cli.console.opening import open_site
    from tpufn_cli.render.jsonable import print_document

    site = open_site(options, quiet=as_json, flags=flags)
    mirror = site.mirror.look(site.client.slots())
    if as_json:
        print_document({**_document(mirror)})
    else:
        _say(mirror)


@tmux.command("open", epilog=epilog("tpufn tmux open spot-v6e16-ue5a-1"))
@click.argument("name", metavar="NAME")
@_set
@as_json
@choosing
def open_(options: Options, name: str, flags: tuple[str, ...], as_json: bool) -> None:
    """Open a slot's window, or start its shell again, and make it current."""
    from tpufn_cli.console.opening import open_site
    from tpufn_cli.render.jsonable import print_document

    site = open_site(options, quiet=as_json, flags=flags)
    said = site.mirror.open(site.slot(name))
    print_document({name: said}) if as_json else click.echo(said)


@tmux.command(epilog=epilog("tpufn tmux close spot-v6e16-ue5a-1 --yes"))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@_set
@as_json
@choosing
def close(options: Options, names: tuple[str, ...], yes: bool, flags: tuple[str, ...], as_json: bool) -> None:
    """Close slots' windows, with all that runs in them here."""
    from tpufn_cli.console.opening import open_site
    from tpufn_cli.render.jsonable import print_document

    site = open_site(options, quiet=as_json, flags=flags)
    if not yes:
        click.confirm(f"Close the tmux windows of {', '.join(names)}?", abort=True, err=True)
    slots = site.client.slots()
    said = {name: site.mirror.close(name, slots) for name in names}
    if as_json:
        print_document(said)
        return
    for line in said.values():
        click.echo(line)


def _document(mirror: Mirror) -> dict[str, object]:
    return {
        "windows": {name: [w.id for w in windows] for name, windows in mirror.shown.items()},
        "dead": [name for name, windows in mirror.shown.items() if all(w.dead for w in windows)],
        "missing": mirror.missing,
        "orphaned": mirror.orphaned,
        "duplicates": mirror.duplicates,
    }


def _say(mirror: Mirror) -> None:
    for name, windows in mirror.shown.items():
        shell = "its shell has ended" if all(w.dead for w in windows) else "open"
        more = f"; {len(windows)} windows have this name" if len(windows) > 1 else ""
        click.echo(f"{name}: {shell}, in session {windows[0].session}{more}")
    for name in mirror.missing:
        click.echo(f"{name}: no window; `tpufn tmux sync` opens one")
    for window in mirror.orphaned:
        click.echo(f"{window.name}: orphaned ({window.tpu} is gone), in session {window.session}")
    if not (mirror.shown or mirror.missing or mirror.orphaned):
        click.echo("no TPU is usable, and no window is open", err=True)
