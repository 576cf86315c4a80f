"""`tpufn deploy`'s own way through the real Terraform: the folder that it prepares, and the plan that it reads."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tpufn.deploy.terraform import LEAST, TerraformFailed
from tpufn.deploy.workspace import prepare
from tpufn.spec.deployment import load_deployment

from . import harness

FILE = """
name: lab
project: my-project
mode: cloud
buckets: [gs://my-data-us-east1]
tpus: [{type: v6e-8, zone: us-east1-d, count: 1}]
"""


def test_the_plan_of_a_deployment_file(
    tmp_path: Path, terraform_env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written by hand: file, archives, variables, plan. A wrong variable is told with its words."""
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", terraform_env["TF_CLI_CONFIG_FILE"])
    file = tmp_path / "deployment.yaml"
    file.write_text(FILE)
    fleet = load_deployment(file).fleet
    terraform = prepare(tmp_path / "work", fleet, local_state=True, more={})
    assert terraform.version() >= LEAST
    terraform.init({})
    plan = terraform.plan()
    functions = [a for a in plan.changes if a.endswith("google_cloudfunctions2_function.this")]
    assert len(functions) == len(harness.FUNCTIONS)
    assert set(plan.changes.values()) <= {"create", "read"}
    wrong = prepare(tmp_path / "work", fleet, local_state=True, more={"ssh_transport": "pigeon"})
    with pytest.raises(TerraformFailed, match="Either direct or iap"):
        wrong.plan()
