"""The words: ages, sizes, money; lines of output; notes; JSON; and the fold over notes."""

import json
from typing import Any

import pytest

from tpufn.domain.job import Priority
from tpufn.domain.notes import Note
from tpufn.domain.views import LogPiece
from tpufn_cli.flow.output import lines
from tpufn_cli.flow.story import Story
from tpufn_cli.render import words
from tpufn_cli.render.jsonable import jsonable, note_event
from tpufn_cli.render.notes import line, phrase


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (7.9, "7s"), (60, "1m"), (3599, "59m"), (7500, "2h05m"), (356400, "4d03h")],
)
def test_age(seconds: float, text: str) -> None:
    """At most two units, as one reads a clock."""
    assert words.age(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.01, "0s"), (3.26, "3.3s"), (65, "1m05s"), (3700, "1h01m")])
def test_span(seconds: float, text: str) -> None:
    """Short runs need tenths, long ones do not."""
    assert words.span(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (6210, "6.2 KB"), (2.5e9, "2.5 GB")])
def test_size(count: float, text: str) -> None:
    """The unit that leaves a readable number."""
    assert words.size(count) == text


@pytest.mark.parametrize(("usd", "text"), [(0, "$0.00"), (0.0012, "$0.0012"), (0.04, "$0.04"), (19.444, "$19.44")])
def test_money(usd: float, text: str) -> None:
    """A small sum is not nothing."""
    assert words.money(usd) == text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("10%\r50%\r100%", "100%"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("bell\x07", "bell"),
        ("windows\r", "windows"),
    ],
)
def test_a_workers_line_cannot_move_the_cursor(raw: str, shown: str) -> None:
    """A job's output goes into our live view: it must not tear it, nor rename the terminal."""
    assert words.printable(raw) == shown


def test_lines_are_cut_per_worker_and_across_characters() -> None:
    """Pieces end anywhere, also in the middle of a character."""
    snow = "snow \u2603\n".encode()
    pieces = [
        LogPiece(attempt=1, worker=0, data=snow[:6]),
        LogPiece(attempt=1, worker=1, data=b"other\n"),
        LogPiece(attempt=1, worker=0, data=snow[6:] + b"\nlast"),
    ]
    assert [(cut.worker, cut.text) for cut in lines("demo-1", pieces)] == [
        (1, "other"),
        (0, "snow \u2603"),
        (0, ""),
        (0, "last"),
    ]


def test_an_unknown_event_is_shown_with_its_reason() -> None:
    """A newer engine may say what this version has never heard of."""
    note = Note(event="slot.teleported", subject="slot:a-1", reason="2 zones away", at=10.0)
    assert line(note, start=4.0) == "   +6.0s slot.teleported    a-1                  2 zones away"


def test_an_unknown_event_changes_nothing_in_the_story(fleet: Any) -> None:
    """... and must not stop a run."""
    story = Story(fleet)
    for event in ("slot.teleported", "race.cancelled", "attempt.revived", "stray.found", "odd"):
        story.add(Note(event=event, subject="slot:a-1", at=1.0))
    assert (story.legs, story.jobs) == ({}, {})


def test_a_bundle_that_lies_in_a_bucket_has_no_size() -> None:
    """Then the address is all that can be said."""
    note = Note(event="bundle.built", subject="", reason="gs://b/x.tar.gz", data={"files": 0, "size": 0, "sha256": ""})
    assert phrase(note) == "gs://b/x.tar.gz"


def test_the_story_knows_each_leg(story_notes: Any, fleet: Any) -> None:
    """After the end every TPU is given back, and the rows say who won."""
    story = Story(fleet)
    for note in story_notes:
        story.add(note)
    assert {leg.slot: (leg.state, leg.remark) for leg in story.legs.values()} == {
        "spot-v6e16-ue5a-1": ("free", "Spot preemption (notice)"),
        "spot-v6e16-ue5a-2": ("free", "idle for 0 s, no waiting job can use it"),
        "spot-v6e16-ue5b-1": ("releasing", "lost the race"),
    }
    assert story.ended(["demo-1"])
    assert not story.ended(["demo-1", "other"])


def test_json_has_names_for_enums() -> None:
    assert json.dumps(jsonable({"p": Priority.HIGH, "s": {"b"}})) == '{"p": "high", "s": ["b"]}'


def test_a_note_as_an_event_says_only_what_it_knows() -> None:
    """Empty fields are left out; numbers stay numbers."""
    note = Note(event="job.pending", subject="job:a", job="a", at=1.23456, data={"region": "us-east5", "n": 2})
    assert note_event(note) == {
        "event": "job.pending",
        "at": 1.235,
        "subject": "job:a",
        "job": "a",
        "data": {"region": "us-east5", "n": 2},
    }
