"""One cloud for the whole suite, and a deployment in it that most tests share: each with TPU types of its own."""

from collections.abc import Iterator

import pytest

from ..emulators import FirestoreEmulator, PubSubEmulator
from .deployment import Cloud, Deployment, run_cloud
from .eventarc import calm
from .pushes import calm as calm_pushes

FLEET = """
idle_timeout_seconds: 60
tpus:
  - {type: v5p-16, zones: [us-central1-a, us-east5-a, europe-west4-b], count: 1}
  - {type: v5p-8, zones: [us-central1-a, us-east5-a, europe-west4-b], count: 1}
  - {type: v6e-8, zones: [us-east5-a, us-east5-b, europe-west4-a], count: 1}
  - {type: v6e-4, zone: us-east5-b, count: 1}
"""


@pytest.fixture(scope="session")
def cloud(
    firestore_emulator: FirestoreEmulator, pubsub_emulator: PubSubEmulator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    home = tmp_path_factory.mktemp("cloud")
    with run_cloud(firestore_emulator, pubsub_emulator, home) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", running.located)
        patch.setenv("TPUFN_SCHEDULER_ENDPOINT", running.scheduler)
        yield running


@pytest.fixture(scope="session")
def everything(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(cloud, tmp_path_factory.mktemp("deployment"), FLEET).running() as running:
        yield running


@pytest.fixture
def deployment(everything: Deployment) -> Iterator[Deployment]:
    """With every event delivered as it should be, whatever the test before did to them."""
    yield everything
    everything.cloud.eventarc.plan, everything.pushes.plan = calm, calm_pushes
    everything.ticks.on, everything.pushes.failing = True, ""
