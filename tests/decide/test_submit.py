"""A submission becomes jobs, all or nothing; what is wrong becomes a rejected job with the reason."""

from dataclasses import replace
from typing import Any

import pytest

from tpufn.decide.decision import Decision
from tpufn.decide.submit import SubmitSnapshot, decide, rejected_id
from tpufn.domain.events import Submission
from tpufn.domain.job import Cache, Job, JobSpec, JobState, Priority

from .builders import BUCKETS, CENTRAL, EAST, NOW, Memory, all_written, events, fleet, kinds, notes, pool, written

FLEET = fleet(pool("v6e-16", EAST), pool("v4-32", CENTRAL))
SPEC = JobSpec(id="train", name="Train", tpu=("v6e-16", "v4-32"), buckets=BUCKETS, caches=(Cache(key="pip", path="p"),))


def submit(*specs: JobSpec, id: str = "s1", **changes: Any) -> Decision:
    fields: dict[str, Any] = {"now": NOW, "fleet": FLEET, "digest": "d1", "specs": specs, **changes}
    return decide(SubmitSnapshot(**fields), Submission(id=id, body={}, correlation_id="corr"))


def test_job_and_specification_are_one_commit() -> None:
    """Why: a job without its specification could never run."""
    decision = submit(SPEC)
    assert len(decision.steps) == 1
    job = written(decision, Job)
    assert written(decision, JobSpec) == SPEC
    assert (job.state, job.priority, job.caches, job.buckets) == (JobState.PENDING, Priority.NORMAL, ("pip",), BUCKETS)
    assert (job.submission, job.digest, job.correlation_id, job.submitted_at) == ("s1", "d1", "corr", NOW)
    assert job.accepts == job.unpinned == tuple(f"{t}@{r}" for t in SPEC.tpu for r in BUCKETS)
    assert job.rank.startswith("8-0002-"), "two pools accept it"
    assert events(decision) == ["job.submitted"]
    assert kinds(decision) == []


def test_several_jobs_come_all_or_none() -> None:
    """Why: a file is one wish."""
    decision = submit(SPEC, replace(SPEC, id="eval"))
    assert [[j.id for j in all_written(s, Job)] for s in decision.steps] == [["train", "eval"]]
    assert decision.reason == "2 jobs accepted"
    taken = written(submit(replace(SPEC, id="new")), Job)
    refused = submit(SPEC, replace(SPEC, id="new"), id="s2", existing=(taken,))
    assert [j.state for j in all_written(refused, Job)] == [JobState.REJECTED]


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"zone": EAST}, ("v6e-16@us-east1-d", "v4-32@us-east1-d")),
        ({"tpu": ("any",), "buckets": {"us-east1": "b"}}, ("*@us-east1",)),
        ({"tpu_name": "spot-v6e16-ue1d-2"}, ("slot:spot-v6e16-ue1d-2", "named")),
        (
            {"provisioning_model": "on-demand", "tpu": ("v6e-16",), "buckets": {"us-east1": "b"}},
            ("on-demand:v6e-16@us-east1",),
        ),
    ],
)
def test_keys_come_from_the_job_alone(changes: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Why: a new deployment file restamps nothing."""
    spec = replace(SPEC, **changes)
    assert written(submit(spec), Job).accepts == written(submit(spec, fleet=fleet()), Job).accepts == keys


def test_a_queue_deadline_is_a_moment() -> None:
    """Why: the tick compares it with now."""
    assert written(submit(replace(SPEC, queue_deadline=90.0)), Job).queue_deadline_at == NOW + 90
    assert written(submit(SPEC), Job).queue_deadline_at == 0.0


def test_what_nothing_can_run_is_accepted_and_says_so() -> None:
    """Why: it stays pending until the deployment has a pool for it."""
    decision = submit(replace(SPEC, tpu=("v5p-8",), buckets={"us-east1": "b"}))
    job = written(decision, Job)
    assert job.state is JobState.PENDING
    assert job.unschedulable == "no pool of the fleet offers v5p-8 in us-east1"
    assert events(decision) == ["job.submitted", "job.unschedulable"]


def test_the_same_submission_again_is_nothing() -> None:
    """Why: messages come twice."""
    jobs = tuple(all_written(submit(SPEC, replace(SPEC, id="eval")), Job))
    assert submit(SPEC, replace(SPEC, id="eval"), existing=jobs).steps == ()


@pytest.mark.parametrize(("id", "digest"), [("s1", "another"), ("s2", "d1"), ("s2", "another")])
def test_a_taken_id_is_refused_and_never_overwritten(id: str, digest: str) -> None:
    """Why: a job's history must not become another's."""
    there = written(submit(SPEC), Job)
    decision = submit(SPEC, id=id, digest=digest, existing=(there,))
    rejected = written(decision, Job)
    assert (rejected.id, rejected.state) == (rejected_id(id, digest), JobState.REJECTED)
    assert rejected.cause == "job id train is taken by another job; choose another id"
    assert rejected.accepts == ()


def test_problems_are_all_told_and_bounded() -> None:
    """Why: all problems at once, in a document of at most 8 KiB."""
    rejected = written(submit(problems=["first", "second"]), Job)
    assert rejected.cause == "first\nsecond"
    assert notes(submit(problems=["first"]))[0].event == "job.rejected"
    assert len(written(submit(problems=["x" * 10_000]), Job).cause) == 4000


def test_a_rejection_is_recorded_once() -> None:
    """Why: the message comes again; the first answer stands."""
    store = Memory()
    for step in submit(problems=["first"]).steps:
        store.commit(step)
    assert submit(problems=["first"], existing=tuple(store.all(Job))).steps == ()
