"""Commands about files, which need no deployment: init, validate-fleet, validate-jobs, schema, completion."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEMO = Path(__file__).parents[2] / "cli" / "tpufn_cli" / "examples" / "demo"


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No deployment.yaml lies about, and the environment names none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TPUFN_DEPLOYMENT", raising=False)


def test_init_writes_files_that_are_valid(tpufn: Callable[..., Any], tmp_path: Path) -> None:
    """What we give people to start from must not need a correction."""
    ran = tpufn("init")
    assert ran.code == 0
    assert "tpufn validate-fleet deployment.yaml" in ran.out
    assert tpufn("validate-fleet", "deployment.yaml").code == 0
    assert tpufn("validate-jobs", "job.yaml").code == 0


def test_init_never_overwrites(tpufn: Callable[..., Any], tmp_path: Path) -> None:
    """A file that exists is somebody's work."""
    (tmp_path / "job.yaml").write_text("mine")
    ran = tpufn("init")
    assert ran.code == 0
    assert "kept     job.yaml (exists)" in ran.out
    assert (tmp_path / "job.yaml").read_text() == "mine"


def test_init_with_nothing_to_write_is_a_conflict(tpufn: Callable[..., Any]) -> None:
    """A script must notice that it got nothing."""
    tpufn("init", "lab")
    ran = tpufn("init", "lab")
    assert ran.code == 4
    assert "name another folder" in ran.err


def test_the_demo_fleet_is_valid_and_normalised(tpufn: Callable[..., Any]) -> None:
    """Three zones in two regions, four workers each."""
    ran = tpufn("validate-fleet", str(DEMO / "deployment.yaml"), "--json")
    pools = json.loads(ran.out)["tpus"]
    assert ran.code == 0
    assert len({pool["zone"] for pool in pools}) == 3
    assert len({pool["region"] for pool in pools}) == 2
    assert {pool["hosts"] for pool in pools} == {4}
    assert "demo: valid; 3 pools, 6 slots, 2 regions" in tpufn("validate-fleet", str(DEMO / "deployment.yaml")).out


def test_the_demo_job_is_valid_against_its_fleet(tpufn: Callable[..., Any]) -> None:
    """Without a warning: the shipped example is the model for others."""
    ran = tpufn("validate-jobs", str(DEMO / "job.yaml"), "-d", str(DEMO / "deployment.yaml"))
    assert (ran.code, ran.err) == (0, "")
    assert "demo: v4-32, v6e-16, priority high, 2 buckets" in ran.out


def test_a_warning_leaves_exit_0(tpufn: Callable[..., Any], tmp_path: Path) -> None:
    """A type without a pool does no harm while another candidate remains."""
    text = (DEMO / "job.yaml").read_text().replace("[v4-32, v6e-16]", "[v4-32, v6e-64]")
    (tmp_path / "job.yaml").write_text(text)
    ran = tpufn("validate-jobs", "job.yaml", "-d", str(DEMO / "deployment.yaml"))
    assert ran.code == 0
    assert "warning: job.yaml:" in ran.err


def test_problems_are_all_named_with_exit_2(tpufn: Callable[..., Any], tmp_path: Path) -> None:
    """Each on its own line, with file and line."""
    (tmp_path / "job.yaml").write_text("jobs:\n  - comand: x\n    priority: urgent\n")
    ran = tpufn("validate-jobs", "job.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert all(line.startswith("error: job.yaml:") for line in ran.err.splitlines())
    assert len(ran.err.splitlines()) >= 3


@pytest.mark.parametrize("command", ["validate-fleet", "validate-jobs"])
def test_a_missing_file_is_wrong_input(tpufn: Callable[..., Any], command: str) -> None:
    """Not a traceback."""
    ran = tpufn(command, "nope.yaml")
    assert ran.code == 2
    assert ran.err.startswith("error: nope.yaml")


@pytest.mark.parametrize("kind", ["submission", "command", "event", "job", "deployment"])
def test_schema(tpufn: Callable[..., Any], kind: str) -> None:
    """Editors and other services read them."""
    assert json.loads(tpufn("schema", kind).out)["title"] == f"tpufn {kind}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(tpufn: Callable[..., Any], shell: str) -> None:
    """The code that the shell evaluates calls us back."""
    assert "_TPUFN_COMPLETE" in tpufn("completion", shell).out
