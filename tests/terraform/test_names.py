"""Every cloud name stays within its limit, for the longest name of a deployment and of a project."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import FULL
from .harness import Plan, Workspace

LIMITS = {
    "google_service_account": ("account_id", r"[a-z]([-a-z0-9]{4,28}[a-z0-9])"),
    "google_cloudfunctions2_function": ("name", r"[a-z][-a-z0-9]{0,47}[a-z0-9]"),  # the service behind it: 49
    "google_eventarc_trigger": ("name", r"[a-z][-a-z0-9]{0,61}[a-z0-9]"),
    "google_pubsub_topic": ("name", r"[A-Za-z][-A-Za-z0-9._~+%]{2,254}"),
    "google_pubsub_subscription": ("name", r"[A-Za-z][-A-Za-z0-9._~+%]{2,254}"),
    "google_firestore_database": ("name", r"[a-z][-a-z0-9]{2,61}[a-z0-9]"),
    "google_storage_bucket": ("name", r"[a-z0-9][-_a-z0-9]{1,61}[a-z0-9]"),
    "google_cloud_scheduler_job": ("name", r"[-_A-Za-z0-9]{1,500}"),
    "google_secret_manager_secret": ("secret_id", r"[-_A-Za-z0-9]{1,255}"),
    "google_artifact_registry_repository": ("repository_id", r"[a-z][-a-z0-9]{0,61}[a-z0-9]"),
    "google_project_iam_custom_role": ("role_id", r"[a-zA-Z0-9_.]{3,64}"),
    "google_compute_network": ("name", r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"),
    "google_compute_subnetwork": ("name", r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"),
    "google_compute_firewall": ("name", r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"),
    "google_compute_router": ("name", r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"),
    "google_compute_router_nat": ("name", r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"),
    "google_logging_metric": ("name", r"[-_A-Za-z0-9]{1,100}"),
}
"""What Google's services accept (each service's own reference)."""

UNNAMED = {
    "google_billing_budget",
    "google_firestore_field",
    "google_firestore_index",
    "google_monitoring_alert_policy",
    "google_project_service",
    "google_storage_bucket_object",
}


def plan_of(workspace: Workspace, given: Callable[..., dict[str, Any]], name: str) -> Plan:
    return workspace.plan(given(**FULL, name=name, project="p" * 30))


@pytest.mark.parametrize("name", ["a" * 26, "ab-" * 8 + "cd", "x"])
def test_names_are_within_their_limits(
    shared_workspace: Workspace, given: Callable[..., dict[str, Any]], name: str
) -> None:
    """The longest names, one full of hyphens, and the shortest."""
    plan = plan_of(shared_workspace, given, name)
    seen = set()
    for resource in plan.resources:
        if resource.type.endswith("_iam_member") or resource.type in UNNAMED:
            continue
        attribute, allowed = LIMITS[resource.type]
        seen.add(resource.type)
        assert re.fullmatch(allowed, resource[attribute]), f"{resource.address}: {resource[attribute]}"
    assert seen == set(LIMITS)


def test_cut_names_stay_apart(shared_workspace: Workspace, given: Callable[..., dict[str, Any]]) -> None:
    """Accounts of two long names that begin alike."""
    one, two = (plan_of(shared_workspace, given, f"research-vision-{n}") for n in "ab")
    accounts = [{a["account_id"] for a in p.of("google_service_account")} for p in (one, two)]
    assert len(accounts[0]) == 20
    assert not accounts[0] & accounts[1]
