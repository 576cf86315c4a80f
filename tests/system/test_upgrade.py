"""An upgrade while jobs run: the functions change under them, one after the other, and so does the agent."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpufn.domain.job import JobState

from .deployment import SHARED, Cloud, Deployment
from .test_life import check_at_rest

FLEET = """
idle_timeout_seconds: 60
tpus:
  - {type: v5p-16, zone: us-central1-a, count: 1}
  - {type: v6e-8, zone: us-east5-a, count: 1}
"""
NEXT = "9.9.9"
JOB = Path(__file__).parent / "job"


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sources as a later version: another number, and another agent by its hash."""
    root = tmp_path_factory.mktemp("newer") / "shared"
    shutil.copytree(SHARED, root, ignore=shutil.ignore_patterns("__pycache__"))
    package = root / "tpufn" / "__init__.py"
    package.write_text(f'{package.read_text()}\n__version__ = "{NEXT}"\n')
    agent = root / "tpufn" / "worker" / "agent.py"
    agent.write_text(f"{agent.read_text()}\n# a later one\n")
    return root


@pytest.fixture
def deployment(cloud: Cloud, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(cloud, tmp_path, FLEET).running() as made:
        yield made


def job_file(deployment: Deployment, id: str, type: str, region: str) -> str:
    """A job that says it has begun, and ends when the file of its name is there."""
    path, flag = deployment.home / f"{id}.yaml", deployment.home / id
    path.write_text(
        f"jobs:\n  - id: {id}\n    tpu: {type}\n    buckets: [gs://{deployment.buckets[region]}]\n    bundle: {JOB}\n"
        f"    command: 'echo begun; until [ -e {flag} ]; do sleep 0.1; done'\n"
    )
    return str(path)


def has_begun(deployment: Deployment, id: str) -> bool:
    return any(b"begun" in piece.data for piece in deployment.client().logs(id))


def test_jobs_in_flight_outlive_an_upgrade(deployment: Deployment, newer: Path) -> None:
    """One goes on to its end under the new functions, one is stopped by the new agent, one begins with it."""
    for id, type, region in (("stays", "v5p-16", "us-central1"), ("goes", "v6e-8", "us-east5")):
        assert deployment.tpufn("submit", job_file(deployment, id, type, region)).returncode == 0
        deployment.until(lambda id=id: has_begun(deployment, id))
    before = {slot.tpu for slot in deployment.slots().values()}
    deployment.upgrade(newer)
    for id in ("stays", "comes"):
        (deployment.home / id).touch()
    assert deployment.tpufn("cancel", "goes").returncode == 0
    assert deployment.tpufn("submit", job_file(deployment, "comes", "v6e-8", "us-east5")).returncode == 0
    deployment.until_ended("stays", "goes", "comes")
    ends = {id: (job.state, job.attempt) for id in ("stays", "goes", "comes") if (job := deployment.job(id))}
    assert ends == {
        "stays": (JobState.SUCCEEDED, 1),
        "goes": (JobState.CANCELLED, 1),
        "comes": (JobState.SUCCEEDED, 1),
    }, deployment.describe()
    check_at_rest(deployment)
    assert {slot.tpu for slot in deployment.slots().values()} == before, "no TPU was given up for it"
    deployment.until(lambda: deployment.client().fleet().functions == NEXT)
    assert f"the deployed functions are tpufn {NEXT}" in deployment.tpufn("status").stderr
