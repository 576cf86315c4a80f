"""`tpufn config`: the person's own configuration."""

from __future__ import annotations

from contextlib import suppress

import click

from tpufn_cli.doors import Options, as_json, choosing, command


@command("tpufn config --show", "tpufn config --init", "TPUFN_TMUX__SOCKET=work tpufn config --show")
@click.option("--show", is_flag=True, help="Print every key, its value and where that is from (the default).")
@click.option("--init", is_flag=True, help="Write a commented config.toml to start from.")
@click.option("--set", "flags", multiple=True, metavar="KEY=VALUE", help="A key as a flag; may be repeated.")
@as_json
@choosing
def config(options: Options, show: bool, init: bool, flags: tuple[str, ...], as_json: bool) -> None:
    """Show your own configuration, or start one.

    Defaults, the deployment file, config.toml, TPUFN_... variables nested with __, then --set: later ones win. The
    file is tpufn/config.toml below XDG_CONFIG_HOME (~/.config), or the one that TPUFN_CONFIG names; it is yours, and no
    part of the state in TPUFN_HOME.
    """
    if init:
        _init()
    if show or not init:
        _show(options, flags, as_json=as_json)


def _init() -> None:
    from tpufn.domain.errors import Conflict
    from tpufn_cli.console.config import config_path, template

    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        raise Conflict(f"{path} is there already; edit it, or move it away first") from None
    click.echo(f"wrote {path}")


def _show(options: Options, flags: tuple[str, ...], *, as_json: bool) -> None:
    from tpufn.domain.errors import TpufnError
    from tpufn_cli.console.config import config_path, resolve
    from tpufn_cli.render.jsonable import print_document

    fleet = None
    with suppress(TpufnError):  # nothing says which deployment is meant, or it is away: the rest still shows
        fleet = options.client(quiet=True).fleet()
    found = resolve(fleet=fleet, flags=flags).resolved
    if as_json:
        print_document({name: {"value": one.value, "from": one.source} for name, one in found.items()})
        return
    from tpufn_cli.render.console import show, table

    made = table("key", "value", "from")
    for name, one in found.items():
        made.add_row(name, str(one.value), one.source)
    show(made)
    if found["ntfy.topic"].value and found["ntfy.server"].value == "https://ntfy.sh":
        click.echo(
            "note: whoever guesses the name of an ntfy topic can read it; make it long, or use an own server", err=True
        )
    click.echo(f"file: {config_path()}" + ("" if config_path().exists() else " (not there)"), err=True)
