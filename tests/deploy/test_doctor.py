"""`tpufn doctor` on a project in which one thing after the other is wrong."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError

from tpufn.deploy.checks import CHECKS, Finding, Patient, examine, shipped_indexes
from tpufn.deploy.project import Project
from tpufn.domain.cloud import Tpu, ownership_labels
from tpufn.domain.fleet import Mode

from .conftest import FLEET, FakeGoogle


class World:
    """A healthy deployment; tests break it."""

    def __init__(self, google: FakeGoogle) -> None:
        self.google, self.fleet, self.fix = google, FLEET, False
        self.status = SimpleNamespace(engine="running", dead_letters=0)
        self.indexes = shipped_indexes()
        self.tpus = [Tpu(name="tpufn-lab-a-g1", zone="us-east1-d", labels=ownership_labels("lab", "n", "a", 1))]
        self.known = ["tpufn-lab-a-g1"]

    def findings(self) -> list[Finding]:
        client: Any = SimpleNamespace(
            status=lambda: self.status, slots=lambda: [SimpleNamespace(tpu=name) for name in self.known]
        )
        tpus: Any = SimpleNamespace(list=lambda zone: [tpu for tpu in self.tpus if tpu.zone == zone])
        project = Project("my-project", call=self.google)
        patient = Patient(
            fleet=self.fleet, project=project, client=client, tpus=tpus, indexes=lambda: self.indexes, fix=self.fix
        )
        return list(examine(patient))


@pytest.fixture
def world(google: FakeGoogle) -> World:
    return World(google)


def test_a_healthy_deployment(world: World) -> None:
    found = world.findings()
    assert [f for f in found if not f.ok] == []
    assert {f.check for f in found} == set(CHECKS)


def answer(part: str, value: Any) -> Callable[[World], None]:
    return lambda world: world.google.answers.update({part: value})


def change(**values: Any) -> Callable[[World], None]:
    return lambda world: world.__dict__.update(values)


def settings(**values: str) -> Callable[[World], None]:
    return lambda world: world.__dict__.update(fleet=replace(FLEET, settings={**FLEET.settings, **values}))


DISABLED = exceptions.Forbidden("Cloud TPU API has not been used in project 42 before: tpu.googleapis.com")
FAULTS: dict[str, tuple[Callable[[World], None], str, str, str]] = {
    "login": (answer("userinfo", DefaultCredentialsError("none")), "login", "no usable Google login", "gcloud auth"),
    "project": (
        answer("cloudresourcemanager.googleapis.com/v1/projects/my-project", exceptions.NotFound("no such project")),
        "project",
        "no such project",
        "",
    ),
    "apis": (
        answer("services:batchGet", {"services": []}),
        "apis",
        "off: artifactregistry",
        "gcloud services enable artifactregistry.googleapis.com",
    ),
    "roles": (answer(":testIamPermissions", {}), "roles", "lacks datastore.entities.get", "submitters"),
    "quota": (
        answer("consumerQuotaMetrics", {"metrics": []}),
        "quota",
        "the largest quota in sight is 0, one v6e-8 needs 8 chips",
        "iam-admin/quotas?project=my-project",
    ),
    "addresses": (
        answer("/regions/", {"quotas": [{"metric": "IN_USE_ADDRESSES", "limit": 8, "usage": 8}]}),
        "addresses",
        "8 of 8 in use",
        "ssh_transport: iap",
    ),
    "firewall": (
        answer("/firewalls", {}),
        "firewall",
        "SSH into default is not allowed",
        "gcloud compute firewall-rules",
    ),
    "another network": (settings(network="own"), "firewall", "SSH into own is not allowed", "--network own"),
    "type": (answer("/acceleratorTypes", {}), "offers", "us-east1-d does not offer v6e-8", "choose another zone"),
    "runtime": (
        answer("/runtimeVersions", {"runtimeVersions": [{"version": "v2-alpha-tpuv5"}]}),
        "offers",
        "us-east1-d does not offer runtime v2-alpha-tpuv6e",
        "choose another zone, or a runtime of",
    ),
    "an API that is off": (
        answer("/acceleratorTypes", DISABLED),
        "offers",
        "has not been used",
        "gcloud services enable",
    ),
    "indexes": (change(indexes=set()), "indexes", "are missing", "tpufn deploy"),
    "paused": (change(status=SimpleNamespace(engine="paused", dead_letters=0)), "ticks", "paused", "tpufn resume"),
    "late": (change(status=SimpleNamespace(engine="late", dead_letters=0)), "ticks", "late", "tpufn tick"),
    "dead letters": (
        change(status=SimpleNamespace(engine="running", dead_letters=3)),
        "dead letters",
        "3 wait to be looked at",
        "tpufn dead-letters list",
    ),
    "strays": (change(known=[]), "strays", "no slot knows: tpufn-lab-a-g1", "tpufn tick"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault(world: World, fault: str) -> None:
    """It is found by its own check, with what mends it; the other checks go on and find nothing."""
    breaking, check, text, mend = FAULTS[fault]
    breaking(world)
    wrong = [f for f in world.findings() if not f.ok]
    assert {f.check for f in wrong} == {check}
    assert text in wrong[0].text
    assert mend in wrong[0].mend


def test_without_a_login_nothing_else_is_tried(world: World) -> None:
    FAULTS["login"][0](world)
    assert [f.check for f in world.findings()] == ["login"]


def test_fix_switches_apis_on(world: World) -> None:
    FAULTS["apis"][0](world)
    world.fix = True
    (finding,) = (f for f in world.findings() if not f.ok)
    assert finding.fixed
    assert any(url.endswith("services:batchEnable") for _, url, _ in world.google.asked)


def test_private_tpus_need_no_addresses(world: World) -> None:
    settings(ssh_transport="iap")(world)
    FAULTS["addresses"][0](world)
    assert all(f.ok for f in world.findings() if f.check == "addresses")


def test_laptop_mode_needs_less(world: World) -> None:
    """No functions, no database."""
    world.fleet = replace(FLEET, mode=Mode.LAPTOP)
    assert not {"indexes", "ticks", "dead letters"} & {f.check for f in world.findings()}
