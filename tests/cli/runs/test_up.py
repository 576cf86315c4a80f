"""The engine in the foreground."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_stops_cleanly_and_says_what_is_left(
    tpufn: Callable[..., Any], doors: Any, make_engine: Any, number: int
) -> None:
    """The engine's state stays; the way to go on is printed."""
    doors.made = make_engine(lambda: os.kill(os.getpid(), number))
    ran = tpufn("up")
    assert ran.code == 0
    assert doors.made.calls == ["start", "stop"]
    assert "stopped; 1 job unfinished, 1 TPU requested or held ($19.44/h); `tpufn up` goes on from here" in ran.err


def test_up_prints_every_note(tpufn: Callable[..., Any], doors: Any, make_engine: Any, client: Any) -> None:
    """The foreground engine is also the log of what it does."""
    doors.made = make_engine(*client.notes[:2], lambda: os.kill(os.getpid(), signal.SIGTERM))
    events = [json.loads(line) for line in tpufn("up", "--json").out.splitlines()]
    assert [event["event"] for event in events] == ["job.submitted", "race.opened"]
