"""The life of a TPU in the simulated cloud, from create to gone."""

import threading

import pytest

from tpufn.domain.cloud import Health, NodeState, QueuedResourceState
from tpufn.domain.errors import Conflict, IllegalTransition, NotFound, Refused
from tpufn.simulation.capacity import Place
from tpufn.simulation.life import Event, Phase

EAST = Place("spot", "v6e", "us-east1-d")


def states_over_time(rig, name="t", zone="us-east1-d"):
    """Every (queued resource, node, health, workers) that a caller can see until nothing more happens."""
    seen = []
    while True:
        tpu = rig.cloud.get(name, zone)
        state = tpu and (tpu.request, tpu.node, tpu.health, len(tpu.workers))
        if state not in seen[-1:]:
            seen.append(state)
        due = rig.cloud.next_event_at()
        if due is None:
            return seen
        rig.clock.advance_to(due)


def test_a_create_walks_through_the_whole_life(rig):
    """Why: every state that the real API shows on the way is one that a caller must bear."""
    rig.create()
    q, n = QueuedResourceState, NodeState
    assert states_over_time(rig) == [
        (q.CREATING, None, Health.UNSPECIFIED, 0),
        (q.ACCEPTED, None, Health.UNSPECIFIED, 0),
        (q.WAITING_FOR_RESOURCES, None, Health.UNSPECIFIED, 0),
        (q.PROVISIONING, None, Health.UNSPECIFIED, 0),
        (q.PROVISIONING, n.CREATING, Health.UNSPECIFIED, 0),
        (q.ACTIVE, n.READY, Health.UNSPECIFIED, 0),
        (q.ACTIVE, n.READY, Health.UNSPECIFIED, 4),
        (q.ACTIVE, n.READY, Health.HEALTHY, 4),
    ]


def test_a_delete_walks_to_nothing(rig):
    """Why: the slot is free only when both halves are not found."""
    rig.ready()
    rig.cloud.delete("t", "us-east1-d")
    assert states_over_time(rig) == [(QueuedResourceState.DELETING, NodeState.DELETING, Health.UNSPECIFIED, 4), None]
    assert rig.hosts.told == [("provision", "t"), ("destroy", "t")]
    assert rig.cloud.provisioned() == 0


def test_a_preemption_walks_to_a_husk(rig):
    """Why: a preempted TPU stays listed, SUSPENDED with a PREEMPTED node, until it is deleted."""
    rig.ready()
    rig.cloud.preempt("t")
    q, n = QueuedResourceState, NodeState
    assert states_over_time(rig) == [
        (q.SUSPENDING, n.PREEMPTED, Health.UNSPECIFIED, 4),
        (q.SUSPENDED, n.PREEMPTED, Health.UNSPECIFIED, 4),
    ]
    assert rig.cloud.provisioned() == 2


def test_the_notice_comes_first_and_the_kill_at_its_end(rig):
    """Why: the workers have the seconds between to settle."""
    rig.ready()
    rig.cloud.preempt("t", notice=30)
    assert rig.hosts.told[-1] == ("notice", "t")
    rig.pass_(29)
    assert rig.see().is_ready
    rig.pass_(1)
    assert rig.see().node is NodeState.PREEMPTED
    assert rig.hosts.told[-2:] == [("notice", "t"), ("kill", "t")]


def test_without_notice_only_the_kill(rig):
    """Why: the notice is best effort."""
    rig.ready()
    rig.cloud.preempt("t")
    assert rig.hosts.told == [("provision", "t"), ("kill", "t")]


@pytest.mark.parametrize("state", [NodeState.TERMINATED, NodeState.REPAIRING, NodeState.UNKNOWN, NodeState.HIDDEN])
def test_a_preempted_node_may_show_something_else(rig, state):
    """Why: PREEMPTED is not the only word for a lost node."""
    rig.ready()
    rig.cloud.preempt("t", end_state=state)
    assert rig.see().node is state


