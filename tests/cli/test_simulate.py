"""`tpufn simulate`: a plan on the command line, compared, as JSON and as a page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FLEET = """
name: lab
project: my-project
mode: laptop
tpus:
  - {type: v6e-8, zones: [us-east5-a, us-east5-b], count: 2}
  - {type: v6e-8, zone: us-east1-d, count: 1, provisioning_model: on-demand}
"""
JOBS = "rate: {per_hour: 2, mix: [{share: 3, tpu: v6e-8, duration: 20m, duration_max: 2h}, {tpu: any, duration: 1h}]}\n"


def test_the_command(tpufn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("deployment.yaml").write_text(FLEET)
    Path("small.yaml").write_text(FLEET.replace("count: 2", "count: 1"))
    Path("jobs.yaml").write_text(JOBS)
    asked = ("simulate", "deployment.yaml", "jobs.yaml", "--days", "0.5", "--compare", "small.yaml")
    ran = tpufn(*asked, "--json", "--html", "report.html")
    assert ran.code == 0, ran.err
    first, second = json.loads(ran.out)["plans"]
    assert (first["deployment"], second["deployment"]) == ("deployment.yaml", "small.yaml")
    assert second["summary"]["wait_mean"] >= first["summary"]["wait_mean"]
    assert "<svg" in Path("report.html").read_text()
    shown = tpufn(*asked)
    assert "utilisation" in shown.out
    assert shown.out.count("spot-v6e8-ue5a") == 2


def test_what_never_starts_is_told(tpufn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of a type that the fleet lacks are in no wait: without a word the numbers would look better for them."""
    monkeypatch.chdir(tmp_path)
    Path("deployment.yaml").write_text(FLEET)
    Path("jobs.yaml").write_text(
        "jobs: [{at: 0h, tpu: v5p-8, duration: 1h, count: 2}, {at: 14m, tpu: v6e-8, duration: 1h}]\n"
    )
    ran = tpufn("simulate", "deployment.yaml", "jobs.yaml", "--days", "0.01")
    assert "warning: deployment.yaml has no v5p-8: 2 jobs never start" in ran.err
    assert "3 submitted, 0 started, 0 finished" in ran.out
    assert [line.split()[-1] for line in ran.out.splitlines() if line.startswith("wait,")] == ["-", "-", "-"]


def test_one_mistake_is_one_error(tpufn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list with a mistake in it is there all the same."""
    monkeypatch.chdir(tmp_path)
    Path("deployment.yaml").write_text(FLEET)
    Path("jobs.yaml").write_text("jobs: [{at: soon, tpu: v6e-8, duration: 1h}]\n")
    ran = tpufn("simulate", "deployment.yaml", "jobs.yaml")
    assert (ran.code, ran.err.count("error:")) == (2, 1)
    assert "jobs[0].at" in ran.err
    assert tpufn("simulate", "deployment.yaml", "jobs.yaml", "--html", "nowhere/x.html").code == 2
