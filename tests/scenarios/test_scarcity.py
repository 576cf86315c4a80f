"""Getting capacity and giving it back: refusals, late grants, strays, idle TPUs, changed deployment files."""

from dataclasses import replace

import pytest

from tpufn.domain.cloud import NodeState
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import JobState
from tpufn.domain.slot import SlotState
from tpufn.simulation.capacity import Capacity, Place, Spread, Supply
from tpufn.simulation.life import Phase
from tpufn.simulation.scripted_script import Script
from tpufn.simulation.universe_faults import Boundary, Trouble

from .scene import V4, V6A, V6B, WIDE, Scene, pool

UC2B = Place("spot", "v4", "us-central2-b")


def test_stockout_everywhere_then_capacity_returns() -> None:
    """The job stays pending with growing pauses between the tries, then runs; no retry budget is used."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.cloud.faults.inject("stockout", times=None)
    scene.start("a")
    scene.run_for(4 * 3600)
    refused = [n.at for n in scene.notes if n.event == "slot.refused"]
    assert 10 < len(refused) < 60
    assert scene.job("a").state is JobState.PENDING
    scene.cloud.faults.clear()
    scene.until_ended("a", limit=1.5 * scene.policy.cooldown_max)
    assert scene.outcomes("a") == ["succeeded"]


def test_a_stockout_that_comes_late_leaves_no_husk() -> None:
    """Inside the queued resource's failed data: cool-down, other legs go on, the husk is deleted."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.cloud.faults.inject("stockout-late", zone="us-central2-b")
    scene.start("a")
    scene.until_ended("a")
    assert scene.job("a").region == "us-east5"
    scene.until_empty()


def test_a_full_quota_is_armed_by_our_own_release() -> None:
    """Two jobs, quota for one: the second starts soon after the first one's TPU is gone, not after a cool-down."""
    capacity = Capacity(quota={Place("spot", "v4", "us-central2"): 4})
    scene = Scene(pool(*V4, 2), capacity=capacity)
    scene.scripts["a"] = Script(run=3000)
    scene.start("a")
    scene.until_running("a")
    scene.start("b")
    scene.run_for(600)
    assert scene.events(of="slot.refused")
    scene.command("interrupt", scene.job("a").slot)
    scene.command("cancel", "a")
    began = scene.clock.now()
    scene.until_running("b")
    assert scene.clock.now() - began < 4 * scene.policy.tick
    scene.until_ended("b")
    scene.until_empty()


def test_a_structural_refusal_is_not_tried_again_until_the_file_changes() -> None:
    """Limit 0: one try, the other pool runs the job; every later reading of the store works."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.cloud.faults.inject("quota-zero", zone="us-central2-b", times=None)
    for id in ("a", "b", "c"):
        scene.start(id)
        scene.until_ended(id)
    assert scene.events().count("slot.refused") == 1
    scene.cloud.faults.clear()
    scene.scripts["d"] = Script(run=3000)
    scene.start("d")
    scene.change(*(replace(p, count=2) for p in scene.fleet.pools))
    scene.start("e", "v4-8", regions=("us-central2",))
    scene.until_ended("e", limit=1200)


def test_one_zone_that_refuses_everything_stops_nobody() -> None:
    """403 on every call in one zone: the others are swept and used."""
    scene = Scene(pool(*V4), pool(*V6A), pool(*V6B))
    scene.cloud.faults.inject("zone-forbidden", zone="us-central2-b", times=None)
    for i in range(3):
        scene.start(f"j{i}")
    scene.until_ended("j0", "j1", "j2")
    assert {scene.job(f"j{i}").region for i in range(3)} == {"us-east5"}
    scene.until_empty()


def test_a_zone_that_dies_with_a_job_in_it() -> None:
    """No call is answered for hours: the job there goes on, the sight is only blind."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.scripts["a"] = Script(run=7200)
    scene.start("a")
    scene.until_running("a")
    scene.cloud.faults.inject("zone-dead", zone=scene.attempt("a").zone, times=None)
    scene.until_ended("a")
    assert scene.outcomes("a") == ["succeeded"]
    scene.run_for(3600)
    scene.cloud.faults.clear()
    scene.until_empty()


