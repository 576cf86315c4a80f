"""What people change: submit, cancel, set-priority, retry, interrupt."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tpufn.domain.errors import InputError
from tpufn.domain.job import JobState, Priority


@pytest.fixture
def active(client: Any) -> Any:
    """The job, still running."""
    client.view = replace(client.view, job=replace(client.view.job, state=JobState.ACTIVE))
    return client


def test_submit_prints_only_the_id_on_stdout(tpufn: Callable[..., Any], client: Any) -> None:
    """`id=$(tpufn submit job.yaml)` works in a script; people read the rest on stderr."""
    ran = tpufn("submit", "job.yaml", "--job-id", "mine")
    assert (ran.code, ran.out) == (0, "demo-1\n")
    assert "bundle.built     3 files, 6.2 KB, sha256 9f2c41d07be3\n" in ran.err
    assert "warning: job.yaml:3: jobs[0].tpu: v6e-64 has no pool" in ran.err
    assert client.asked[0] == ("submit", "job.yaml", "mine")


def test_submit_as_json(tpufn: Callable[..., Any]) -> None:
    """One line with the ids and the place."""
    assert json.loads(tpufn("submit", "job.yaml", "--json").out) == {
        "event": "submitted",
        "submission": "s1",
        "jobs": ["demo-1"],
        "where": "sandbox demo in /state/demo",
    }


def test_submit_does_not_wait_for_an_engine_that_is_not_there(tpufn: Callable[..., Any], client: Any) -> None:
    """The message is durable: an engine that starts later takes it on."""
    client.status_value = replace(client.status_value, engine="not running")
    ran = tpufn("submit", "job.yaml")
    assert (ran.code, ran.out) == (0, "demo-1\n")
    assert "`tpufn up`" in ran.err
    assert not [asked for asked in client.asked if asked[0] == "wait_accepted"]


def test_submit_of_a_bad_file_is_wrong_input(tpufn: Callable[..., Any], client: Any) -> None:
    """Exit 2, all problems, nothing on stdout."""
    client.refusal = InputError(["job.yaml:2: no command", "job.yaml:3: no tpu"])
    ran = tpufn("submit", "job.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("error: job.yaml:") == 2


def test_submit_wait_tells_the_story_and_ends_like_the_job(tpufn: Callable[..., Any]) -> None:
    """The exit code of a waiting submit is the job's."""
    ran = tpufn("submit", "job.yaml", "--wait")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "demo-1 succeeded after 2 attempts"


@pytest.mark.parametrize(("state", "code"), [(JobState.FAILED, 1), (JobState.CANCELLED, 1), (JobState.REJECTED, 2)])
def test_submit_wait_of_a_job_that_does_not_succeed(
    tpufn: Callable[..., Any], client: Any, state: JobState, code: int
) -> None:
    """A script must notice."""
    client.view = replace(client.view, job=replace(client.view.job, state=state, cause="exit 1 on worker 2"))
    ran = tpufn("submit", "job.yaml", "--wait")
    assert ran.code == code
    assert f"demo-1 {state} after 2 attempts: exit 1 on worker 2" in ran.out


def test_submit_wait_as_json_ends_with_finished(tpufn: Callable[..., Any]) -> None:
    """The last event of every stream of a job's life is the same."""
    lines = [json.loads(line) for line in tpufn("submit", "job.yaml", "--wait", "--json").out.splitlines()]
    assert [line["event"] for line in lines[:2]] == ["submitted", "job.submitted"]
    assert (lines[-1]["event"], lines[-1]["status"], lines[-1]["attempts"]) == ("finished", "succeeded", 2)


def test_cancel(tpufn: Callable[..., Any], active: Any) -> None:
    """Says what will happen; the option arrives."""
    ran = tpufn("cancel", "demo-1", "--if-pending")
    assert (ran.code, ran.out) == (0, "demo-1: will be stopped on 4 workers\n")
    assert active.asked == [("cancel", ("demo-1",), True)]
    assert json.loads(tpufn("cancel", "demo-1", "--json").out) == {"demo-1": "will be stopped on 4 workers"}


def test_cancel_of_an_ended_job_is_a_conflict(tpufn: Callable[..., Any]) -> None:
    """Exit 4: the job is no longer what the person saw."""
    ran = tpufn("cancel", "demo-1")
    assert ran.code == 4
    assert "demo-1 has ended: succeeded" in ran.err


def test_set_priority(tpufn: Callable[..., Any], client: Any) -> None:
    """The three names, as in the file."""
    assert tpufn("set-priority", "demo-1", "low").out == "demo-1: now low\n"
    assert client.asked == [("set_priority", "demo-1", Priority.LOW)]
    assert json.loads(tpufn("set-priority", "demo-1", "high", "--json").out)["priority"] == "high"


def test_retry_prints_the_new_id(tpufn: Callable[..., Any]) -> None:
    """It is the next command's argument."""
    assert tpufn("retry", "demo-1").out == "demo-1-r1\n"
    assert json.loads(tpufn("retry", "demo-1", "--json").out) == {"job": "demo-1-r1", "retry_of": "demo-1"}


def test_interrupt(tpufn: Callable[..., Any]) -> None:
    """A slot's name, and what becomes of its job."""
    ran = tpufn("interrupt", "spot-v6e16-ue5a-1")
    assert ran.out == "spot-v6e16-ue5a-1: its TPU is given up; demo-1 retries\n"
    assert tpufn("interrupt", "nope").code == 3
