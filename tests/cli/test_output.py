"""A job's output as lines: what is whole, what stands still, what goes round, and what never had an end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tpufn.domain.views import LogPiece
from tpufn_cli.flow.output import LineCutter, OutputLine
from tpufn_cli.render.words import printable

LOOK = LogPiece(attempt=0, worker=0, data=b"")
"""There is no more for now."""


@dataclass
class Desk:
    """A cutter, and a clock that one moves oneself."""

    now: float = 0.0

    def __post_init__(self) -> None:
        self._cutter = LineCutter("a", clock=lambda: self.now)

    def write(self, data: bytes, *, attempt: int = 1, worker: int = 0) -> list[OutputLine]:
        return list(self._cutter.feed(LogPiece(attempt=attempt, worker=worker, data=data)))

    def look(self, after: float) -> list[OutputLine]:
        self.now += after
        return list(self._cutter.feed(LOOK))

    def end(self) -> list[OutputLine]:
        return list(self._cutter.rest())


@pytest.fixture
def desk() -> Desk:
    return Desk()


def texts(lines: list[OutputLine]) -> list[str]:
    return [f"{line.text}..." if line.partial else line.text for line in lines]


def test_an_unfinished_line_is_shown_when_it_stands_still(desk: Desk) -> None:
    """`print("loading", end="")`, and then nothing for an hour."""
    assert desk.write(b"load") == []
    assert desk.look(0.9) == []
    assert desk.write(b"ing") == []
    assert desk.look(0.9) == []
    assert texts(desk.look(0.2)) == ["loading..."]
    assert desk.look(5.0) == [], "once"
    assert texts(desk.write(b" done\n")) == ["loading done"], "and whole when it has its end"


def test_a_progress_bar_is_shown_once_a_second(desk: Desk) -> None:
    """However often it is drawn: it never stands still, and has no end for an hour."""
    shown = []
    for percent in range(32):
        assert desk.write(f"\r{percent} %".encode()) == []
        shown += texts(desk.look(0.125))
    assert shown == ["7 %...", "15 %...", "23 %...", "31 %..."]
    (end,) = desk.end()
    assert end.shown, "the last state is on the screen"


def test_a_line_that_was_shown_ends_all_the_same(desk: Desk) -> None:
    """Who reads events and leaves partial ones out must not lose the last line; who reads a screen has it already."""
    desk.write(b"result: 42")
    desk.write(b"loading", worker=1)
    assert texts(desk.look(1.0)) == ["result: 42...", "loading..."]
    (whole,) = desk.write(b"\nnext\n", worker=1)[:1]
    (end,) = desk.end()
    assert [(each.text, each.partial, each.shown) for each in (whole, end)] == [
        ("loading", False, True),
        ("result: 42", False, True),
    ]


def test_what_has_no_end_comes_with_its_attempt(desk: Desk) -> None:
    """The last words of a preempted attempt must not stand below those of the next one."""
    desk.write(b"killed at ste")
    desk.write(b"me too", worker=1)
    assert [(line.attempt, line.worker, line.text) for line in desk.write(b"resumed\n", attempt=2)] == [
        (1, 0, "killed at ste"),
        (1, 1, "me too"),
        (2, 0, "resumed"),
    ]
    assert desk.end() == []


def test_windows_line_ends_are_no_progress_bar(desk: Desk) -> None:
    assert desk.write(b"one\r") == []
    assert texts(desk.write(b"\ntwo\r\n")) == ["one\r", "two\r"]
    assert [printable(text) for text in ("one\r", "two\r")] == ["one", "two"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b[2J\x1b[31mred\x1b[0m", "red"),
        (b"10 %\r20 %", "20 %"),
    ],
)
def test_nothing_of_a_job_steers_the_terminal(
    tpufn: Callable[..., Any], client: Any, written: bytes, shown: str
) -> None:
    """A job may set titles, move the cursor, ring; who reads several workers must not feel it. One worker alone is
    handed on byte for byte."""
    client.pieces = (LogPiece(attempt=1, worker=0, data=written + b"\n"),)
    assert tpufn("logs", "demo-1").out == f"1.0 | {shown}\n"
    assert tpufn("logs", "demo-1", "--worker", "0").out.encode() == written + b"\n"
