"""The small values: ranks, ids, prefixes, and what a worker's report adds up to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpufn.domain.attempt import attempt_id, split_attempt_id
from tpufn.domain.cloud import DEAD_NODES, LOST_NODES, Health, NodeState, QueuedResourceState, Tpu, ownership_labels
from tpufn.domain.effects import Effect, Kind, slot_entity
from tpufn.domain.errors import CloudUnavailable, Conflict, InputError, NotFound, TpufnError
from tpufn.domain.job import Bundle, JobSpec, Priority, rank
from tpufn.domain.orders import Exited, Phase, WorkerReport
from tpufn.domain.slot import Worker, cloud_name

ranked = st.tuples(
    st.sampled_from(Priority),
    st.integers(0, 20_000),
    st.integers(0, 10**13).map(lambda ms: ms / 1000),
    st.text("abc-.0", min_size=1, max_size=6),
)


@settings(deadline=None)
@given(ranked, ranked)
def test_ranks_sort_as_the_tuples_do(a: tuple[Priority, int, float, str], b: tuple[Priority, int, float, str]) -> None:
    """Why: stores compare strings; the string must say priority, constrainedness, submit time, id, in that order."""

    def plain(r: tuple[Priority, int, float, str]) -> tuple[int, int, int, str]:
        return -r[0], min(r[1], 9999), int(r[2] * 1000), r[3]

    assert (rank(*a) < rank(*b)) == (plain(a) < plain(b))


def test_a_higher_priority_comes_first_however_late() -> None:
    """Why: priority is strict."""
    assert (
        rank(Priority.HIGH, 9, 2_000_000.0, "z") < rank(Priority.NORMAL, 0, 1.0, "a") < rank(Priority.LOW, 0, 0.0, "a")
    )


@settings(deadline=None)
@given(st.text("ab.-1", min_size=1), st.integers(0, 10**6))
def test_attempt_ids_can_be_taken_apart(job: str, number: int) -> None:
    """Why: a job's id may hold dots itself."""
    assert split_attempt_id(attempt_id(job, number)) == (job, number)


@pytest.mark.parametrize("id", ["", "job", "job.", "job.x", "job.-1", "job.1.x"])
def test_what_is_no_attempt_id_is_refused(id: str) -> None:
    """Why: a wake may name anything."""
    with pytest.raises(ValueError, match="not an attempt id"):
        split_attempt_id(id)


def test_every_generation_has_its_own_cloud_name() -> None:
    """Why: the next TPU of a slot never reuses the name of one that may still be listed."""
    names = {cloud_name("lab", "spot-v6e64-ew4a-1", g) for g in range(1, 20)}
    assert len(names) == 19
    assert cloud_name("lab", "spot-v6e64-ew4a-1", 3) == "tpufn-lab-spot-v6e64-ew4a-1-g3"


def test_an_effect_names_its_entity() -> None:
    """Why: a stray's entity holds a slash, a slot's does not."""
    assert Effect(kind=Kind.CREATE, entity=slot_entity("a-1")).name == "a-1"
    assert Effect(kind=Kind.SWEEP, entity="tpu:us-east1-d/x").name == "us-east1-d/x"


def test_a_retried_job_continues_its_first_checkpoints() -> None:
    """Why: `retry` of a retry must find the very same checkpoints."""
    assert JobSpec(id="j").checkpoints == "jobs/j/checkpoints"
    assert JobSpec(id="j-retry-1", checkpoints_of="j").checkpoints == "jobs/j/checkpoints"
    assert Bundle(sha256="abc").key == "bundles/abc.tar.gz"


def test_the_exit_code_is_in_the_class_of_the_error() -> None:
    """Why: the process exits in one place, with the number that the error's class names."""
    codes = {e: e.exit_code for e in (TpufnError, InputError, NotFound, Conflict, CloudUnavailable)}
    assert codes == {TpufnError: 1, InputError: 2, NotFound: 3, Conflict: 4, CloudUnavailable: 5}


def test_an_input_error_carries_every_problem() -> None:
    """Why: all problems are reported at once."""
    assert InputError(["a", "b"]).problems == ("a", "b")
    assert str(InputError("one")) == "one"


def test_labels_say_whose_a_tpu_is() -> None:
    """Why: a name is no proof; nonce, slot and generation are."""
    labels = ownership_labels("lab", "n0nce", "a-1", 3)
    assert labels == {"tpufn": "lab", "tpufn-nonce": "n0nce", "tpufn-slot": "a-1", "tpufn-generation": "3"}


@pytest.mark.parametrize("node", [None, *NodeState])
@pytest.mark.parametrize("health", Health)
@pytest.mark.parametrize("endpoints", [(), (Worker(address="10.0.0.1"),)])
def test_ready_means_ready_healthy_and_with_endpoints(
    node: NodeState | None, health: Health, endpoints: tuple[Worker, ...]
) -> None:
    """Why: READY without endpoints, or with a health that is missing, is not usable yet."""
    tpu = Tpu(name="t", zone="z", node=node, health=health, workers=endpoints)
    assert tpu.is_ready == (node is NodeState.READY and health is Health.HEALTHY and bool(endpoints))


@pytest.mark.parametrize("node", [None, *NodeState])
@pytest.mark.parametrize("request_", [None, *QueuedResourceState])
def test_dead_means_of_no_use_any_more(node: NodeState | None, request_: QueuedResourceState | None) -> None:
    """Why: a reclaimed TPU shows many faces; a stop proof needs one on which nothing can run."""
    tpu = Tpu(name="t", zone="z", node=node, request=request_)
    lost = node in {"PREEMPTED", "TERMINATED", "STOPPED", "REPAIRING", "UNKNOWN", "HIDING", "HIDDEN", "DELETING"}
    assert tpu.is_dead == (lost or request_ in {"FAILED", "SUSPENDING", "SUSPENDED", "DELETING"})
    assert tpu.proves_stop == (node in {"PREEMPTED", "TERMINATED", "STOPPED"})
    assert DEAD_NODES < LOST_NODES


@pytest.mark.parametrize(
    ("end", "is_zero"),
    [
        (Exited(worker=0, phase=Phase.COMMAND, code=0), True),
        (Exited(worker=0, phase=Phase.COMMAND, code=0, ours=True), False),
        (Exited(worker=0, phase=Phase.COMMAND, code=1), False),
        (Exited(worker=0, phase=Phase.COMMAND, code=None), False),
        (Exited(worker=0, phase=Phase.SETUP, code=0), False),
    ],
)
def test_a_zero_counts_before_our_own_term_only(end: Exited, is_zero: bool) -> None:
    """Why: a program that ends with zero because we told it to end has not done its work."""
    report = WorkerReport(count=1, exited={0: end})
    assert report.zeros == (frozenset({0}) if is_zero else frozenset())
    assert report.all_zero is is_zero


def test_all_means_every_worker() -> None:
    """Why: three zeros of four are no success, three `closed` of four no proof."""
    zero = {i: Exited(worker=i, phase=Phase.COMMAND, code=0) for i in range(3)}
    report = WorkerReport(count=4, exited=zero, prepared=frozenset({0, 1, 2}))
    assert not report.all_zero
    assert not report.all_prepared
    assert not report.all_closed
