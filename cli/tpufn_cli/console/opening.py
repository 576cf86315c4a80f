"""A command's options become a site."""

from collections.abc import Sequence
from pathlib import Path

from tpufn import settings
from tpufn.client import Client
from tpufn_cli.console.site import Site
from tpufn_cli.doors import Options


def open_site(options: Options, *, quiet: bool, flags: Sequence[str] = ()) -> Site:
    """The client of the options with its surroundings; mode and place are named unless `quiet`."""
    return site_of(options.client(quiet=quiet), options, flags=flags)


def site_of(client: Client, options: Options, *, flags: Sequence[str] = ()) -> Site:
    chosen = settings.load(home=options.home, deployment=options.deployment)
    named = Path(chosen.deployment)
    base = named.absolute().parent if chosen.deployment and named.exists() else Path.cwd()
    return Site(client, home=chosen.home, base=base, flags=flags)
