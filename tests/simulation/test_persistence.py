"""A killed process: whatever was acknowledged is there again, and time went on meanwhile."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from tpufn.domain.cloud import NodeState, QueuedResourceState
from tpufn.domain.errors import Refused, Unknown
from tpufn.simulation.capacity import Capacity, Place, Supply
from tpufn.simulation.clock import WallClock
from tpufn.simulation.cloud import SimulatedCloud

EAST = Place("spot", "v6e", "us-east1-d")


@pytest.fixture
def rig(make_rig, tmp_path):
    return make_rig(path=str(tmp_path / "cloud.db"))


def test_an_acknowledged_create_is_there_again(rig):
    """Why: create acknowledged means that it exists, whatever dies."""
    rig.create()
    before = rig.cloud.snapshot().resources
    assert rig.reopen().snapshot().resources == before != ()


def test_delays_go_on_while_nobody_runs(rig):
    """Why: the cloud does not wait for its customer's process."""
    rig.create()
    rig.pass_()
    assert rig.reopen().get("t", "us-east1-d").is_ready


def test_reopening_at_any_step_gives_the_same_story(rig, make_rig):
    """Why: the timeline must not depend on how often the process died."""
    plain = make_rig()
    for each in (plain, rig):
        each.create()
    while (due := plain.cloud.next_event_at()) is not None:
        assert rig.reopen().next_event_at() == due
        for each in (plain, rig):
            each.clock.advance_to(due)
            each.cloud.advance()
        assert rig.reopen().snapshot().resources == plain.cloud.snapshot().resources
    assert rig.see().is_ready


def test_a_request_id_is_known_after_a_restart(rig, order):
    """Why: the call is sent again exactly when its sender died."""
    rig.create()
    rig.reopen().create(order())
    assert len(rig.cloud.snapshot().resources) == 1


def test_a_timed_out_create_that_was_applied_survives(rig, order):
    """Why: unknown to the caller is not unknown to the cloud."""
    rig.cloud.faults.inject("timeout-applied")
    with pytest.raises(Unknown):
        rig.cloud.create(order())
    assert rig.reopen().get("t", "us-east1-d") is not None


def test_a_delete_goes_on(rig):
    """Why: an accepted delete ends in not found."""
    rig.ready()
    rig.cloud.delete("t", "us-east1-d")
    assert rig.reopen().get("t", "us-east1-d").request is QueuedResourceState.DELETING
    rig.pass_()
    assert rig.reopen().get("t", "us-east1-d") is None


def test_a_preemption_that_was_announced_happens(rig):
    """Why: the kill comes although the process that heard the notice is dead."""
    rig.ready()
    rig.cloud.preempt("t", notice=30, end_state=NodeState.HIDDEN)
    rig.reopen()
    rig.pass_(30)
    assert rig.see().node is NodeState.HIDDEN
    assert rig.hosts.told[-1] == ("kill", "t")


def test_injected_faults_survive_and_used_ones_do_not_return(rig, order):
    """Why: a fault of n times strikes n times in all."""
    rig.cloud.faults.inject("stockout", times=2)
    for _ in range(2):
        with pytest.raises(Refused, match="no more capacity"):
            rig.reopen().create(order())
    rig.reopen().create(order())
    assert rig.see() is not None


def test_usage_and_changed_chips_survive(rig):
    """Why: the closing table covers the whole story, restarts included."""
    rig.ready()
    rig.cloud.delete("t", "us-east1-d")
    rig.cloud.set_chips(EAST, 0)
    rig.pass_()
    rig.cloud.advance()
    before = rig.cloud.usage()
    assert rig.reopen().usage() == before
    assert before[0].cost > 0
    rig.create("u")
    rig.pass_()
    assert rig.see("u").request is QueuedResourceState.WAITING_FOR_RESOURCES


def test_a_queue_for_chips_survives(make_rig, tmp_path):
    """Why: who waits longest is first, over a restart too."""
    rig = make_rig(Capacity(supply={EAST: Supply(chips=16)}), path=str(tmp_path / "cloud.db"))
    rig.ready("a")
    rig.create("b")
    rig.pass_()
    rig.cloud.advance()
    rig.reopen().delete("a", "us-east1-d")
    rig.pass_()
    assert rig.reopen().get("b", "us-east1-d").is_ready


def test_foreign_tpus_survive(rig):
    """Why: they are as real as ours."""
    rig.cloud.add_foreign("other", "us-east1-d", "v6e-8", queued=False)
    assert [(t.name, t.request) for t in rig.reopen().list("us-east1-d")] == [("other", None)]


def test_without_a_path_nothing_is_kept(make_rig):
    """Why: tests must not see each other."""
    rig = make_rig()
    rig.create()
    assert rig.reopen().snapshot().resources == ()


def test_closing_twice_is_fine(rig):
    """Why: shutdown paths meet."""
    rig.create()
    rig.cloud.close()
    rig.cloud.close()
    assert rig.reopen().get("t", "us-east1-d") is not None


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path):
    """Why: the real thing, on the wall clock: a process that creates until it is shot."""
    path = tmp_path / "cloud.db"
    script = textwrap.dedent(
        """
        import sys
        from tpufn.domain.cloud import CreateOrder
        from tpufn.simulation.clock import WallClock
        from tpufn.simulation.cloud import SimulatedCloud
        cloud = SimulatedCloud(clock=WallClock(), path=sys.argv[1])
        for i in range(100_000):
            cloud.create(CreateOrder(name=f"t{i}", zone="us-east1-d", type="v6e-8", runtime="r", model="spot",
                                     request_id=f"r{i}"))
            print(i, flush=True)
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        acknowledged = [int(process.stdout.readline()) for _ in range(30)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
    cloud = SimulatedCloud(clock=WallClock(), path=path)
    names = {t.name for t in cloud.list("us-east1-d")}
    assert {f"t{i}" for i in acknowledged} <= names
    assert len(names) <= len(acknowledged) + 1
    cloud.close()
