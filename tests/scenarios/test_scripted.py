"""The scripted workers themselves: they refuse, write and fall silent as the real agent does."""

from dataclasses import replace
from math import inf
from typing import Any

import msgspec
import pytest

from tpufn.domain.cloud import Health, NodeState, Tpu
from tpufn.domain.errors import NotFound
from tpufn.domain.orders import LaunchOrder, StopOrder
from tpufn.domain.slot import Lease
from tpufn.simulation.clock import EPOCH, VirtualClock
from tpufn.simulation.scripted import ScriptedWorkers
from tpufn.simulation.scripted_blobs import MemoryBlobs
from tpufn.simulation.scripted_script import HostScript, Script

ZONE = "us-east5-b"


class Bench:
    """Two hosts of one TPU of generation 3, and their bucket."""

    def __init__(self, script: Script | None = None, host: HostScript | None = None) -> None:
        self.clock, self.heard = VirtualClock(), list[str]()
        self.blobs = MemoryBlobs(self.clock, {"data": "us-east5"})
        self.script = {"": script or Script()}
        self.workers = ScriptedWorkers(
            self.clock,
            self.blobs,
            publish=lambda topic, body: self.heard.append(str(body.get("what", topic))),
            script=lambda job, number, worker: self.script.get(job, self.script[""]),
            host=lambda tpu, worker: host or HostScript(),
        )
        addresses = self.workers.provision("t-g3", ZONE, 2)
        self.tpu = Tpu(name="t-g3", zone=ZONE, node=NodeState.READY, health=Health.HEALTHY, workers=addresses)

    def launch(self, job: str = "a", *, fence: int = 1, generation: int = 3) -> Any:
        return self.workers.launch(
            LaunchOrder(
                attempt=f"{job}.1",
                job=job,
                number=1,
                name="",
                lease=Lease(slot="s", generation=generation, fence=fence, attempt=f"{job}.1"),
                tpu="t-g3",
                type="v6e-16",
                zone=ZONE,
                project="p",
                workers=self.tpu.workers,
                bucket="data",
                prefix=f"jobs/{job}/attempts/1",
                checkpoints=f"jobs/{job}/checkpoints",
                command="true",
            )
        )

    def stop(self, job: str = "a", *, fence: int = 1, grace: float = 30.0) -> Any:
        lease = Lease(slot="s", generation=3, fence=fence, attempt=f"{job}.1")
        where = {"bucket": "data", "prefix": f"jobs/{job}/attempts/1"}
        order = StopOrder(
            attempt=f"{job}.1", lease=lease, tpu="t-g3", workers=self.tpu.workers, reason="", grace=grace, **where
        )
        return self.workers.stop(order)

    def go(self, job: str = "a") -> None:
        self.blobs.put("data", f"jobs/{job}/attempts/1/go", b"{}", once=True)

    def running(self, job: str = "a") -> None:
        assert not self.launch(job)
        self.clock.advance(2)
        self.go(job)

    def said(self, job: str = "a", worker: int = 0) -> dict[str, float]:
        """What that worker has written, with the seconds since the beginning."""
        prefix = f"jobs/{job}/attempts/1/status/worker-{worker}."
        found = self.blobs.list("data", prefix)
        return {o.key.removeprefix(prefix).removesuffix(".json"): round(o.updated - EPOCH, 3) for o in found}

    def exited(self, job: str = "a", worker: int = 0) -> Any:
        return msgspec.json.decode(self.blobs.get("data", f"jobs/{job}/attempts/1/status/worker-{worker}.exited.json"))


def test_a_life_is_written_at_its_own_moments() -> None:
    """However late somebody looks; nothing happens before `go`."""
    bench = Bench(Script(accept=0.5, prepare=2, run=60, closing=1))
    bench.launch()
    bench.clock.advance(10)
    assert bench.said() == {"accepted": 0.5, "prepared": 2.5, "heartbeat": 0.0}
    bench.go()
    bench.clock.advance(1000)
    assert bench.said() == {"accepted": 0.5, "prepared": 2.5, "heartbeat": 0.0, "exited": 70.0, "closed": 71.0}
    assert bench.heard == [w for w in ("accepted", "prepared", "exited", "closed") for _ in range(2)]


def test_a_live_worker_beats() -> None:
    """One object, rewritten every thirty seconds since the launch."""
    bench = Bench(Script(run=500))
    bench.running()
    bench.clock.advance(100)
    assert bench.said()["heartbeat"] == 90.0


def test_launching_twice_starts_once() -> None:
    """Idempotent, before and after the worker accepted."""
    bench = Bench(Script(accept=5))
    assert not bench.launch()
    assert not bench.launch()
    bench.clock.advance(10)
    assert not bench.launch()
    assert len(bench.workers.living()) == 2


@pytest.mark.parametrize(
    ("late", "cause"),
    [
        ({"fence": 1}, "fence 1 was stopped"),
        ({"generation": 2, "fence": 9}, "this host is of generation 3"),
        ({"generation": 4, "fence": 9}, "this host is of generation 3"),
    ],
)
def test_what_the_tombstone_or_the_generation_outdates_is_refused(late: dict[str, int], cause: str) -> None:
    """A late launch starts nothing, also where it never arrived before."""
    bench = Bench()
    assert not bench.stop(fence=1)
    bench.clock.advance(1)
    assert set(bench.said()) == {"closed"}
    assert all(cause in text for text in bench.launch("b", **late).values())
    assert not bench.workers.living()


