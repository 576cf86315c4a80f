"""Time: the clocks behave as the port says, and the virtual one never costs a wait."""

import time

import pytest

from tpufn.simulation.clock import VirtualClock, WallClock


def test_a_virtual_clock_moves_only_when_told():
    """Why: a test that depends on real time is not repeatable."""
    clock = VirtualClock(100.0)
    assert clock.now() == clock.now() == 100.0
    assert clock.advance(2.5) == clock.now() == 102.5


def test_sleeping_on_a_virtual_clock_is_advancing_it():
    """Why: waiting loops must run in tests without waiting."""
    clock, started = VirtualClock(0.0), time.monotonic()
    clock.sleep(3600)
    assert clock.now() == 3600.0
    assert time.monotonic() - started < 1.0


def test_a_virtual_clock_never_goes_back():
    """Why: a step back would make the cloud forget what it already said."""
    clock = VirtualClock(100.0)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)
    assert clock.advance_to(50.0) == 100.0
    assert clock.advance_to(150.0) == 150.0


def test_the_wall_clock_is_the_machines():
    """Why: ages are compared with Unix times of other services."""
    before = time.time()
    assert before <= WallClock().now() <= time.time()


def test_the_wall_clock_sleeps_and_takes_a_past_moment_as_now():
    """Why: `sleep(due - now)` may be negative by the time it is called."""
    clock = WallClock()
    started = clock.now()
    clock.sleep(-1)
    clock.sleep(0.02)
    assert clock.now() - started >= 0.02
