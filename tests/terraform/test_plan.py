"""What the plan of a deployment holds, read as JSON."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from . import rights, rules
from .conftest import FULL
from .harness import ROOT, Plan, TerraformError, Workspace

Given = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_rule(plan: Plan, rule: Callable[[Plan], None]) -> None:
    """Every rule holds for a deployment that has everything."""
    rule(plan)


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_rule_for_the_least(least: Plan, rule: Callable[[Plan], None]) -> None:
    """And for one that has nothing but its name."""
    rule(least)


@pytest.fixture(scope="module")
def least(shared_workspace: Workspace, given: Given) -> Plan:
    return shared_workspace.plan(given())


def test_rights_are_those_of_the_readme(plan: Plan) -> None:
    """Least privilege, as documented: no role more, none less."""
    assert rights.planned(plan) == rights.documented()


def test_first_apply_knows_nothing(shared_workspace: Workspace, given: Given) -> None:
    """What only the provider can say is unknown then, and no `for_each` may need it."""
    plan = shared_workspace.plan(given(**FULL), TPUFN_STUB_KNOWS="nothing")
    assert len(plan.of("google_cloudfunctions2_function")) == 9


def test_the_least_has_no_alarms_network_or_people(least: Plan) -> None:
    """Everything optional is off by default."""
    optional = ("monitoring", "logging_metric", "billing", "compute_network", "compute_firewall", "compute_router")
    assert not [r.address for r in least.resources if r.type.removeprefix("google_").startswith(optional)]
    assert not [b.address for b in least.of(*rules.BINDINGS) if not b["member"].startswith("serviceAccount:")]


def test_only_functions_with_ssh_are_in_the_network(plan: Plan, least: Plan) -> None:
    """Direct VPC egress costs start-up time, and a leg in the network is a way into it."""
    inside = {n for n, f in rules.functions(plan).items() if f["service_config"][0]["direct_vpc_network_interface"]}
    assert inside == {"autoscale", "execute", "preemption"}
    for name in inside:
        service = rules.functions(plan)[name]["service_config"][0]
        assert service["direct_vpc_egress"] == "VPC_EGRESS_PRIVATE_RANGES_ONLY"
        assert service["direct_vpc_network_interface"][0] | {"tags": None} == {
            "network": "tpufn-lab",
            "subnetwork": "tpufn-lab",
            "tags": None,
        }
    assert not [f for f in rules.functions(least).values() if f["service_config"][0]["direct_vpc_network_interface"]]


def test_iap_may_reach_workers(plan: Plan, shared_workspace: Workspace, given: Given) -> None:
    """IAP's addresses and the functions' subnetwork, and port 22 only; in an existing network IAP's alone."""
    ssh = plan.one("google_compute_firewall.ssh[0]")
    assert set(ssh["source_ranges"]) == {"35.235.240.0/20", "10.10.0.0/20"}
    assert [(a["protocol"], a["ports"]) for a in ssh["allow"]] == [("tcp", ["22"])]
    existing = shared_workspace.plan(given(ssh_transport="iap", network="corp", functions_subnetwork="corp-us"))
    ssh = existing.one("google_compute_firewall.ssh[0]")
    assert (ssh["network"], ssh["source_ranges"]) == ("corp", ["35.235.240.0/20"])
    execute = rules.functions(existing)["execute"]["service_config"][0]["direct_vpc_network_interface"][0]
    assert (execute["network"], execute["subnetwork"]) == ("corp", "corp-us")


def test_an_existing_database_is_not_made(shared_workspace: Workspace, given: Given) -> None:
    """Its indexes are added, and triggers and roles are about it."""
    plan = shared_workspace.plan(given(database="shared-db"))
    assert not plan.of("google_firestore_database")
    assert {i["database"] for i in plan.of("google_firestore_index", "google_firestore_field")} == {"shared-db"}
    conditions = [b["condition"][0]["expression"] for b in plan.of("google_project_iam_member") if b.get("condition")]
    assert sum("databases/shared-db" in c for c in conditions) == 9
    for function in rules.functions(plan).values():
        assert function["service_config"][0]["environment_variables"]["TPUFN_DATABASE"] == "shared-db"


def test_protection_can_be_lifted(least: Plan, shared_workspace: Workspace, given: Given) -> None:
    """By default neither documents nor files go with `terraform destroy`."""
    database, bucket = least.of("google_firestore_database")[0], least.of("google_storage_bucket")[0]
    assert (database["delete_protection_state"], database["deletion_policy"]) == (
        "DELETE_PROTECTION_ENABLED",
        "ABANDON",
    )
    assert bucket["force_destroy"] is False
    lifted = shared_workspace.plan(given(delete_protection=False))
    database, bucket = lifted.of("google_firestore_database")[0], lifted.of("google_storage_bucket")[0]
    assert (database["delete_protection_state"], database["deletion_policy"]) == (
        "DELETE_PROTECTION_DISABLED",
        "DELETE",
    )
    assert bucket["force_destroy"] is True


