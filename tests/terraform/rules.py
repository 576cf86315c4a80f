"""What must hold of every plan. Each rule raises AssertionError with the resource that breaks it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tpufn.domain.events import (
    Command,
    Event,
    PreemptionNotice,
    Submission,
    Tick,
    Wake,
    WorkerEvent,
    WorkerReady,
    Written,
)
from tpufn.flows.registry import woken_by

from .harness import FUNCTIONS, Plan, Resource

PREFIX = "tpufn-lab"
BINDINGS = (
    "google_project_iam_member",
    "google_pubsub_topic_iam_member",
    "google_pubsub_subscription_iam_member",
    "google_storage_bucket_iam_member",
    "google_secret_manager_secret_iam_member",
    "google_service_account_iam_member",
    "google_cloud_run_v2_service_iam_member",
    "google_artifact_registry_repository_iam_member",
)
WIDE = frozenset({"roles/owner", "roles/editor", "roles/viewer", "roles/browser"})
FIRESTORE = "google.cloud.firestore.document.v1.written"
RETRIED = "RETRY_POLICY_RETRY"
TOPICS: Mapping[str, Event] = {
    "submissions": Submission(id="s", body={}),
    "commands": Command(verb="cancel", target="j"),
    "worker-events": WorkerEvent(attempt="j.1", worker=0, what="exited"),
    "preemptions": PreemptionNotice(slot="s", generation=1),
    "worker-ready": WorkerReady(slot="s", generation=1),
    "ticks": Tick(),
}
"""One event of each topic whose messages all go the same way."""
DOCUMENTS = {
    "jobs/{job}": Written(kind="job", id="j"),
    "slots/{slot}": Written(kind="slot", id="s"),
    "jobs/{job}/attempts/{attempt}": Written(kind="attempt", id="j.1"),
}
ENTITIES = ("attempt:j.1", "job:j", "placement:p", "slot:s", "tpu:z/t")
ONLY_DEPLOYED = {"notices": "notify"}
"""Topics that an embedded engine has no function for: there, a listener takes the notices."""


def short(id: str) -> str:
    """The short name of one of our topics or subscriptions."""
    return id.rpartition("/")[2].removeprefix(f"{PREFIX}-")


def block(resource: Resource, name: str) -> Mapping[str, Any]:
    found = resource.get(name) or []
    assert len(found) == 1, f"{resource.address} has {len(found)} blocks {name}"
    one: Mapping[str, Any] = found[0]
    return one


def functions(plan: Plan) -> dict[str, Resource]:
    return {block(f, "build_config")["entry_point"]: f for f in plan.of("google_cloudfunctions2_function")}


def pushes(plan: Plan) -> tuple[Resource, ...]:
    return tuple(s for s in plan.of("google_pubsub_subscription") if s.get("push_config"))


def pushed_to(plan: Plan, subscription: Resource) -> str:
    """The name of the function that a subscription calls."""
    endpoint = block(subscription, "push_config")["push_endpoint"]
    for name, function in functions(plan).items():
        if endpoint == f"{block(function, 'service_config')['uri']}/{subscription['topic']}":
            return name
    raise AssertionError(f"{subscription.address} calls {endpoint}: no function with the topic behind it")


def holders(plan: Plan, role: str, **where: str) -> set[str]:
    """Who has a role on that thing."""
    return {
        binding["member"]
        for binding in plan.of(*BINDINGS)
        if binding["role"] == role and all(binding.get(name) == value for name, value in where.items())
    }


def agent(service: str) -> str:
    return f"serviceAccount:service-123456789012@gcp-sa-{service}.iam.gserviceaccount.com"


# ---- functions ------------------------------------------------------------------------------------------------------


def functions_are_those_of_the_tree(plan: Plan) -> None:
    assert set(functions(plan)) == set(FUNCTIONS)
    for name, function in functions(plan).items():
        assert function["name"] == f"{PREFIX}-{name.replace('_', '-')}", function.address


def every_function_has_its_own_account(plan: Plan) -> None:
    accounts = Counter(block(f, "service_config")["service_account_email"] for f in functions(plan).values())
    assert max(accounts.values()) == 1, f"shared: {accounts.most_common(1)}"
    assert set(accounts) <= {a["email"] for a in plan.of("google_service_account")}


def every_function_is_bounded(plan: Plan) -> None:
    for function in functions(plan).values():
        service = block(function, "service_config")
        assert re.fullmatch(r"\d+(Mi|Gi)", service["available_memory"]), function.address
        assert 1 <= service["max_instance_count"] <= 100, function.address
        assert service["max_instance_request_concurrency"] == 1 or float(service["available_cpu"]) >= 1, (
            function.address
        )
        assert 60 <= service["timeout_seconds"] <= 540, function.address
        assert service["ingress_settings"] == "ALLOW_INTERNAL_ONLY", function.address
        environment = service["environment_variables"]
        assert environment["THREADS"] == str(service["max_instance_request_concurrency"])


def every_function_retries(plan: Plan) -> None:
    """Triggers beside a function's own retry unless their policy limits the attempts."""
    for function in functions(plan).values():
        for trigger in function.get("event_trigger") or []:
            assert trigger["retry_policy"] == RETRIED, f"{function.address} drops events that failed"
    for trigger in plan.of("google_eventarc_trigger"):
        assert not trigger.get("retry_policy"), f"{trigger.address} limits its attempts"
    for subscription in pushes(plan):
        assert block(subscription, "retry_policy")["minimum_backoff"] == "10s", subscription.address


