"""A simulated cloud on a virtual clock, and orders for it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tpufn.domain.cloud import CreateOrder, Tpu
from tpufn.simulation.capacity import Capacity
from tpufn.simulation.clock import VirtualClock
from tpufn.simulation.cloud import SimulatedCloud
from tpufn.simulation.hosts import NoHosts

LONG = 60.0
"""Longer than everything that a sandbox cloud does by itself after a create."""


class Rig:
    """One cloud with its clock and hosts. `reopen` is what a killed process finds on its next start."""

    def __init__(self, capacity: Capacity | None = None, *, path: str | None = None) -> None:
        self.capacity, self.path = capacity, path
        self.clock, self.hosts = VirtualClock(), NoHosts()
        self.opened: list[SimulatedCloud] = []
        self.cloud = self._open()

    def _open(self) -> SimulatedCloud:
        self.opened.append(SimulatedCloud(self.capacity, clock=self.clock, hosts=self.hosts, path=self.path))
        return self.opened[-1]

    def close(self) -> None:
        for cloud in self.opened:
            cloud.close()

    def reopen(self) -> SimulatedCloud:
        self.cloud = self._open()
        return self.cloud

    def create(self, name: str = "t", **changes: object) -> CreateOrder:
        order = order_of(name, **changes)
        self.cloud.create(order)
        return order

    def ready(self, name: str = "t", **changes: object) -> CreateOrder:
        """A TPU that became usable."""
        order = self.create(name, **changes)
        self.clock.advance(LONG)
        tpu = self.cloud.get(name, order.zone)
        assert tpu is not None
        assert tpu.is_ready
        return order

    def see(self, name: str = "t", zone: str = "us-east1-d") -> Tpu | None:
        return self.cloud.get(name, zone)

    def pass_(self, seconds: float = LONG) -> None:
        self.clock.advance(seconds)


def order_of(name: str = "t", **changes: object) -> CreateOrder:
    fields: dict[str, object] = {
        "zone": "us-east1-d",
        "type": "v6e-16",
        "runtime": "v2-alpha-tpuv6e",
        "model": "spot",
        "request_id": f"request-{name}",
        "labels": {"tpufn": "lab"},
    }
    return CreateOrder(name=name, **(fields | changes))  # type: ignore[arg-type]


@pytest.fixture
def make_rig() -> Iterator[Callable[..., Rig]]:
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(closing(Rig(*args, **kwargs)))


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()


@pytest.fixture
def order() -> Callable[..., CreateOrder]:
    return order_of
