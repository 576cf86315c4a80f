"""Who may do what: as a plan says it, and as the table in README.md says it, in the same words."""

import re
from collections.abc import Iterator

from .harness import FUNCTIONS, SOURCE, Plan, Resource
from .rules import BINDINGS, PREFIX, agent, functions, short

Right = tuple[str, str, str]
"""(who, role, on)"""

_AGENTS = {agent("pubsub"): "Pub/Sub", agent("eventarc"): "Eventarc"}
_OBJECTS = re.compile(r'resource\.name\.startsWith\("projects/_/buckets/([^/"]+)/(?:objects/)?([^"]*)"\)')


def planned(plan: Plan) -> set[Right]:
    """Prefixes of one role become one place; topics stay apart."""
    names = _names(plan)
    own = plan.of("google_storage_bucket")[0]["name"]
    return {
        (names[binding["member"]], _role(binding["role"]), where)
        for binding in plan.of(*BINDINGS)
        for where in _where(binding, own)
    }


def documented() -> set[Right]:
    """The rows of README.md, one for each of the names and topics in them."""
    text = (SOURCE / "README.md").read_text()
    table = text[text.index("<!-- who -->") : text.index("<!-- /who -->")]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")][2:]
    found: list[Right] = []
    for row in rows:
        who, role, on, why = (cell.strip() for cell in row)
        assert why, f"{who}: {role} without a reason"
        found += [(one, role.strip("`"), place) for one in _each(who) for place in _places(on)]
    assert len(found) == len(set(found)), f"twice: {[right for right in found if found.count(right) > 1]}"
    return set(found)


def _each(who: str) -> tuple[str, ...]:
    return FUNCTIONS if who == "each function" else tuple(who.split(", "))


def _places(on: str) -> list[str]:
    kind, _, names = on.partition(" ")
    return [f"topic {name}" for name in names.split(", ")] if kind in ("topic", "topics") else [on]


def _names(plan: Plan) -> dict[str, str]:
    """Members by the words of the table."""
    found = dict(_AGENTS)
    for name, function in functions(plan).items():
        found[f"serviceAccount:{function['service_config'][0]['service_account_email']}"] = name
    for account in plan.of("google_service_account"):
        kind = account["account_id"].rpartition("-")[2]
        found.setdefault(account["member"], "invokers" if kind == "in" else kind)
    return found | {f"group:{who}@example.org": who for who in ("viewers", "submitters", "operators")}


def _role(role: str) -> str:
    return role.rpartition("_")[2] if role.startswith("projects/") else role


def _where(binding: Resource, own: str) -> Iterator[str]:
    condition = binding["condition"][0]["expression"] if binding.get("condition") else ""
    match binding.type:
        case "google_project_iam_member":
            yield _in_project(condition)
        case "google_pubsub_topic_iam_member":
            yield f"topic {short(binding['topic'])}"
        case "google_pubsub_subscription_iam_member":
            yield "the dead letters" if short(binding["subscription"]) == "dead-letters" else "the push subscriptions"
        case "google_storage_bucket_iam_member":
            place = "the own bucket" if binding["bucket"] == own else "the jobs' buckets"
            yield f"{place}: {_prefixes(binding, condition)}" if condition else place
        case "google_secret_manager_secret_iam_member":
            yield "the SSH key" if short(binding["secret_id"]) == "ssh-key" else "the workers' secrets"
        case "google_service_account_iam_member":
            yield "the invokers" if "-in@" in binding["service_account_id"] else "the workers' account"
        case "google_cloud_run_v2_service_iam_member":
            yield "their function"
        case "google_artifact_registry_repository_iam_member":
            yield "the images"


def _in_project(condition: str) -> str:
    if not condition:
        return "the project"
    if condition == f'resource.name == "projects/my-project/databases/{PREFIX}"':
        return "the database"
    found = _OBJECTS.fullmatch(condition)
    assert found, condition
    assert found[1] == "gcf-v2-sources-123456789012-us-central1", condition
    return "the sources of Cloud Functions"


def _prefixes(binding: Resource, condition: str) -> str:
    """All parts of a condition are about names in the binding's own bucket, and none is about all of them."""
    parts = condition.split(" || ")
    matches = [_OBJECTS.fullmatch(part) for part in parts]
    assert all(m and m[1] == binding["bucket"] and m[2].endswith("/") for m in matches), condition
    prefixes = [m[2] for m in matches if m]
    return ", ".join("writable_prefixes" if p == "results/" else p for p in prefixes)