def test_the_api_may_say_ready_long_after_the_hosts_died(rig):
    """Why: silence beats an API that says HEALTHY."""
    rig.ready()
    rig.cloud.preempt("t", lag=60)
    assert rig.hosts.told[-1] == ("kill", "t")
    rig.pass_(59)
    assert rig.see().is_ready
    rig.pass_(1)
    assert rig.see().node is NodeState.PREEMPTED


def test_preempting_what_is_being_built_fails_it(rig):
    """Why: reclaimed while creating is its own refusal."""
    rig.create()
    while rig.see().node is None:
        rig.clock.advance_to(rig.cloud.next_event_at())
    rig.cloud.preempt("t")
    tpu = rig.see()
    assert (tpu.request, tpu.node, tpu.error_code) == (QueuedResourceState.FAILED, NodeState.PREEMPTED, 3)


def test_preempting_nothing_is_an_error(rig):
    """Why: a test that preempts the wrong thing must not pass by accident."""
    with pytest.raises(NotFound, match="no TPU"):
        rig.cloud.preempt("t")
    rig.create()
    with pytest.raises(Conflict, match="nothing to preempt"):
        rig.cloud.preempt("t")


def test_deleting_a_preempted_tpu_frees_the_name_only_at_the_end(rig, order):
    """Why: names are never reusable until gone."""
    rig.ready()
    rig.cloud.preempt("t")
    rig.cloud.delete("t", "us-east1-d")
    with pytest.raises(Refused) as refused:
        rig.cloud.create(order("t", request_id="another"))
    assert refused.value.code == 6
    rig.pass_()
    assert rig.see() is None
    rig.ready("t", request_id="another")


def test_a_request_that_expires_fails_and_stays(rig):
    """Why: past valid_until it is FAILED and holds its quota until deleted."""
    rig.create(valid_for=0.001)
    rig.pass_()
    tpu = rig.see()
    assert tpu.request is QueuedResourceState.FAILED
    assert "valid_until" in tpu.error


def test_a_grant_in_time_outlives_valid_until(rig):
    """Why: valid_until bounds the wait, not the life."""
    rig.ready(valid_for=30.0)
    rig.pass_(100)
    assert rig.see().is_ready


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"type": "v4-32"}, 3, "the accelerator v4-32 was not found in zone us-east1-d"),
        ({"type": "v6e-12"}, 3, "the accelerator v6e-12 was not found"),
        ({"zone": "mars-north1-a"}, 403, "Permission denied on 'locations/mars-north1-a'"),
        ({"runtime": ""}, 3, "runtime_version is required"),
        ({"model": "cheap"}, 3, 'provisioning model "cheap"'),
        ({"model": "reserved"}, 3, "must name its reservation"),
        ({"name": "Upper"}, 3, 'id "Upper" is not valid'),
        ({"name": "a" * 64}, 3, "is not valid"),
        ({"labels": {"Big": "x"}}, 3, "label"),
        ({"labels": {"a": "white space"}}, 3, "label"),
    ],
)
def test_what_can_never_work_is_refused_as_by_the_real_api(rig, order, changes, code, text):
    """Why: a fake that accepts everything hides the mistake until the field."""
    wrong = order(**changes)
    with pytest.raises(Refused) as refused:
        rig.cloud.create(wrong)
    assert refused.value.code == code
    assert text in refused.value.text
    assert rig.cloud.snapshot().resources == ()


def test_a_request_id_is_remembered_after_its_tpu_is_gone(rig, order):
    """Why: a late copy of an old call must not create a stray; its id may come again only much later."""
    rig.ready()
    rig.cloud.delete("t", "us-east1-d")
    rig.pass_()
    rig.cloud.create(order())
    assert rig.see() is None
    rig.pass_(3600)
    rig.cloud.create(order())
    assert rig.see() is not None


def test_a_request_id_belongs_to_one_resource(rig, order):
    """Why: two slots that share an id would share a TPU."""
    rig.create("a", request_id="same")
    with pytest.raises(Refused, match="was used for another resource"):
        rig.cloud.create(order("b", request_id="same"))