def sources_are_named_by_content(plan: Plan) -> None:
    objects = {o["name"] for o in plan.of("google_storage_bucket_object")}
    for name, function in functions(plan).items():
        source = block(function, "build_config")["source"][0]["storage_source"][0]["object"]
        assert source in objects, source
        assert re.fullmatch(rf"archives/{name}-[0-9a-f]{{64}}\.zip", source), source


# ---- what wakes them ------------------------------------------------------------------------------------------------


def wake_ups_are_those_of_the_registry(plan: Plan) -> None:
    """The deployed system and the embedded one hand every event to the same functions."""
    expected = {topic: {f.name for f in woken_by(event)} for topic, event in TOPICS.items()}
    expected |= {topic: {function} for topic, function in ONLY_DEPLOYED.items()}
    expected |= {path: {f.name for f in woken_by(event)} for path, event in DOCUMENTS.items()}
    expected |= {f"wakes of {e}": {f.name for f in woken_by(Wake(entity=e))} for e in ENTITIES}
    assert wake_ups(plan) == expected


def wake_ups(plan: Plan) -> dict[str, set[str]]:
    """What wakes whom, as planned; wakes by their kinds."""
    found: dict[str, set[str]] = {}
    for subscription in pushes(plan):
        function, topic = pushed_to(plan, subscription), short(subscription["topic"])
        if topic == "wakes":
            for entity in ENTITIES:
                if passes(subscription["filter"], {"kind": entity.partition(":")[0]}):
                    found.setdefault(f"wakes of {entity}", set()).add(function)
            assert passes(subscription["filter"], {}), f"{subscription.address} never gets a wake without a kind"
        else:
            assert not subscription.get("filter"), f"{subscription.address} filters {topic}"
            found.setdefault(topic, set()).add(function)
    for name, path in documents(plan):
        found.setdefault(path, set()).add(name)
    return found


def documents(plan: Plan) -> Iterable[tuple[str, str]]:
    """(function, document pattern) of every trigger, in the deployment's database and at its location."""
    by_service = {short_service(f): name for name, f in functions(plan).items()}
    for name, function in functions(plan).items():
        for trigger in function.get("event_trigger") or []:
            assert (trigger["event_type"], trigger["trigger_region"]) == (FIRESTORE, "nam5"), function.address
            yield name, pattern(function.address, trigger["event_filters"])
    for trigger in plan.of("google_eventarc_trigger"):
        criteria = trigger["matching_criteria"]
        assert (trigger["location"], trigger["event_data_content_type"]) == ("nam5", "application/protobuf")
        assert {"attribute": "type", "value": FIRESTORE}.items() <= _named(criteria, "type").items(), trigger.address
        service = trigger["destination"][0]["cloud_run_service"][0]["service"]
        yield by_service[service], pattern(trigger.address, criteria)


