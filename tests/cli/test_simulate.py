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