def test_a_refused_request_may_be_sent_again(rig, order):
    """Why: only what was accepted is remembered (AIP-155)."""
    rig.cloud.faults.inject("stockout")
    with pytest.raises(Refused):
        rig.cloud.create(order())
    rig.cloud.create(order())
    assert rig.see() is not None


def test_somebody_elses_tpus_are_listed_and_stay(rig):
    """Why: a sweep must know ours from others'."""
    rig.cloud.add_foreign("other", "us-east1-d", "v6e-8", labels={"team": "x"})
    rig.cloud.add_foreign("husk", "us-east1-d", "v6e-8", phase=Phase.SUSPENDED, node=NodeState.PREEMPTED)
    rig.cloud.add_foreign("bare", "us-east1-d", "v6e-8", queued=False)
    rig.pass_(100_000)
    listed = {t.name: (t.request, t.node) for t in rig.cloud.list("us-east1-d")}
    assert listed == {
        "bare": (None, NodeState.READY),
        "husk": (QueuedResourceState.SUSPENDED, NodeState.PREEMPTED),
        "other": (QueuedResourceState.ACTIVE, NodeState.READY),
    }
    assert rig.see("other").labels == {"team": "x"}
    assert (rig.cloud.provisioned(), rig.cloud.provisioned(foreign=True)) == (0, 5)
    assert rig.cloud.usage() == ()


def test_calls_are_counted_and_looking_is_not_a_call(rig):
    """Why: tests bound what a handler asks of the API."""
    rig.create()
    rig.see()
    rig.cloud.list("us-east1-d")
    rig.cloud.snapshot()
    rig.cloud.provisioned()
    assert rig.cloud.calls == {"create": 1, "get": 1, "list": 1}


def test_next_event_is_exact(rig):
    """Why: an engine sleeps until then, and not longer."""
    assert rig.cloud.next_event_at() is None
    rig.create()
    due = rig.cloud.next_event_at()
    rig.clock.advance_to(due - 1e-3)
    assert rig.see().request is QueuedResourceState.CREATING
    rig.clock.advance_to(due)
    assert rig.see().request is QueuedResourceState.ACCEPTED


def test_a_hook_may_look_at_the_cloud(make_rig):
    """Why: a worker's first act may be to ask for its siblings' addresses."""
    rig = make_rig()
    seen = []
    rig.hosts.notice = lambda name: seen.append(rig.cloud.get(name, "us-east1-d").node)
    rig.ready()
    rig.cloud.preempt("t", notice=5)
    assert seen == [NodeState.READY]


def test_a_hook_that_fails_is_tried_again(make_rig):
    """Why: a host that could not be started once must not leave a TPU without endpoints for ever."""
    rig = make_rig()
    provision, failures = rig.hosts.provision, [OSError("no more processes")]

    def fragile(name, zone, count):
        if failures:
            raise failures.pop()
        return provision(name, zone, count)

    rig.hosts.provision = fragile
    rig.create()
    rig.pass_()
    with pytest.raises(OSError, match="no more processes"):
        rig.see()
    rig.see()
    rig.pass_()
    assert rig.see().is_ready


def test_threads_do_not_lose_updates(rig, order):
    """Why: several handlers call the cloud at once."""
    names = [f"t{i}" for i in range(40)]
    threads = [threading.Thread(target=rig.cloud.create, args=(order(name),)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(t.name for t in rig.cloud.list("us-east1-d")) == sorted(names)
    assert rig.cloud.calls["create"] == 40


def test_the_table_guards_the_resource(rig):
    """Why: whatever a fault does, it stays on the table's roads."""
    rig.ready()
    (resource,) = rig.cloud.snapshot().resources
    with pytest.raises(IllegalTransition):
        resource.on(Event.GRANT)


def test_nothing_is_due_once_all_is_settled(rig):
    """Why: an engine that wakes for steps that can no longer happen wakes for nothing."""
    rig.ready(valid_for=10_000)
    assert rig.cloud.next_event_at() is None
