"""`tpufn slots` and its changes, and `tpufn race`: capacity for people, from the same table as the jobs'."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from tpufn_cli.doors import Options, as_json, choosing, command, epilog

if TYPE_CHECKING:
    from tpufn.client import Client

_names = click.argument("names", metavar="NAME...", nargs=-1, required=True)


@click.group(invoke_without_command=True, epilog=epilog("tpufn slots --json", "tpufn slots queue spot-v6e16-ue5a-1"))
@as_json
@choosing
def slots(options: Options, as_json: bool) -> None:
    """List the fleet's slots and what they hold.

    Its commands take some for yourself. A slot that you queue, race or hold is yours: it gets no jobs and is not torn
    down until you release or delete it.
    """
    context = click.get_current_context()
    context.obj = options
    if context.invoked_subcommand is None:
        _list(options, as_json=as_json)


def _list(options: Options, *, as_json: bool) -> None:
    from tpufn_cli.render.jsonable import print_document

    found = options.client(quiet=as_json).slots()
    if as_json:
        print_document(found)
        return
    from tpufn_cli.render.console import show
    from tpufn_cli.render.slots import slots_table

    show(slots_table(found, now=time.time()))


def _change(options: Options, ask: Callable[[Client], Mapping[str, str]], *, as_json: bool) -> None:
    _tell(ask(options.client(quiet=as_json)), as_json=as_json)


def _tell(answers: Mapping[str, str], *, as_json: bool) -> None:
    from tpufn_cli.render.jsonable import print_document

    if as_json:
        print_document(answers)
        return
    for name, answer in answers.items():
        click.echo(f"{name}: {answer}")


@slots.command("queue", epilog=epilog("tpufn slots queue spot-v6e16-ue5a-1"))
@_names
@as_json
@choosing
def queue(options: Options, names: tuple[str, ...], as_json: bool) -> None:
    """Ask for these free slots' TPUs, held for you."""
    _change(options, lambda client: client.queue(names), as_json=as_json)


@slots.command("hold", epilog=epilog("tpufn slots hold spot-v6e16-ue5a-1"))
@_names
@as_json
@choosing
def hold(options: Options, names: tuple[str, ...], as_json: bool) -> None:
    """Keep slots for yourself; a job that runs there ends as usual."""
    _change(options, lambda client: client.hold(names), as_json=as_json)


@slots.command("release", epilog=epilog("tpufn slots release spot-v6e16-ue5a-1"))
@_names
@as_json
@choosing
def release(options: Options, names: tuple[str, ...], as_json: bool) -> None:
    """Give held slots back to the jobs; their TPUs stay until they are idle for long."""
    _change(options, lambda client: client.release(names), as_json=as_json)


@slots.command("delete", epilog=epilog("tpufn slots delete spot-v6e16-ue5a-1 --close-tmux"))
@_names
@click.option("--close-tmux", is_flag=True, help="Close their tmux windows too.")
@as_json
@choosing
def delete(options: Options, names: tuple[str, ...], close_tmux: bool, as_json: bool) -> None:
    """Cancel the requests or delete the TPUs of these slots."""
    from tpufn_cli.console.opening import open_site

    site = open_site(options, quiet=as_json)
    answers = site.client.delete(names)
    windows = site.after_delete(names, close_tmux=close_tmux)
    _tell({name: "; ".join(filter(None, (said, windows[name]))) for name, said in answers.items()}, as_json=as_json)


@slots.command(
    "setup", epilog=epilog("tpufn slots setup spot-v6e16-ue5a-1", "tpufn slots setup NAME --set ssh.user=me")
)
@_names
@click.option("--set", "flags", multiple=True, metavar="KEY=VALUE", help="A key of `tpufn config`; may be repeated.")
@as_json
@choosing
def setup(options: Options, names: tuple[str, ...], flags: tuple[str, ...], as_json: bool) -> int:
    """Run the bootstrap scripts on all workers of these slots.

    The deployment's `bootstrap`, else a default. They run as you, over SSH, with your agent forwarded.
    """
    from tpufn_cli.console.opening import open_site

    site = open_site(options, quiet=as_json, flags=flags)
    endings = [site.set_up(slot, tell=_printer(slot.name, as_json)) for slot in site.slots_named(names)]
    _tell({ending.slot: f"{ending.words}; output in {ending.logs[0].parent}" for ending in endings}, as_json=as_json)
    return 0 if all(ending.ok for ending in endings) else 1


@slots.command("tailscale", epilog=epilog("tpufn slots tailscale spot-v6e16-ue5a-1"))
@_names
@as_json
@choosing
def tailscale(options: Options, names: tuple[str, ...], as_json: bool) -> int:
    """Join the workers of these slots to your tailnet.

    With the key that `t` of `tpufn tui` saved, or the secret that `tailscale.secret` names.
    """
    from tpufn_cli.console.opening import open_site

    site = open_site(options, quiet=as_json)
    failed: dict[str, dict[int, str]] = {}
    for slot in site.slots_named(names):
        failed[slot.name] = site.join_tailnet(slot, tell=_printer(slot.name, as_json))
    _tell({name: _joined(causes) for name, causes in failed.items()}, as_json=as_json)
    return 1 if any(failed.values()) else 0


@slots.command("devices", epilog=epilog("tpufn slots devices spot-v6e16-ue5a-1 --json"))
@click.argument("name", metavar="SLOT|JOB")
@as_json
@choosing
def devices(options: Options, name: str, as_json: bool) -> int:
    """Show who holds the TPU devices on each worker.

    A process that still has a device open keeps the next one from starting. Exits with 1 if a worker does not answer.
    """
    from tpufn.remote import devices_command
    from tpufn.remote_run import devices as ask
    from tpufn_cli.console.opening import open_site
    from tpufn_cli.render.devices import tell

    site = open_site(options, quiet=as_json)
    slot = site.place_of(name)
    command, _ = devices_command()
    found, causes = ask({host.worker: host.run(command) for host in site.hosts(slot)})
    tell(slot.name, found, causes, as_json=as_json)
    return 1 if causes else 0


def _joined(causes: Mapping[int, str]) -> str:
    return "; ".join(f"worker {worker}: {cause}" for worker, cause in causes.items()) or "joined"


def _printer(slot: str, as_json: bool) -> Callable[[int, str], Any]:
    """Tells the output of workers on stderr: stdout has the ending."""
    if as_json:
        return lambda worker, line: None
    return lambda worker, line: click.echo(f"{slot} w{worker} | {line}", err=True)


@command("tpufn race spot-v6e16-ue5a-1 spot-v6e16-ue5b-1")
@_names
@as_json
@choosing
def race(options: Options, names: tuple[str, ...], as_json: bool) -> None:
    """Ask for several slots; keep the first that is granted.

    The others are cancelled. The winner is held for you until you release or delete it.
    """
    client = options.client(quiet=as_json)
    answer = client.race(names)
    if as_json:
        _tell({"race": answer}, as_json=True)
    else:
        click.echo(answer)
