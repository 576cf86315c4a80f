"""The simulated cloud as a server, for the real `google-cloud-tpu` client: `python -m tpufn.simulation.server`.

It prints its port on a line of its own and serves until it is told to stop (TERM or INT). With `--home` its state is in
a file there, and a killed server's successor goes on. With `--workers` every TPU has local workers, directories with
real processes. Its TPUs live and die in the machine's time, unless the clock is virtual: then only the side door moves
it (`server_door`).
"""

import argparse
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc  # type: ignore[import-untyped]  # the package has no types

from tpufn.ports import Clock
from tpufn.simulation.capacity import Capacity, Place, Spread, Supply
from tpufn.simulation.clock import VirtualClock, WallClock
from tpufn.simulation.cloud import SimulatedCloud
from tpufn.simulation.hosts import Hosts
from tpufn.simulation.server_door import DoorService, place_of_text
from tpufn.simulation.server_tpu import PAGE, TpuService
from tpufn.simulation.workers import LocalWorkers

_THREADS = 16
_LOOK = 0.2
"""Seconds between two looks for what is due: workers are warned and killed at their moment, not at the next call."""


class Server:
    """A simulated cloud on a port of this machine. The cloud stays the caller's: it is not closed with the server."""

    def __init__(
        self, cloud: SimulatedCloud, clock: Clock, *, project: str = "sandbox", port: int = 0, page: int = PAGE
    ) -> None:
        self.tpu = TpuService(cloud, clock, project=project, page=page)
        self.door = DoorService(self.tpu, clock)
        self._threads = ThreadPoolExecutor(_THREADS, "tpu-server")
        self._server = grpc.server(self._threads, options=(("grpc.so_reuseport", 0),))
        self._server.add_generic_rpc_handlers((*self.tpu.handlers(), self.door.handler()))
        self.port: int = self._server.add_insecure_port(f"127.0.0.1:{port}")

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> "Server":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
        self._threads.shutdown()


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    clock: Clock = VirtualClock() if options.virtual else WallClock()
    cloud = SimulatedCloud(
        _capacity(options),
        clock=clock,
        hosts=_hosts(options.workers),
        path=_file(options.home),
        project=options.project,
    )
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with Server(cloud, clock, project=options.project, port=options.port, page=options.page) as server:
        server.tpu.operations.delay = options.operation
        print(server.port, flush=True)
        while not stopped.wait(_LOOK):
            cloud.advance()
    cloud.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tpufn.simulation.server", description=__doc__)
    add = parser.add_argument
    add("--port", type=int, default=0, help="0: any free one")
    add("--project", default="sandbox", help="the only project there is")
    add("--home", type=Path, help="the directory that the state is kept in; without it nothing is kept")
    add("--workers", type=Path, help="the directory of the workers; without it TPUs have addresses and no machines")
    add("--seed", type=int, default=0)
    add("--speed", type=float, default=1.0, help="divides every delay")
    add("--chips", metavar="PLACE=N", action="append", default=[], help="as in spot:v6e:us-east1-d=16; repeatable")
    add("--quota", metavar="PLACE=N", action="append", default=[], help="the same, for a zone or a region")
    add("--lifetime", metavar="LOW-HIGH", help="seconds until a Spot TPU is reclaimed")
    add("--operation", type=float, default=0.0, metavar="SECONDS", help="how long an operation takes")
    add("--page", type=int, default=PAGE, help="entries of a page of a listing")
    add("--virtual", action="store_true", help="time stands still until the side door moves it")
    return parser


def _capacity(options: argparse.Namespace) -> Capacity:
    low, _, high = (options.lifetime or "").partition("-")
    default = Supply(lifetime=Spread(float(low), float(high or low)) if low else None)
    supply = {place: Supply(chips=chips, lifetime=default.lifetime) for place, chips in _places(options.chips).items()}
    return Capacity(
        seed=options.seed, speed=options.speed, default=default, supply=supply, quota=_places(options.quota)
    )


def _places(pairs: Sequence[str]) -> Mapping[Place, int]:
    split = [pair.rpartition("=") for pair in pairs]
    return {place_of_text(place): int(number) for place, _, number in split}


def _hosts(home: Path | None) -> Hosts | None:
    return LocalWorkers(home, home / ".buckets") if home else None


def _file(home: Path | None) -> Path | None:
    if home is None:
        return None
    home.mkdir(parents=True, exist_ok=True)
    return home / "cloud.sqlite"


if __name__ == "__main__":
    sys.exit(main())