def test_indexes_are_those_of_the_code(least: Plan) -> None:
    """Every composite index and field setting of the shipped list, among them the TTL of outcomes."""
    listed = json.loads((ROOT / "shared/tpufn/adapters/firestore_indexes.json").read_text())
    indexes = {
        (i["collection"], i["query_scope"], *((f["field_path"], f["order"], f["array_config"]) for f in i["fields"]))
        for i in least.of("google_firestore_index")
    }
    assert indexes == {
        (
            i["collectionGroup"],
            i["queryScope"],
            *((f["fieldPath"], f.get("order"), f.get("arrayConfig")) for f in i["fields"]),
        )
        for i in listed["indexes"]
    }
    fields = {(f["collection"], f["field"]): f for f in least.of("google_firestore_field")}
    assert set(fields) == {(f["collectionGroup"], f["fieldPath"]) for f in listed["fieldOverrides"]}
    for field in listed["fieldOverrides"]:
        planned = fields[field["collectionGroup"], field["fieldPath"]]
        assert bool(planned["ttl_config"]) == field.get("ttl", False), planned.address
        assert len(planned["index_config"][0]["indexes"]) == len(field["indexes"]), planned.address
    assert fields["outcomes", "expires_at"]["ttl_config"]


def test_alerts_name_what_exists(plan: Plan) -> None:
    """An alert on a metric that nobody makes would never go off."""
    metrics = {m["name"] for m in plan.of("google_logging_metric")}
    policies = plan.of("google_monitoring_alert_policy")
    filters = [
        condition["filter"]
        for policy in policies
        for kind in ("condition_threshold", "condition_absent")
        for condition in policy["conditions"][0][kind] or []
    ]
    assert len(filters) == 3
    assert {f.split("user/")[1].split('"')[0] for f in filters if "user/" in f} == metrics
    assert sum('subscription_id="tpufn-lab-dead-letters"' in f for f in filters) == 1
    services = {rules.short_service(f) for f in rules.functions(plan).values()}
    for metric in plan.of("google_logging_metric"):
        assert metric["filter"].split('service_name="')[1].split('"')[0] in services
    assert all(p["notification_channels"] == FULL["alerts"]["channels"] for p in policies)


def test_two_deployments_share_nothing(plan: Plan, shared_workspace: Workspace, given: Given) -> None:
    """Another name in the same project makes other things only, each in its own bucket."""
    other = shared_workspace.plan(given(**FULL, name="prod"))
    named = ("name", "account_id", "role_id", "secret_id", "repository_id", "bucket")

    def names(of: Plan) -> set[tuple[str, ...]]:
        made = (r for r in of.resources if not r.type.endswith("_iam_member"))
        return {(r.type, *(str(r.get(n)) for n in named if r.get(n))) for r in made if any(map(r.get, named))}

    assert names(plan) & names(other) == set()


WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "names": (
        {
            "name": "Lab",
            "database": "(default)",
            "archives": {},
            "writable_prefixes": ['a") || true || ("'],
            "viewers": ["ada@example.org"],
            "submitters": ["allAuthenticatedUsers"],
            "operators": ["allUsers"],
        },
        [
            "Lowercase letters and digits",
            "4 to 63 lowercase",
            "One archive for each function",
            "ends in a slash",
        ],
    ),
    "places": (
        {"name": "a" * 27, "region": "europe-west4", "ssh_transport": "telnet"},
        ["At most 26 characters", "Functions run where their database is", "Either direct or iap"],
    ),
    "another region": (
        {"database_location": "us-east1", "buckets": ["gs://data", "my-project-tpufn-lab"]},
        ["the same region as database_location", "without gs://", "not for jobs"],
    ),
    "a network without the functions": (
        {"subnet_ranges": {"us-east1": "10.0.0.0/33"}, "ssh_transport": "iap"},
        ["the functions' region", "CIDR ranges such as"],
    ),
    "a network without a way in": ({"subnet_ranges": {"us-central1": "10.0.0.0/20"}}, ["lets nobody in"]),
}


@pytest.mark.parametrize(("change", "told"), WRONG.values(), ids=WRONG.keys())
def test_wrong_input_is_told(
    shared_workspace: Workspace, given: Given, change: dict[str, Any], told: list[str]
) -> None:
    """Before anything is made, all at once, and in words that say what to write instead."""
    with pytest.raises(TerraformError) as refused:
        shared_workspace.plan(given(**change))
    assert [text for text in told if text not in str(refused.value)] == []
    people = {"viewers", "submitters", "operators"} & change.keys()
    assert str(refused.value).count("Members with their kind") == len(people)


@pytest.mark.parametrize(
    ("location", "region"), [("nam7", "us-east4"), ("eur3", "europe-west1"), ("asia-east1", "asia-east1")]
)
def test_functions_near_their_database(shared_workspace: Workspace, given: Given, location: str, region: str) -> None:
    """Each place of a database has regions for its functions; the triggers follow the database."""
    plan = shared_workspace.plan(given(database_location=location, region=region))
    assert {t["location"] for t in plan.of("google_eventarc_trigger")} == {location}
    assert {f["location"] for f in plan.of("google_cloudfunctions2_function")} == {region}
