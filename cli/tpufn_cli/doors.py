"""Where a command gets its client or engine from, and the options that choose the deployment.

The options are accepted before the command's name and after it: `tpufn -d lab.yaml jobs`, `tpufn jobs -d lab.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from shlex import quote
from typing import TYPE_CHECKING, Any, Protocol

import click

if TYPE_CHECKING:
    from tpufn.client import Client, Engine


class Abandoned(BaseException):
    """A second Ctrl-C: leave at once, without waiting for anything."""


class Doors(Protocol):
    """The way from a command line to tpufn. Tests bring their own."""

    def client(self, options: Options) -> Client: ...
    def engine(self, options: Options, *, seed: int | None, speed: float, fresh: bool) -> Engine: ...


class TpufnDoors:
    """The real way; imports the client only when a command asks for it."""

    def client(self, options: Options) -> Client:
        from tpufn.client import open_client

        return open_client(home=options.home, deployment=options.deployment, sandbox=options.sandbox)

    def engine(self, options: Options, *, seed: int | None, speed: float, fresh: bool) -> Engine:
        from tpufn.client import open_engine

        return open_engine(
            home=options.home,
            deployment=options.deployment,
            sandbox=options.sandbox,
            seed=seed,
            speed=speed,
            fresh=fresh,
        )


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the global options say; None where nothing was given."""

    doors: Doors
    deployment: str | None = None
    sandbox: bool = False
    home: str | None = None

    def again(self, command: str, *, run: str = "") -> str:
        """Another command line for the same deployment, or for a `run` of it: what a hint prints."""
        if run:
            return replace(self, deployment=run, sandbox=False).again(command)
        flags = (("-d", self.deployment), ("--home", self.home))
        given = [f"{flag} {quote(value)} " for flag, value in flags if value]
        return f"tpufn {'--sandbox ' if self.sandbox else ''}{''.join(given)}{command}"

    def client(self, *, quiet: bool, thorough: bool = False) -> Client:
        """The client, its mode named on stderr unless `quiet`; `thorough`: and what else is unfinished here."""
        client = self.doors.client(self)
        if not quiet:
            name_mode(client)
            say_notes(line.replace("`tpufn up`", f"`{self.again('up')}`") for line in client.advice())
        if thorough and not quiet:
            self._say_left(client)
        return client

    def unserved(self) -> str:
        """Said where something was sent and nobody is there to do it."""
        return f"no engine runs here: `{self.again('up')}` in another terminal takes the job on"

    def _say_left(self, client: Client) -> None:
        say_notes(
            f"{run} was left unfinished ({left}): `{self.again('up', run=run)}` goes on with it"
            for run, left in client.left_behind().items()
        )

    def engine(self, *, quiet: bool, seed: int | None, speed: float, fresh: bool = False) -> Engine:
        """An engine, not started; `fresh` with a state directory of its own."""
        engine = self.doors.engine(self, seed=seed, speed=speed, fresh=fresh)
        if not quiet:
            name_mode(engine.client)
            self._say_left(engine.client)
        return engine


def name_mode(client: Client) -> None:
    """The first line of a command: mode and place."""
    click.secho(client.where, err=True, dim=True)
    say_notes(filter(None, [client.caution()]))


def say_notes(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(f"{click.style('note:', fg='yellow')} {line}", err=True)


def choosing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the command takes the global options too, and gets `options: Options`."""

    @wraps(function)
    @click.pass_context
    def wrapper(
        ctx: click.Context, /, *args: Any, deployment: str | None, sandbox: bool, home: str | None, **kwargs: Any
    ) -> Any:
        given: Options = ctx.obj
        options = replace(
            given,
            deployment=deployment or given.deployment,
            sandbox=sandbox or given.sandbox,
            home=home or given.home,
        )
        return function(*args, options=options, **kwargs)

    for option in reversed(_OPTIONS):
        wrapper = option(wrapper)
    return wrapper


_OPTIONS = (
    click.option("-d", "--deployment", metavar="PATH", help="Deployment file, a path or gs://."),
    click.option("--sandbox", is_flag=True, help="Use simulated TPUs on this machine."),
    click.option("--home", metavar="DIR", help="Where state lives."),
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
as_json_lines = click.option("--json", "as_json", is_flag=True, help="Print one JSON event per line.")


def epilog(*examples: str) -> str:
    """The examples that `--help` ends with, as they are written."""
    return "\n".join(("\b", "Example:", *(f"  {line}" for line in examples)))


def command(*examples: str, name: str | None = None) -> Callable[[Callable[..., Any]], click.Command]:
    """`click.command` with examples."""
    return click.command(name, epilog=epilog(*examples))