def pattern(address: str, filters: Sequence[Mapping[str, Any]]) -> str:
    assert _named(filters, "database")["value"] == PREFIX, f"{address} listens to another database"
    found = _named(filters, "document")
    assert found["operator"] == "match-path-pattern", address
    return str(found["value"])


def _named(filters: Sequence[Mapping[str, Any]], attribute: str) -> Mapping[str, Any]:
    return next(f for f in filters if f["attribute"] == attribute)


def passes(filter: str, attributes: Mapping[str, str]) -> bool:
    """Pub/Sub's filter language, as far as it is used: `attributes.k = "v"`, `attributes:k`, NOT, AND, OR."""
    python = re.sub(r'attributes\.(\w+) = ("\w+")', r'(attributes.get("\1") == \2)', filter)
    python = re.sub(r"attributes:(\w+)", r'("\1" in attributes)', python)
    python = re.sub(r"\b(NOT|AND|OR)\b", lambda word: word[0].lower(), python)
    return bool(eval(python, {"__builtins__": {}}, {"attributes": attributes}))


def every_push_ends_in_the_dead_letters(plan: Plan) -> None:
    topic = next(t["id"] for t in plan.of("google_pubsub_topic") if short(t["id"]) == "dead-letters")
    assert pushes(plan)
    for subscription in pushes(plan):
        policy = block(subscription, "dead_letter_policy")
        assert policy["dead_letter_topic"] == topic, subscription.address
        assert 5 <= policy["max_delivery_attempts"] <= 100, subscription.address
        assert agent("pubsub") in holders(plan, "roles/pubsub.subscriber", subscription=subscription["name"]), (
            f"Pub/Sub cannot move the dead letters of {subscription.address}"
        )
    assert agent("pubsub") in holders(plan, "roles/pubsub.publisher", topic=topic)
    kept = [s for s in plan.of("google_pubsub_subscription") if s["topic"] == topic]
    assert len(kept) == 1, "dead letters are kept in one subscription"
    assert block(kept[0], "expiration_policy")["ttl"] == ""


def every_subscription_lasts(plan: Plan) -> None:
    for subscription in pushes(plan):
        function = functions(plan)[pushed_to(plan, subscription)]
        assert block(subscription, "expiration_policy")["ttl"] == "", subscription.address
        assert 10 <= subscription["ack_deadline_seconds"] <= 600, subscription.address
        assert subscription["ack_deadline_seconds"] > block(function, "service_config")["timeout_seconds"]
        assert 600 <= int(subscription["message_retention_duration"].removesuffix("s")) <= 2678400


def only_its_invoker_calls_a_function(plan: Plan) -> None:
    """Pushes and triggers come as an account that has this role on this service, and on nothing else."""
    callers: dict[str, set[str]] = {}
    for subscription in pushes(plan):
        token, name = block(block_of(subscription, "push_config"), "oidc_token"), pushed_to(plan, subscription)
        assert token["audience"] == block(functions(plan)[name], "service_config")["uri"], subscription.address
        callers.setdefault(name, set()).add(token["service_account_email"])
        account = f"projects/my-project/serviceAccounts/{token['service_account_email']}"
        signers = holders(plan, "roles/iam.serviceAccountTokenCreator", service_account_id=account)
        assert signers == {agent("pubsub")}, f"{subscription.address}: signed by {signers}"
    for name, function in functions(plan).items():
        for trigger in function.get("event_trigger") or []:
            callers.setdefault(name, set()).add(trigger["service_account_email"])
    by_service = {short_service(f): name for name, f in functions(plan).items()}
    for trigger in plan.of("google_eventarc_trigger"):
        name = by_service[trigger["destination"][0]["cloud_run_service"][0]["service"]]
        callers.setdefault(name, set()).add(trigger["service_account"])
    for name, accounts in callers.items():
        assert len(accounts) == 1, f"{name} is called by {accounts}"
        members = {f"serviceAccount:{account}" for account in accounts}
        service = short_service(functions(plan)[name])
        assert holders(plan, "roles/run.invoker", name=service) == members, f"{name} is called by others"
        if any(name == function for function, _ in documents(plan)):
            assert members <= holders(plan, "roles/eventarc.eventReceiver"), f"{name} hears of no document"
    assert set(callers) == set(FUNCTIONS), "some function is never called"


