"""What `tpufn deploy` prints: for people a line a step and a line a resource, for scripts an event each."""

import json
from collections.abc import Callable

import pytest

from tpufn.deploy.steps import deploy
from tpufn.domain.errors import InputError
from tpufn_cli.flow.deploying import closing, left, teller

from .conftest import FLEET, Bench, FakeTerraform, applied, planned


@pytest.fixture
def made(bench: Callable[..., Bench], terraform: FakeTerraform) -> Bench:
    terraform.play("plan", [planned("module.topic"), planned("old", "delete")])
    terraform.play("apply", [applied("module.topic", seconds=7), applied("old", "delete")])
    return bench()


def test_for_people(made: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    tell = teller(yes=True, as_json=False)
    done = deploy(made.wish, made.tools, tell)
    closing(tell, FLEET, done, again="tpufn submit job.yaml")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines[0] == "✓ file         lab in project my-project"
    assert "    + module.topic 7s" in lines
    assert "    - old 3s" in lines
    assert lines[-1] == "next: tpufn submit job.yaml"
    assert "while idle  under $1 a month for the ticks, and $0.00/h for TPUs that are kept warm" in out
    assert "topics      tpufn-lab-submissions takes jobs from other services" in out


def test_for_scripts(made: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    tell = teller(yes=True, as_json=True)
    closing(tell, FLEET, deploy(made.wish, made.tools, tell), again="")
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [e["step"] for e in events if e["event"] == "step"][:3] == ["file", "login", "apis"]
    assert {"event": "resource", "address": "module.topic", "action": "create", "seconds": 7.0} in events
    assert events[-1]["event"] == "deployed"
    assert events[-1]["outputs"]["database"] == "tpufn-lab"


@pytest.mark.parametrize("as_json", [True, False])
def test_nobody_agrees_for_a_script(made: Bench, terraform: FakeTerraform, as_json: bool) -> None:
    """Without `--yes` a job of CI must not hang at a question, nor change anything."""
    with pytest.raises(InputError, match="`--yes` agrees beforehand"):
        deploy(made.wish, made.tools, teller(yes=False, as_json=as_json))
    assert "apply" not in terraform.commands()


def test_what_is_left_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    left(teller(yes=True, as_json=False), ("gs://data: the jobs' data",))
    assert "gs://data: the jobs' data" in capsys.readouterr().out
