"""One workspace and one full plan a session: every assertion reads the same plan."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from . import harness
from .harness import Plan, Workspace

PEOPLE = {who: [f"group:{who}@example.org"] for who in ("viewers", "submitters", "operators")}
FULL: dict[str, Any] = {
    **PEOPLE,
    "buckets": ["data-us", "data-eu"],
    "writable_prefixes": ["results/"],
    "worker_secrets": ["wandb-key"],
    "ssh_transport": "iap",
    "existing_tpus": True,
    "subnet_ranges": {"us-central1": "10.10.0.0/20", "europe-west4": "10.20.0.0/20"},
    "nat": True,
    "alerts": {"channels": ["projects/my-project/notificationChannels/1"]},
    "budget": {"billing_account": "000000-000000-000000", "amount": 5000},
}
"""Everything that a deployment can have, so that everything is looked at."""

Make = Callable[[], Workspace]


@pytest.fixture(scope="session")
def terraform_env(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    if shutil.which("terraform") is None:
        reason = "terraform is not on PATH; its tests need 1.9 or newer"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return harness.install(tmp_path_factory.mktemp("provider"))


@pytest.fixture(scope="session")
def shared_workspace(tmp_path_factory: pytest.TempPathFactory, terraform_env: Mapping[str, str]) -> Workspace:
    """For tests that change nothing in it."""
    return harness.workspace(tmp_path_factory.mktemp("shared"), terraform_env)


@pytest.fixture
def own_workspace(tmp_path: Path, terraform_env: Mapping[str, str]) -> Workspace:
    """For tests that change it."""
    return harness.workspace(tmp_path, terraform_env)


@pytest.fixture(scope="session")
def given(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """The variables of a deployment, with what a test adds to them."""
    folder = tmp_path_factory.mktemp("archives")
    return lambda **more: harness.variables(folder, **more)


@pytest.fixture(scope="session")
def plan(shared_workspace: Workspace, given: Callable[..., dict[str, Any]]) -> Plan:
    """The plan of a deployment that has everything."""
    return shared_workspace.plan(given(**FULL))