# Creates and deletes that go astray


@pytest.mark.parametrize("fault", ["timeout-lost", "timeout-late", "timeout-applied", "empty-operation"])
def test_a_create_without_an_answer(fault: str) -> None:
    """Unknown: asked again by the same request id; at most one TPU a generation, nothing is left."""
    scene = Scene(pool(*V4))
    scene.cloud.faults.inject(fault, call="create")
    scene.start("a")
    scene.until_ended("a")
    assert scene.outcomes("a") == ["succeeded"]
    assert set(scene.creates().values()) == {1}
    scene.until_empty()


def late_grant() -> Scene:
    """A create that timed out and will be applied; its second try was refused, so that the slot is free again."""
    scene = Scene(pool(*V4))
    scene.cloud.faults.inject("timeout-late", call="create", seconds=80.0)
    scene.start("a")
    scene.run_until(lambda: scene.cloud.calls["create"] == 1)
    scene.cloud.faults.inject("rate-limit", call="create", times=None)
    scene.until_event("slot.refused")
    assert scene.slot().state is SlotState.FREE
    return scene


def test_a_late_grant_is_adopted_for_a_waiting_job() -> None:
    """The TPU that nobody believed in any more runs the job."""
    scene = late_grant()
    scene.until_ended("a", limit=3600)
    assert scene.creates() == {"tpufn-lab-spot-v48-uc2b-1-g1": 1}
    assert "slot.adopted" in scene.events()
    scene.until_empty()


def test_a_late_grant_that_nobody_needs_is_deleted() -> None:
    """Within a sweep."""
    scene = late_grant()
    scene.command("cancel", "a")
    scene.until_event("stray.found", limit=scene.policy.idle_sweep + scene.policy.tick)
    scene.until_empty()


def test_a_late_grant_that_is_adopted_and_then_vanishes() -> None:
    """Somebody deletes it at once: the slot does not wait for it for ever."""
    scene = late_grant()
    scene.until_event("slot.adopted", limit=3600)
    scene.cloud.faults.clear()
    scene.cloud.delete("tpufn-lab-spot-v48-uc2b-1-g1", "us-central2-b")
    scene.until_ended("a", limit=3600)
    scene.until_empty()


def test_a_grant_that_comes_long_after_everybody_gave_up() -> None:
    """75 minutes: the job has run elsewhere, the leg was surplus, nothing is left."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.cloud.faults.inject("late-grant", zone="us-central2-b")
    scene.start("a")
    scene.until_ended("a")
    scene.run_for(6000)
    scene.until_empty()


def test_a_delete_that_is_refused_is_repeated() -> None:
    """The slot stays releasing, with backoff, until not found."""
    scene = Scene(pool(*V4))
    scene.cloud.faults.inject("delete-refused", times=4)
    scene.start("a")
    scene.until_ended("a")
    scene.until_slot(SlotState.RELEASING)
    scene.run_for(30)
    assert scene.slot().state is SlotState.RELEASING
    scene.until_empty()


@pytest.mark.parametrize("fault", ["timeout-lost", "timeout-applied", "delete-late"])
def test_a_delete_without_an_answer(fault: str) -> None:
    """Repeated until the cloud says not found; the slot is not free before."""
    scene = Scene(pool(*V4))
    scene.start("a")
    scene.until_ended("a")
    scene.cloud.faults.inject(fault, call="delete")
    scene.until_slot(SlotState.RELEASING)
    while scene.slot().state is SlotState.RELEASING:
        scene.step()
    assert not scene.ours()
    scene.until_empty()


def test_a_husk_is_deleted_and_the_slot_used_again() -> None:
    """SUSPENDED without a node, holding its quota."""
    scene = Scene(pool(*V4), capacity=Capacity(quota={Place("spot", "v4", "us-central2"): 4}))
    scene.cloud.faults.inject("husk")
    scene.start("a")
    scene.until_ended("a", limit=3600)
    assert [a.tpu[-2:] for a in scene.attempts("a")] == ["g2"]
    scene.until_empty()


def test_a_race_lost_while_it_is_being_built() -> None:
    """A slow loser that is PROVISIONING when the job ends is released, forced, and gone."""
    slow = Supply(delays={**Supply().delays, **{e: Spread(400, 400) for e in Supply().delays if e == "ready"}})
    scene = Scene(pool(*V4), pool(*V6A), capacity=Capacity(supply={UC2B: slow}))
    scene.scripts["a"] = Script(run=60)
    scene.start("a")
    scene.until_ended("a")
    scene.until_empty(limit=3600)


# Strays


def foreign(scene: Scene, name: str, **labels: str) -> None:
    scene.cloud.add_foreign(name, "us-central2-b", "v4-8", labels=labels, node=NodeState.READY, phase=Phase.ACTIVE)


def test_somebody_elses_tpu_is_left_alone() -> None:
    """Without labels, with another deployment's mark, even with our names."""
    scene = Scene(pool(*V4))
    foreign(scene, "theirs")
    foreign(scene, "tpufn-lab-spot-v48-uc2b-9-g1", tpufn="lab")
    foreign(scene, "other", **{"tpufn": "lab", "tpufn-nonce": "another"})
    scene.start("a")
    scene.until_ended("a")
    scene.until_empty()
    assert scene.cloud.provisioned(foreign=True) == 6