def block_of(resource: Resource, name: str) -> Resource:
    """A block as something that has blocks."""
    return Resource(f"{resource.address}.{name}", resource.type, block(resource, name))


def short_service(function: Resource) -> str:
    return str(block(function, "service_config")["service"]).rpartition("/")[2]


def every_tick_has_a_topic(plan: Plan) -> None:
    topics = {t["id"] for t in plan.of("google_pubsub_topic")}
    jobs = plan.of("google_cloud_scheduler_job")
    assert {job["schedule"] for job in jobs} == {"* * * * *", "*/10 * * * *"}
    for job in jobs:
        assert block(job, "pubsub_target")["topic_name"] in topics, f"{job.address} publishes to no topic of ours"
        assert short(block(job, "pubsub_target")["topic_name"]) == "ticks", job.address


def every_topic_has_a_consumer(plan: Plan) -> None:
    consumed = {s["topic"] for s in plan.of("google_pubsub_subscription")}
    for topic in plan.of("google_pubsub_topic"):
        assert topic["id"] in consumed, f"nobody takes what comes on {topic.address}"


# ---- rights ---------------------------------------------------------------------------------------------------------


def no_role_is_wide(plan: Plan) -> None:
    for binding in plan.of(*BINDINGS):
        assert binding["role"] not in WIDE, f"{binding.address}: {binding['role']}"
        assert binding["member"] not in ("allUsers", "allAuthenticatedUsers"), binding.address
    for role in plan.of("google_project_iam_custom_role"):
        assert not [p for p in role["permissions"] if "*" in p], role.address
    policies = [r.address for r in plan.resources if r.type.endswith(("_iam_policy", "_iam_binding"))]
    assert not policies, f"these would take away what others granted: {policies}"


def workers_cannot_touch_what_functions_run(plan: Plan) -> None:
    """No role on the deployment's bucket or on the database, and writing in the jobs' buckets is conditional."""
    worker = next(a["member"] for a in plan.of("google_service_account") if a["account_id"].endswith("-worker"))
    own = plan.of("google_storage_bucket")[0]["name"]
    for binding in plan.of(*BINDINGS):
        if binding["member"] != worker:
            continue
        assert binding.type != "google_project_iam_member", f"{binding.address}: workers have a role on the project"
        if binding.type == "google_storage_bucket_iam_member":
            assert binding["bucket"] != own, binding.address
            assert binding["role"] == "roles/storage.objectViewer" or binding.get("condition"), binding.address


def files_are_private(plan: Plan) -> None:
    for bucket in plan.of("google_storage_bucket"):
        assert bucket["uniform_bucket_level_access"] is True, bucket.address
        assert bucket["public_access_prevention"] == "enforced", bucket.address
        assert block(bucket, "versioning")["enabled"] is False, bucket.address


def secrets_are_not_in_the_state(plan: Plan) -> None:
    assert plan.of("google_secret_manager_secret")
    assert not plan.of("google_secret_manager_secret_version")
    assert not [r.address for r in plan.resources if r.type.startswith("tls_") or "service_account_key" in r.type]


def apis_outlive_the_deployment(plan: Plan) -> None:
    for api in plan.of("google_project_service"):
        assert api["disable_on_destroy"] is False, api.address


RULES: Sequence[Callable[[Plan], None]] = (
    functions_are_those_of_the_tree,
    every_function_has_its_own_account,
    every_function_is_bounded,
    every_function_retries,
    sources_are_named_by_content,
    wake_ups_are_those_of_the_registry,
    every_push_ends_in_the_dead_letters,
    every_subscription_lasts,
    only_its_invoker_calls_a_function,
    every_tick_has_a_topic,
    every_topic_has_a_consumer,
    no_role_is_wide,
    workers_cannot_touch_what_functions_run,
    files_are_private,
    secrets_are_not_in_the_state,
    apis_outlive_the_deployment,
)
