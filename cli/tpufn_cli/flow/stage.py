"""Puts a run on the right stage: the live view in a terminal, plain lines without one, events with `--json`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from tpufn.domain.fleet import Mode
from tpufn_cli.doors import Abandoned, Options
from tpufn_cli.flow.ending import Ending, finished_event
from tpufn_cli.flow.run import Run, Teller
from tpufn_cli.flow.serve import farewell
from tpufn_cli.flow.story import Story
from tpufn_cli.flow.tellers import JsonTeller, PlainTeller
from tpufn_cli.render.jsonable import print_event

if TYPE_CHECKING:
    from tpufn.client import Client, Engine


def perform(engine: Engine, path: str, options: Options, *, as_json: bool, also: Sequence[Teller] = ()) -> int:
    """Run `path` to its end and print the closing; the exit code. `also` are told everything, too."""
    story = Story(engine.client.fleet())
    play = _json if as_json else _live if sys.stdout.isatty() else _plain
    again = partial(options.again, run=_name(engine.client))
    try:
        ending = play(engine, story, path, also)
    except Abandoned:
        click.echo(farewell(engine.client.status(), again=again("up")), err=True)
        raise
    with suppress(OSError) if ending.signal else nullcontext():  # then nobody may be there to read it
        _close(engine, ending, again, as_json=as_json)
    return ending.exit_code


def _name(client: Client) -> str:
    """How a run's own state is named; "" for a deployment's. `where` is mode, name and place."""
    return client.where.split()[1] if client.mode is Mode.SANDBOX else ""


def _json(engine: Engine, story: Story, path: str, also: Sequence[Teller]) -> Ending:
    return Run(engine, story, (JsonTeller(), *also)).to_end(path)


def _plain(engine: Engine, story: Story, path: str, also: Sequence[Teller]) -> Ending:
    return Run(engine, story, (PlainTeller(), *also)).to_end(path)


def _live(engine: Engine, story: Story, path: str, also: Sequence[Teller]) -> Ending:
    from tpufn_cli.flow.live import LiveTeller
    from tpufn_cli.render.console import console

    with LiveTeller(story, console(), title=path) as live:
        return Run(engine, story, (live, *also)).to_end(path)


def _close(engine: Engine, ending: Ending, again: Callable[[str], str], *, as_json: bool) -> None:
    from tpufn_cli.flow.closing import closing
    from tpufn_cli.render.console import show

    if as_json:
        print_event(finished_event(ending))
        return
    show(closing(ending, engine.client.fleet(), up=again("up")))
    for view in ending.views[:1]:
        click.secho(f"\nlook again: {again(f'job {view.job.id}')}  (or logs, why)", err=True, dim=True)
