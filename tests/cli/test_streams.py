"""Streams: watch and logs."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tpufn.domain.job import JobState
from tpufn.domain.views import LogPiece


@pytest.fixture
def talking(client: Any) -> Any:
    """A job with output that comes in pieces, and not only text."""
    client.pieces = (
        LogPiece(attempt=1, worker=0, data=b"first\nsec"),
        LogPiece(attempt=1, worker=1, data=b"other\n"),
        LogPiece(attempt=1, worker=0, data=b"ond \xff\n"),
        LogPiece(attempt=2, worker=0, data=b"no end"),
    )
    return client


def test_logs_cut_pieces_into_lines_of_workers(tpufn: Callable[..., Any], talking: Any) -> None:
    """A line is never torn between two workers."""
    assert tpufn("logs", "demo-1").out == "1.0 | first\n1.1 | other\n1.0 | second \ufffd\n2.0 | no end\n"


def test_logs_of_one_worker_are_byte_for_byte(
    talking: Any, capfdbinary: pytest.CaptureFixture[bytes], doors: Any
) -> None:
    """What a program wrote may be no text at all."""
    from tpufn_cli.app import run

    assert run(["logs", "demo-1", "--worker", "0", "--attempt", "1", "-f"], doors=doors) == 0
    assert capfdbinary.readouterr().out == b"".join(piece.data for piece in talking.pieces)
    assert talking.asked == [("logs", 1, 0, True)]


def test_logs_as_json(tpufn: Callable[..., Any], talking: Any) -> None:
    """One event per line of output."""
    events = [json.loads(line) for line in tpufn("logs", "demo-1", "--json").out.splitlines()]
    assert events[0] == {"event": "output", "job": "demo-1", "attempt": 1, "worker": 0, "text": "first"}
    assert len(events) == 4


def test_watch_prints_a_line_per_note(tpufn: Callable[..., Any]) -> None:
    """The wording is stable: people grep for it."""
    ran = tpufn("watch", "demo-1")
    lines = [line[9:] for line in ran.out.splitlines()]
    assert ran.code == 0
    assert (
        "race.opened        demo-1               3 legs: spot-v432-uc2b-1, spot-v6e16-ue5a-1, spot-v6e16-ue5b-1"
        in lines
    )
    assert "attempt.closed     demo-1.2             succeeded: every worker has closed" in lines


def test_watch_without_an_id_follows_what_lives(tpufn: Callable[..., Any], client: Any) -> None:
    """Nobody knows the ids by heart."""
    client.view = replace(client.view, job=replace(client.view.job, state=JobState.ACTIVE))
    tpufn("watch")
    assert client.asked == [("jobs", ("pending", "waiting", "active", "cancelling"), 100)]


def test_watch_with_nothing_to_watch(tpufn: Callable[..., Any]) -> None:
    """It ends at once and says why."""
    ran = tpufn("watch")
    assert ran.code == 0
    assert "no job is pending or running" in ran.err


def test_watch_as_json_ends_with_finished(tpufn: Callable[..., Any]) -> None:
    """A reader knows when the stream is over, and how."""
    events = [json.loads(line) for line in tpufn("watch", "demo-1", "--json").out.splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["job.submitted", "finished"]
    assert events[0]["id"]


def test_an_interrupted_watch_cancels_nothing(tpufn: Callable[..., Any], client: Any) -> None:
    """Ctrl-C ends the looking, not the job: exit 130, and it says so."""

    def interrupted() -> Any:
        yield from ()
        raise KeyboardInterrupt

    client.watch = lambda ids, stop=None: interrupted()
    ran = tpufn("watch", "demo-1")
    assert ran.code == 130
    assert "nothing was cancelled" in ran.err