def test_an_attempt_that_is_not_closed_keeps_the_next_one_out() -> None:
    """And one that left something behind does so for ever."""
    bench = Bench(Script(run=50, clean=False))
    bench.running()
    assert "attempt a.1 is not closed" in bench.launch("b", fence=2)[0]
    bench.clock.advance(100)
    assert set(bench.said()) >= {"exited", "closed"}
    assert "attempt a.1 is not closed" in bench.launch("b", fence=2)[1]


def test_the_next_fence_is_admitted_after_a_clean_end() -> None:
    """An older one is not."""
    bench = Bench(Script(run=50))
    bench.running()
    bench.clock.advance(100)
    assert not bench.launch("b", fence=2)
    assert "is older than" in bench.launch("c", fence=1)[0] or "not closed" in bench.launch("c", fence=1)[0]


@pytest.mark.parametrize(("on_term", "code", "after"), [(5.0, 143, 5.0), (inf, 137, 30.0)])
def test_a_stop_is_term_then_kill(on_term: float, code: int, after: float) -> None:
    """Ours from the order on."""
    bench = Bench(Script(run=500, on_term=on_term))
    bench.running()
    bench.clock.advance(10)
    bench.stop()
    bench.clock.advance(60)
    assert bench.said()["exited"] == 12 + after
    assert (bench.exited()["code"], bench.exited()["ours"]) == (code, True)


def test_a_notice_is_told_and_ends_the_command() -> None:
    """Unless its script is deaf to it."""
    bench = Bench(Script(run=500))
    bench.running()
    bench.workers.notice("t-g3")
    bench.clock.advance(5)
    assert bench.heard.count("preemptions") == 2
    assert (bench.exited()["preempted"], bench.exited()["ours"]) == (True, True)


def test_a_killed_host_says_nothing_more() -> None:
    """Neither results nor heartbeats; what ran is recorded as it was."""
    bench = Bench(Script(run=50))
    bench.running()
    bench.clock.advance(10)
    bench.workers.kill("t-g3")
    bench.clock.advance(100)
    assert set(bench.said()) == {"accepted", "prepared", "heartbeat"}
    assert bench.workers.usable(bench.tpu) == frozenset()
    assert bench.stop() == dict.fromkeys((0, 1), "no such host, or it does not answer")
    assert {(run.code, run.ended) for run in bench.workers.runs()} == {(None, EPOCH + 12)}


def test_silence_keeps_results_for_later() -> None:
    """The work goes on; everything is told when the network is back, late but with nothing lost."""
    bench = Bench(Script(run=50, silent_at=10, silent_for=100))
    bench.running()
    bench.clock.advance(80)
    assert bench.said() == {"accepted": 0.2, "prepared": 1.2, "heartbeat": 0.0}
    assert bench.workers.alive(bench.tpu, "a.1") == {}
    bench.clock.advance(80)
    assert bench.said() == {"accepted": 0.2, "prepared": 1.2, "heartbeat": 0.0, "exited": 112.0, "closed": 112.0}


def test_a_dead_agent_is_closed_by_the_stop() -> None:
    """Its end is unknown and ours; the host proves that nothing is left."""
    bench = Bench(Script(run=500, dies_at=10))
    bench.running()
    bench.clock.advance(50)
    assert bench.workers.alive(bench.tpu, "a.1") == {0: False, 1: False}
    bench.stop()
    bench.clock.advance(5)
    assert (bench.exited()["code"], bench.exited()["ours"]) == (None, True)
    assert "closed" in bench.said()


def test_a_checkpoint_shortens_the_next_run() -> None:
    """The rest of the work only, from the last one that was kept."""
    bench = Bench(Script(run=100, checkpoint=20))
    bench.running()
    bench.clock.advance(50)
    bench.workers.kill("t-g3")
    bench.workers.provision("t-g3", ZONE, 2)
    bench.script["b"] = replace(bench.script[""], run=100)
    bench.launch("a", fence=1)
    saved = bench.blobs.get("data", "jobs/a/checkpoints/progress.json")
    assert msgspec.json.decode(saved) == 40.0


def test_memory_blobs_answer_like_a_bucket() -> None:
    """Missing things, write-once, update times of the clock."""
    clock = VirtualClock()
    blobs = MemoryBlobs(clock, {"data": "us-east5"})
    with pytest.raises(NotFound):
        blobs.put("other", "k", b"")
    with pytest.raises(NotFound):
        blobs.get("data", "k")
    assert blobs.put("data", "a/k", b"hello", once=True)
    clock.advance(5)
    assert not blobs.put("data", "a/k", b"bye", once=True)
    assert blobs.get("data", "a/k", start=2) == b"llo"
    assert blobs.put("data", "a/k", b"bye")
    (found,) = blobs.list("data", "a/")
    assert (found.key, found.size, found.updated) == ("a/k", 3, EPOCH + 5)
    assert blobs.region("data") == "us-east5"