@pytest.mark.parametrize("slot", ["spot-v48-uc2b-1", "spot-v48-uc2b-7"])
def test_a_stray_of_ours_is_deleted(slot: str) -> None:
    """An older generation, or of a slot that does not exist any more; within a sweep, also where nothing else is on."""
    scene = Scene(pool(*V4))
    scene.start("a")
    scene.until_ended("a")
    scene.until_empty()
    marks = {"tpufn": "lab", "tpufn-nonce": "0123abcd", "tpufn-slot": slot, "tpufn-generation": "0"}
    foreign(scene, f"tpufn-lab-{slot}-g0", **marks)
    scene.run_until(lambda: not scene.ours(), limit=scene.policy.idle_sweep + 3 * scene.policy.tick)
    scene.until_empty()


def test_a_name_that_somebody_else_has_taken() -> None:
    """Already exists, with other labels: the next generation is asked for."""
    scene = Scene(pool(*V4))
    foreign(scene, "tpufn-lab-spot-v48-uc2b-1-g1")
    scene.start("a")
    scene.until_ended("a", limit=3600)
    assert scene.attempt("a").tpu == "tpufn-lab-spot-v48-uc2b-1-g2"
    assert scene.cloud.get("tpufn-lab-spot-v48-uc2b-1-g1", "us-central2-b") is not None


# Idle TPUs


def test_an_idle_tpu_is_kept_for_its_timeout_and_no_longer() -> None:
    """Ten minutes."""
    scene = Scene(pool(*V4))
    scene.start("a")
    scene.until_ended("a")
    scene.until_slot(SlotState.IDLE)
    idle = scene.clock.now()
    scene.until_event("slot.releasing")
    assert 600 <= scene.clock.now() - idle <= 600 + scene.policy.tick


def test_the_warm_floor_is_kept_and_restored() -> None:
    """One of two stays; a preempted one is replaced; without the floor it goes."""
    scene = Scene(pool(*V4, 2, keep_warm=1))
    for id in ("a", "b"):
        scene.start(id)
    scene.until_ended("a", "b")
    scene.run_for(3 * 3600)
    assert [s.state for s in scene.slots().values()].count(SlotState.IDLE) == 1
    (warm,) = scene.ours()
    scene.cloud.preempt(warm.name)
    scene.run_for(600)
    assert [s.state for s in scene.slots().values()].count(SlotState.IDLE) == 1
    scene.change(pool(*V4, 2))
    scene.until_empty()


def test_an_idle_tpu_that_a_waiting_job_could_use_is_not_torn_down() -> None:
    """Its last attempt has to close first: that TPU's pool is wanted."""
    scene = Scene(pool(*WIDE, 2), idle=60.0)
    scene.scripts |= {"a": Script(run=100, code=143), ("a", 3): Script(run=100)}
    scene.start("a")
    scene.until_ended("a")
    assert len(scene.creates()) <= 3


