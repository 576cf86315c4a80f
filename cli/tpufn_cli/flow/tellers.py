"""Tellers without a terminal: plain lines of stable wording, or JSON, one event per line."""

import click

from tpufn.domain.notes import Note
from tpufn_cli.flow.output import OutputLine
from tpufn_cli.render.jsonable import note_event, output_event, print_event
from tpufn_cli.render.notes import line, output_line


class JsonTeller:
    """Every note and every line of output as one JSON event. Remarks are left out."""

    def note(self, note: Note) -> None:
        print_event(note_event(note))

    def output(self, line: OutputLine) -> None:
        print_event(output_event(line))

    def say(self, text: str) -> None:
        """Remarks are for people."""


class PlainTeller:
    """One line each. Times count from the first note, or are of the day with `of_day`."""

    def __init__(self, *, of_day: bool = False) -> None:
        self._of_day = of_day
        self._start = 0.0
        self._jobs = 1

    def note(self, note: Note) -> None:
        self._start = self._start or note.at
        self._jobs = int(note.data.get("jobs") or 1) if note.event == "job.validated" else self._jobs
        click.echo(line(note, start=None if self._of_day else self._start))

    def output(self, line: OutputLine) -> None:
        if line.shown:
            return
        click.echo(output_line(line.worker, line.text, job=line.job if self._jobs > 1 else ""))

    def say(self, text: str) -> None:
        click.echo(text, err=True)
