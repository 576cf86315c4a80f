"""`tpufn ssh`: a shell on a TPU's worker, or a command on one or all of them, as the person."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tpufn_cli.doors import Options, choosing, command

if TYPE_CHECKING:
    from tpufn_cli.console.hosts import Host


@command(
    "tpufn ssh spot-v6e16-ue5a-1",
    "tpufn ssh JOB --worker 2 -L 6006:localhost:6006",
    "tpufn ssh JOB -- df -h /",
)
@click.argument("target", metavar="SLOT|JOB")
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1)
@click.option("--worker", type=int, metavar="N", help="This worker alone; counted from 0.")
@click.option("-L", "forwards", multiple=True, metavar="PORT:HOST:PORT", help="Forward a port, as `ssh -L` does.")
@choosing
def ssh(options: Options, target: str, words: tuple[str, ...], worker: int | None, forwards: tuple[str, ...]) -> int:
    """Open a shell on a TPU, or run a command there.

    A shell is on worker 0 unless --worker says another. A command runs on all workers at once, each line with its
    worker's number in front, and ends with the worst exit code; with --worker it runs on that one, with your input.
    You connect as yourself, with your own key. A sandbox's worker is a directory on this machine.
    """
    from tpufn_cli.console.opening import open_site

    site = open_site(options, quiet=True)
    hosts = site.hosts(site.place_of(target))
    if not words:
        return _call(_one(hosts, worker or 0, target).shell(forwards))
    script = words[0] if len(words) == 1 else _quoted(words)
    if worker is None and len(hosts) > 1:
        return _on_all(hosts, script)
    return _call(_one(hosts, worker or 0, target).run(script, terminal=sys.stdin.isatty() and sys.stdout.isatty()))


def _quoted(words: tuple[str, ...]) -> str:
    from shlex import join

    return join(words)


def _one(hosts: tuple[Host, ...], worker: int, target: str) -> Host:
    from tpufn.domain.errors import NotFound

    if not 0 <= worker < len(hosts):
        raise NotFound(f"{target} has no worker {worker}: it has {len(hosts)}, counted from 0")
    return hosts[worker]


def _call(arguments: list[str]) -> int:
    """With this terminal: its exit code is ours."""
    import subprocess

    return subprocess.run(arguments, check=False).returncode


def _on_all(hosts: tuple[Host, ...], script: str) -> int:
    from tpufn.remote import TRANSPORT_FAILED
    from tpufn.remote_run import ended, run_all, worst

    calls = {host.worker: host.run(script) for host in hosts}
    codes = run_all(calls, output=sys.stdout.buffer, errors=sys.stderr.buffer)
    for worker, code in codes.items():
        if code == TRANSPORT_FAILED:
            click.echo(f"worker {worker}: {ended(code)}", err=True)
    return worst(codes)