# Deployment files


def test_a_pool_that_left_the_file_drains() -> None:
    """Its job ends in peace, its TPU is not used again, its slots retire."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.scripts["a"] = Script(run=1200)
    scene.start("a", "v4-8", regions=("us-central2",))
    scene.until_running("a")
    scene.change(pool(*V6A))
    scene.start("b", "v4-8", "v6e-8", regions=("us-central2", "us-east5"))
    scene.until_ended("a", "b")
    assert scene.outcomes("a") == ["succeeded"]
    assert scene.attempt("b").zone == "us-east5-a"
    scene.until_slot(SlotState.RETIRED, "spot-v48-uc2b-1", limit=300)
    scene.change(pool(*V4), pool(*V6A))
    scene.start("c", "v4-8", regions=("us-central2",))
    scene.until_ended("c")
    scene.until_empty()


def test_a_grant_for_a_pool_that_left_the_file_meanwhile() -> None:
    """Nobody waits for it, its slot is retired, its zone is in no deployment file: it is found and deleted all the
    same."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.cloud.faults.inject("timeout-late", zone="us-central2-b", seconds=2400.0)
    scene.start("a")
    scene.until_ended("a")
    scene.change(pool(*V6A))
    scene.until_slot(SlotState.RETIRED, "spot-v48-uc2b-1")
    scene.until_event("stray.found")
    scene.until_empty()


def test_a_pool_that_left_the_file_in_the_middle_of_the_race() -> None:
    """Its leg is released, whatever the create still says."""
    scene = Scene(pool(*V4), pool(*V6A))
    scene.start("a")
    scene.until_event("slot.requesting")
    scene.change(pool(*V6A))
    scene.until_ended("a")
    scene.until_empty()


def test_a_job_that_nothing_can_run_waits_for_the_fleet_to_change() -> None:
    """It says unschedulable, with the reason, and runs once there is a pool."""
    scene = Scene(pool(*V4))
    scene.start("a", "v6e-8", regions=("us-east5",))
    scene.run_for(3600)
    assert scene.job("a").state is JobState.PENDING
    assert "no pool of the fleet offers v6e-8" in scene.job("a").unschedulable
    assert not scene.creates()
    scene.change(pool(*V4), pool(*V6A))
    scene.until_ended("a", limit=600)
    assert scene.job("a").unschedulable == ""


def test_the_chip_limit_is_kept_by_a_crowd() -> None:
    """Twenty jobs, four slots by the ceiling, chips for two: the invariants watch, all of them end."""
    scene = Scene(pool(*V4, 4, chip_limit=8))
    for i in range(20):
        scene.start(f"j{i}")
    scene.until_ended(*(f"j{i}" for i in range(20)))
    assert len({a.slot for i in range(20) for a in scene.attempts(f"j{i}")}) == 2


def test_two_races_cannot_both_spend_the_last_chips() -> None:
    """One planner stands still before its commit; another spends the same chips on another pool of the scope."""
    scene = Scene(pool("v4-8", "us-central2-b", chip_limit=8), pool("v4-16", "us-central2-b", chip_limit=8))
    scene.gate.standstill = 1.0

    def plan(boundary: Boundary) -> Trouble | None:
        if boundary.about.startswith("race.opened") and boundary.when == "before" and not scene.struck:
            scene.struck = True
            scene.start("b", "v4-16", priority="high")
            return Trouble.FREEZE
        return None

    scene.run_for(1)
    scene.gate.plan = plan
    scene.start("a", "v4-8")
    scene.until_event("slot.requesting")
    scene.run_for(1)
    assert [s.state is SlotState.FREE for s in scene.slots().values()] == [False, True]
    scene.until_ended("a", "b")
    scene.until_empty()


def test_a_fleet_of_nothing() -> None:
    """No pools at all: ticks are harmless."""
    scene = Scene()
    scene.run_for(3600)
    assert scene.fleet == Fleet(name="lab", idle_timeout=600.0)
