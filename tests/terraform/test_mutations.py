"""The assertions are worth something: what Terraform takes with one thing wrong in it is caught here."""

from collections.abc import Callable
from typing import Any

import pytest

from . import rights, rules
from .conftest import FULL
from .harness import Plan, Workspace

FUNCTION, IAM, MAIN = "modules/function/main.tf", "iam.tf", "main.tf"


def rights_are_documented(plan: Plan) -> None:
    assert rights.planned(plan) == rights.documented()


MUTATIONS = {
    "a dropped dead letter": (
        FUNCTION,
        "  dead_letter_policy {\n    dead_letter_topic     = var.dead_letters\n"
        "    max_delivery_attempts = each.value.attempts\n  }\n",
        "",
        rules.every_push_ends_in_the_dead_letters,
    ),
    "dead letters that Pub/Sub may not move": (
        "modules/function/iam.tf",
        "  for_each = google_pubsub_subscription.push\n",
        "  for_each = {}\n",
        rules.every_push_ends_in_the_dead_letters,
    ),
    "a push without a retry policy": (
        FUNCTION,
        '  retry_policy {\n    minimum_backoff = "10s"\n    maximum_backoff = "${each.value.backoff}s"\n  }\n',
        "",
        rules.every_function_retries,
    ),
    "a trigger that does not retry": (
        FUNCTION,
        '"RETRY_POLICY_RETRY"',
        '"RETRY_POLICY_DO_NOT_RETRY"',
        rules.every_function_retries,
    ),
    "a shared account": (
        MAIN,
        "google_service_account.function[each.key].email",
        'google_service_account.function["submit"].email',
        rules.every_function_has_its_own_account,
    ),
    "an account for everybody": (
        IAM,
        '"roles/tpu.${each.value}"',
        '"roles/editor"',
        rules.no_role_is_wide,
    ),
    "a missing role": (
        IAM,
        'each.key == "notify" ? "roles/datastore.viewer" : "roles/datastore.user"',
        '"roles/datastore.viewer"',
        rights_are_documented,
    ),
    "a condition that is none": (
        IAM,
        '"resource.name.startsWith(\\"projects/_/buckets/${each.value[0]}/objects/${prefix}\\")"',
        '"true || ${prefix}"',
        rights_are_documented,
    ),
    "workers that may write everywhere": (
        IAM,
        'prefixes = concat(["jobs/"], var.writable_prefixes)',
        'prefixes = [""]',
        rights_are_documented,
    ),
    "workers in the deployment's own bucket": (
        IAM,
        "  for_each = toset(var.buckets)\n\n  bucket = each.value\n",
        "  for_each = toset(var.buckets)\n\n  bucket = google_storage_bucket.own.name\n",
        rules.workers_cannot_touch_what_functions_run,
    ),
    "a tick to nowhere": (
        MAIN,
        'topic_name = module.topic["ticks"].id',
        'topic_name = "projects/${var.project}/topics/tpufn-ticks"',
        rules.every_tick_has_a_topic,
    ),
    "a topic that nobody reads": (
        MAIN,
        'topics = ["notices"]',
        "topics = []",
        rules.every_topic_has_a_consumer,
    ),
    "a wake that reaches nobody": (
        MAIN,
        'execute       = "attributes.kind = \\"attempt\\" OR NOT attributes:kind"',
        'execute       = "attributes.kind = \\"job\\" OR NOT attributes:kind"',
        rules.wake_ups_are_those_of_the_registry,
    ),
    "a document that wakes nobody": (
        MAIN,
        'topics = ["wakes", "worker-events"], documents = ["jobs/{job}/attempts/{attempt}"]',
        'topics = ["wakes", "worker-events"], documents = []',
        rules.wake_ups_are_those_of_the_registry,
    ),
    "a caller without the right to call": (
        "modules/function/iam.tf",
        'role     = "roles/run.invoker"\n  member   = google_service_account.invoker.member',
        'role     = "roles/run.viewer"\n  member   = google_service_account.invoker.member',
        rules.only_its_invoker_calls_a_function,
    ),
    "a public function": (
        FUNCTION,
        '"ALLOW_INTERNAL_ONLY"',
        '"ALLOW_ALL"',
        rules.every_function_is_bounded,
    ),
    "a subscription that expires": (
        FUNCTION,
        'ttl = "" # never',
        'ttl = "2678400s" # never',
        rules.every_subscription_lasts,
    ),
}


@pytest.mark.parametrize(("file", "old", "new", "rule"), MUTATIONS.values(), ids=MUTATIONS.keys())
def test_caught(
    own_workspace: Workspace,
    given: Callable[..., dict[str, Any]],
    file: str,
    old: str,
    new: str,
    rule: Callable[[Plan], None],
) -> None:
    """Each of these would be deployed without a word."""
    own_workspace.edit(file, old, new)
    mutated = own_workspace.plan(given(**FULL))
    with pytest.raises(AssertionError):
        rule(mutated)
