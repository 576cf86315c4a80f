"""The demo's director: once the first attempt has written a few checkpoints, the simulated cloud takes its TPU away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpufn.domain.attempt import attempt_id
from tpufn.domain.notes import Note
from tpufn_cli.flow.output import OutputLine

if TYPE_CHECKING:
    from tpufn.client import Engine

CUE = "checkpoint step=20"
"""What train.py prints after it has written its fourth checkpoint: by then the losers of the race are gone."""
NOTICE = 1.0
"""Seconds between the preemption notice and the end of the TPU. Google gives 30."""


class Director:
    """A teller that tells nobody: it waits for its cue and preempts once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stage = ""
        self._done = False

    def note(self, note: Note) -> None:
        if note.event == "attempt.running" and not self._stage:
            self._stage = note.attempt

    def output(self, line: OutputLine) -> None:
        if not self._done and attempt_id(line.job, line.attempt) == self._stage and CUE in line.text:
            self._done = True
            self._engine.simulation.preempt(self._tpu(line.job, line.attempt), notice=NOTICE)

    def say(self, text: str) -> None:
        """It only listens."""

    def _tpu(self, job: str, number: int) -> str:
        attempts = self._engine.client.job(job).attempts
        return next(attempt.tpu for attempt in attempts if attempt.number == number)
