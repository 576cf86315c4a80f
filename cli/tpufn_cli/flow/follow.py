"""Jobs that somebody else's engine runs: follow their notes to the end, then say how they ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from tpufn.domain.notes import Note
from tpufn_cli.flow.ending import Ending
from tpufn_cli.flow.presence import Presence
from tpufn_cli.flow.run import Teller
from tpufn_cli.flow.tellers import JsonTeller, PlainTeller
from tpufn_cli.render import words

if TYPE_CHECKING:
    from tpufn.client import Client


def teller(*, as_json: bool) -> Teller:
    """For streams of notes outside a run: JSON events, or lines with the time of the day."""
    return JsonTeller() if as_json else PlainTeller(of_day=True)


def follow(client: Client, ids: Collection[str], tell: Teller) -> Ending:
    """Tell every note of these jobs until all are terminal."""
    first = last = 0.0
    for note in client.watch(ids, stop=Presence(client, tell.say)):
        tell.note(note)
        first, last = first or note.at, max(last, note.at)
    return Ending(views=tuple(client.job(id) for id in ids), seconds=last - first)


@contextmanager
def leaving(say: Callable[[str], None], again: str) -> Iterator[None]:
    """An interrupt of what only watches says that the jobs go on, and how to watch them again."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"not watched any more, nothing was cancelled; next: {again}")
        raise


def say_ends(ending: Ending) -> None:
    """One line per job: how it ended, and why where that is not success."""
    for view in ending.views:
        cause = f": {view.job.cause}" if view.job.cause and ending.status != "succeeded" else ""
        click.echo(f"{view.job.id} {view.job.state} after {words.count(len(view.attempts), 'attempt')}{cause}")


def progress(note: Note) -> None:
    """What `submit` does before the job exists, on stderr."""
    from tpufn_cli.render.notes import phrase

    click.echo(f"{note.event:<16} {phrase(note)}".rstrip(), err=True)
