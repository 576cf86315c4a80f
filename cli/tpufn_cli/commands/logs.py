"""`tpufn logs`: the output of a job's workers, byte for byte where only one is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from tpufn_cli.doors import Options, as_json_lines, choosing, command

if TYPE_CHECKING:
    from tpufn.domain.views import LogPiece


@command("tpufn logs demo-7f3a --follow", "tpufn logs demo-7f3a --attempt 1 --worker 0 > out.txt")
@click.argument("id", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--worker", type=click.IntRange(min=0), help="Only this worker (from 0), byte for byte.")
@click.option("--attempt", type=click.IntRange(min=1), help="Only this attempt.")
@as_json_lines
@choosing
def logs(options: Options, id: str, follow: bool, worker: int | None, attempt: int | None, as_json: bool) -> None:
    """Show the output of a job's workers.

    Lines of several workers carry the attempt and the worker: `1.0 | loss 0.53`. With --follow an unfinished line is
    shown when it has stood still for a second, a progress bar about once a second.
    """
    from tpufn_cli.flow.presence import Presence

    client = options.client(quiet=as_json)
    presence = Presence(client, lambda text: click.echo(text, err=True))
    pieces = client.logs(id, attempt=attempt, worker=worker, follow=follow, stop=presence)
    if as_json:
        _as_events(id, pieces)
    elif worker is not None:
        _as_bytes(pieces)
    else:
        _as_lines(id, pieces)


def _as_events(id: str, pieces: Iterable[LogPiece]) -> None:
    from tpufn_cli.flow.output import lines
    from tpufn_cli.render.jsonable import output_event, print_event

    for line in lines(id, pieces):
        print_event(output_event(line))


def _as_bytes(pieces: Iterable[LogPiece]) -> None:
    out = sys.stdout.buffer
    for piece in pieces:
        out.write(piece.data)
        out.flush()


def _as_lines(id: str, pieces: Iterable[LogPiece]) -> None:
    from tpufn_cli.flow.output import lines
    from tpufn_cli.render.words import printable

    for line in lines(id, pieces):
        if not line.shown:
            click.echo(f"{line.attempt}.{line.worker} | {printable(line.text)}")
