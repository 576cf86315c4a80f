"""What is: jobs, job, why, slots, status; as text and as JSON."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tpufn.domain.job import JobState

T0 = 1_800_000_000.0


@pytest.fixture(autouse=True)
def one_minute_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ages in listings count from now."""
    monkeypatch.setattr("time.time", lambda: T0 + 60)


def test_jobs(tpufn: Callable[..., Any]) -> None:
    """A compact table, whole names, no trailing blanks in a pipe."""
    assert tpufn("jobs").out == (
        "job     state      for  priority  try  where  age\n"
        "demo-1  succeeded  47s  high        2  -      59s\n"
    )  # fmt: skip


def test_jobs_as_json(tpufn: Callable[..., Any]) -> None:
    """One document; enums as names, and nothing that only the store understands."""
    (job,) = json.loads(tpufn("jobs", "--json").out)
    assert (job["id"], job["state"], job["priority"]) == ("demo-1", "succeeded", "high")
    assert "version" not in job


def test_jobs_passes_its_filters_on(tpufn: Callable[..., Any], client: Any) -> None:
    """The store filters, not the command line."""
    ran = tpufn("jobs", "--state", "pending", "--limit", "5")
    assert client.asked == [("jobs", ("pending",), 5)]
    assert "no jobs" in ran.err


def test_jobs_without_any_is_an_empty_document(tpufn: Callable[..., Any]) -> None:
    """A program that reads it must not meet an empty string."""
    assert json.loads(tpufn("jobs", "--state", "pending", "--json").out) == []


def test_job_shows_attempts_and_history(tpufn: Callable[..., Any]) -> None:
    """One look tells where it ran, how long it waited, and how each attempt ended."""
    out = tpufn("job", "demo-1").out
    assert "1  spot-v6e16-ue5a-1  v6e-16  us-east5-a    3.3s  2.0s  preempted\n" in out
    assert "2  spot-v6e16-ue5a-2  v6e-16  us-east5-a    3.1s  3.3s  succeeded\n" in out
    assert "counted    1 preemption\n" in out
    assert (
        "attempt.closed     succeeded: every worker has closed" in " ".join(out.split("  ")) or "attempt.closed" in out
    )


def test_job_as_json(tpufn: Callable[..., Any]) -> None:
    """The whole view: job, specification, attempts, history."""
    view = json.loads(tpufn("job", "demo-1", "--json").out)
    assert [a["outcome"] for a in view["attempts"]] == ["preempted", "succeeded"]
    assert view["spec"]["command"] == "python3 train.py"
    assert view["history"][0]["event"] == "job.submitted"


@pytest.mark.parametrize("command", ["job", "why", "logs", "watch", "retry", "cancel"])
def test_an_unknown_job_is_not_found(tpufn: Callable[..., Any], command: str) -> None:
    """Exit 3, and the way to the list."""
    ran = tpufn(command, "nope")
    assert ran.code == 3
    assert "there is no job 'nope'" in ran.err


def test_why(tpufn: Callable[..., Any]) -> None:
    """In plain words first, then per pool with limits, last outcome and next try."""
    out = tpufn("why", "demo-1").out
    assert out.startswith(
        "demo-1 is pending: no TPU that it accepts is free\n2 pending jobs would be served before it\n"
    )
    assert "spot-v6e16-ue5a   1/2     1     0     0  16/64  stockout 1m ago  in 40s\n" in out
    assert "spot-v6e16-ue5a: waits for capacity; the next request is due in 40s\n" in out
    assert 'the cloud said: "There is no more capacity in the zone"' in out


def test_why_shows_the_evidence_of_a_verdict(tpufn: Callable[..., Any], client: Any) -> None:
    """For a finished job the question is how that was known."""
    client.why_value = replace(client.why_value, state="failed", pools=(), evidence=("exit 1 on worker 2",))
    assert "evidence\n  - exit 1 on worker 2\n" in tpufn("why", "demo-1").out


def test_slots(tpufn: Callable[..., Any]) -> None:
    """Free slots cost nothing and hold nothing."""
    assert tpufn("slots").out == (
        "slot               state  for  gen    $/h  job or cause\n"
        "spot-v6e16-ue5a-1  busy    1m    3  19.44  demo-1.1\n"
        "spot-v6e16-ue5b-1  free    1m    0      -  -\n"
    )
    assert [slot["state"] for slot in json.loads(tpufn("slots", "--json").out)] == ["busy", "free"]


def test_status(tpufn: Callable[..., Any]) -> None:
    """The deployment at a glance, with what it costs now."""
    out = tpufn("status").out
    assert "jobs        1 pending, 2 succeeded\n" in out
    assert "held now    16 chips, $19.44/h\n" in out
    assert json.loads(tpufn("status", "--json").out)["engine"] == "running"


@pytest.mark.parametrize("argv", [["jobs"], ["slots"], ["status"], ["why", "demo-1"], ["job", "demo-1"]])
def test_listings_fit_into_80_columns(
    tpufn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, argv: list[str]
) -> None:
    """A terminal of the usual size shows them without broken lines."""
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, tpufn(*argv).out.splitlines())) <= 80


@pytest.mark.parametrize("columns", [44, 60, 80, 120])
def test_no_name_is_broken_in_a_narrow_terminal(
    tpufn: Callable[..., Any], client: Any, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Names are copied into the next command: columns give way instead, those that matter least first."""
    monkeypatch.setenv("COLUMNS", str(columns))
    name = "spot-v5litepod64-usw4a-12"
    client.view = replace(client.view, job=replace(client.view.job, state=JobState.ACTIVE, slot=name))
    head, row = tpufn("jobs").out.splitlines()
    assert name in row
    assert ("age" in head) is (columns > 60)
    assert max(len(head), len(row)) <= columns
