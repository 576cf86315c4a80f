"""The simulated cloud's server, as the process that it is started as."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from google.cloud.tpu_v2 import TpuClient

from tpufn.adapters.tpu_api import CloudTpu, connect
from tpufn.domain.cloud import CreateOrder, NodeState, QueuedResourceState
from tpufn.domain.errors import InputError, Refused
from tpufn.simulation.capacity import Capacity, Place
from tpufn.simulation.clock import VirtualClock
from tpufn.simulation.cloud import SimulatedCloud
from tpufn.simulation.server import Server, main
from tpufn.simulation.server_door import Door, place_of_text

ZONE = "us-east1-d"
ENOUGH = 60.0


def order(name: str = "tpufn-lab-s-g1") -> CreateOrder:
    return CreateOrder(name=name, zone=ZONE, type="v6e-8", runtime="r", model="spot", request_id=f"request-{name}")


@contextmanager
def process(*options: object) -> Iterator[tuple[CloudTpu, Door]]:
    """A server of its own process, the adapter and the side door to it."""
    command = [sys.executable, "-m", "tpufn.simulation.server", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            endpoint = f"127.0.0.1:{int(server.stdout.readline())}"
            with Door(endpoint) as door, closing(connect(endpoint).transport) as transport:
                yield CloudTpu("sandbox", clock=VirtualClock(), client=lambda: TpuClient(transport=transport)), door
        finally:
            server.terminate()
    assert server.returncode == 0


def test_a_life_in_a_process_and_its_successor(tmp_path):
    """Why: the whole-system test lives on this; a restarted server must go on with the same TPUs."""
    with process("--virtual", "--home", tmp_path / "cloud", "--workers", tmp_path / "hosts") as (tpu, door):
        tpu.create(order())
        door.advance(ENOUGH)
        assert tpu.get(order().name, ZONE).is_ready
        assert (tmp_path / "hosts" / order().name / "w0").is_dir()
        door.preempt(order().name, end_state="TERMINATED")
        assert tpu.get(order().name, ZONE).node is NodeState.TERMINATED
    with process("--virtual", "--home", tmp_path / "cloud", "--workers", tmp_path / "hosts") as (tpu, door):
        [found] = tpu.list(ZONE)
        assert (found.node, found.is_dead) == (NodeState.TERMINATED, True)
        tpu.create(order())  # the same request id as before the restart
        assert door.provisioned() == 2
        tpu.delete(order().name, ZONE)
        door.advance(ENOUGH)
        assert tpu.get(order().name, ZONE) is None
        assert not (tmp_path / "hosts" / order().name).exists()


def test_the_machines_clock(tmp_path):
    """Why: nobody calls while a TPU is taken away; its workers must hear of it all the same."""
    with process("--speed", 1000, "--workers", tmp_path, "--lifetime", "200-200", "--seed", 3) as (tpu, door):
        tpu.create(order())
        looks = (tpu.get(order().name, ZONE).request for _ in range(20_000))
        assert any(request is QueuedResourceState.SUSPENDED for request in looks)
        assert (tmp_path / order().name / "w0" / ".tpufn" / "generation").read_text() == "off"
        with pytest.raises(InputError, match="the machine's"):
            door.advance(1.0)


def test_options_of_supply():
    """Why: races, stockouts and quotas are set up from the outside."""
    with process("--virtual", "--chips", f"spot:v6e:{ZONE}=8", "--quota", "spot:v6e:us-east1=16") as (tpu, door):
        for name in ("a", "b"):
            tpu.create(order(name))
        with pytest.raises(Refused, match="Limit 16 in region us-east1"):
            tpu.create(order("c"))
        door.advance(ENOUGH)
        assert sorted(str(each.request) for each in tpu.list(ZONE)) == ["ACTIVE", "WAITING_FOR_RESOURCES"]
        door.set_chips(Place("spot", "v6e", ZONE), 16)
        door.advance(ENOUGH)
        assert [each.is_ready for each in tpu.list(ZONE)] == [True, True]


def test_slow_operations():
    """Why: an operation may take longer than anybody waits; then the resource tells."""
    with process("--virtual", "--operation", 3600) as (tpu, door):
        tpu.create(order())
        calls = door.do("calls")
        assert calls[0] == "CreateQueuedResource"
        assert calls.count("GetOperation") > 1


@pytest.fixture
def door() -> Iterator[Door]:
    clock = VirtualClock()
    with Server(SimulatedCloud(Capacity(), clock=clock), clock) as server, Door(server.endpoint) as door:
        yield door


def test_the_side_door(door):
    """Why: whole-system tests inject through it what nature does."""
    door.faults.inject("stockout", zone=ZONE, times=2)
    assert [(rule["fault"], rule["times"]) for rule in door.do("armed")] == [("stockout", 2)]
    door.clear()
    assert door.do("armed") == []
    door.add_foreign("other", ZONE, "v6e-8", phase="suspended", node="PREEMPTED", labels={"team": "x"})
    snapshot = door.snapshot()
    assert [(r["order"]["name"], r["phase"], r["node"]) for r in snapshot["resources"]] == [
        ("other", "suspended", "PREEMPTED")
    ]
    assert snapshot["held"] == {f"spot:v6e:{ZONE}": 8, "spot:v6e:us-east1": 8}
    assert (door.provisioned(), door.provisioned(foreign=True)) == (0, 2)
    assert (door.do("usage"), door.do("cost")) == ([], 0)


@pytest.mark.parametrize(
    ("verb", "arguments", "words"),
    [
        ("nothing", {}, "no such verb; there are inject, clear"),
        ("inject", {"fault": "stokout"}, "did you mean stockout"),
        ("inject", {"fault": "stockout", "end_state": "DEAD"}, "DEAD"),
        ("preempt", {"name": "none"}, "no TPU none"),
        ("preempt", {}, "name"),
        ("set_chips", {"place": "v6e", "chips": 1}, "places look like spot:v6e:us-east1-d"),
    ],
)
def test_a_wrong_word_at_the_side_door(door, verb, arguments, words):
    """Why: a fault that was never injected makes a test pass that tests nothing."""
    with pytest.raises(InputError, match=words):
        door.do(verb, **arguments)


def test_what_was_said_is_answered(door):
    """Why: some answers of the service no simulated cloud gives by itself."""
    door.say("ListNodes", 14, "unavailable", times=3)
    assert door.do("calls") == []
    door.do("delay", seconds=5.0)


def test_a_taken_port_is_an_error():
    """Why: two servers on one port would each see half of the calls."""
    clock = VirtualClock()
    cloud = SimulatedCloud(Capacity(), clock=clock)
    with Server(cloud, clock) as server, pytest.raises(RuntimeError, match=r"[Ff]ailed to bind"):
        Server(cloud, clock, port=server.port)


def test_places_as_text():
    """Why: options and messages name places as the simulated cloud prints them."""
    place = Place("spot", "v6e", ZONE)
    assert place_of_text(str(place)) == place


def test_help(capsys):
    """Why: a person starts it, too."""
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "--quota PLACE=N" in capsys.readouterr().out
