"""The legs of a race are asked for side by side: a zone that takes half a minute to answer holds up no other."""

from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from tpufn.domain.cloud import CreateOrder
from tpufn.domain.job import JobState
from tpufn.flows.effects import PERFORMERS
from tpufn.runner import Runner, side_by_side

from .scene import V6A, V6B, Scene, pool

LEGS = 4


class Meeting:
    """A cloud whose creates return only when all of a race's are there."""

    def __init__(self, cloud: Any) -> None:
        self._cloud, self._barrier = cloud, Barrier(LEGS, timeout=10.0)

    def create(self, order: CreateOrder) -> None:
        self._barrier.wait()
        self._cloud.create(order)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cloud, name)


def test_no_leg_waits_for_another() -> None:
    zones = (V6A, V6B, ("v6e-8", "us-east1-d"), ("v6e-8", "europe-west4-a"))
    scene = Scene(*(pool(*zone) for zone in zones))
    ports = replace(scene.runner.ports, cloud=Meeting(scene.cloud))
    scene.runner = Runner(
        ports,
        policy=scene.policy,
        performers=dict(PERFORMERS),
        new_id=iter(f"t{n}" for n in range(10_000)).__next__,
        jitter=lambda attempt: 0.0,
        together=side_by_side,
    )
    scene.start("a")
    scene.until_ended("a")
    assert scene.job("a").state is JobState.SUCCEEDED
    assert scene.events(of="slot.waiting").count("slot.waiting") == LEGS


def test_all_are_done_before_a_failure_is_told() -> None:
    """One leg's failure must not leave another one half done."""
    done: list[int] = []

    def fail() -> None:
        raise ValueError("one")

    with pytest.raises(ValueError, match="one"):
        side_by_side([fail, lambda: done.append(1), lambda: done.append(2)])
    assert sorted(done) == [1, 2]
