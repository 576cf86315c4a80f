"""The cloud's own words: what each of them means, what it disproves, and what to tell the user."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpufn.decide.cooldown import pool_scopes
from tpufn.decide.refusals import classify
from tpufn.domain.capacity import Class
from tpufn.domain.fleet import Model, Pool

from .builders import CENTRAL, EAST, pool

V6 = pool("v6e-16", EAST)
TYPE = "spot:type:v6e-16@us-east1-d"
STOCKOUT = (
    'There is no more capacity in the zone "us-central1-b"; you can try in another zone where Cloud TPU Nodes are '
    "offered (see https://cloud.google.com/tpu/docs/regions)"
)
RESERVED = "Insufficient reserved capacity. Contact customer support to increase your reservation."
NO_TYPE = (
    'Cloud TPU received a bad request. The requested accelerator configuration for accelerator type, "v6e-1", could '
    'not be found in the zonal accelerator configurations for "asia-east1-a".; the accelerator v6e-1 was not found '
    "in zone asia-east1-a"
)
DELETE = (
    "DeleteQueuedResource is not supported when state is {} "
    "(must be one of [ACCEPTED WAITING_FOR_RESOURCES SUSPENDED FAILED])"
)
NO_LOCATION = "Permission denied on 'locations/us-central2-b' (or it may not exist)."
NO_PERMISSION = "Permission 'tpu.nodes.get' denied on 'projects/P/locations/Z/nodes/N'"
QUOTA_0 = "Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0 in region us-east5."
QUOTA_N = "Quota 'TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI' exhausted. Limit 20800 in region us-central2"
QUOTA_ZONE = "Quota 'TPUV5sLitepodServingPerProjectPerZoneForTPUAPI' exhausted. Limit 4 in zone us-central1-a"
ADDRESSES = "Quota 'IN_USE_ADDRESSES' exceeded. Limit: 8.0 in region us-central1"
EMPTY = "Unexpected state: Long-running operation had neither response nor error set."

V6_EAST5 = pool("v6e-8", "us-east5-a")
V6_CENTRAL = pool("v6e-8", "us-central1-b")
V4 = pool("v4-32", CENTRAL)
V5E = pool("v5litepod-16", "us-central1-a")
WITH_RESERVATION = pool("v6e-16", EAST, model=Model.RESERVED, reservation="r-1")

TABLE = [
    # code, text, pool -> class, scope, a part of the hint
    (8, STOCKOUT, V6, Class.STOCKOUT, TYPE, ""),
    (0, STOCKOUT, V6, Class.STOCKOUT, TYPE, ""),
    (9, RESERVED, WITH_RESERVATION, Class.STOCKOUT, "reserved:type:v6e-16@us-east1-d", ""),
    (8, RESERVED, WITH_RESERVATION, Class.STOCKOUT, "reserved:type:v6e-16@us-east1-d", ""),
    (9, RESERVED, V6, Class.STRUCTURAL, TYPE, "only sold by reservation"),
    (
        3,
        "Cloud TPU received a bad request. update is not supported while in state PREEMPTED",
        V6,
        Class.PREEMPTED,
        TYPE,
        "",
    ),
    (429, QUOTA_0, V6_EAST5, Class.STRUCTURAL, "spot:quota:v6e@us-east5", "no quota TPUV6EPreemptible"),
    (8, QUOTA_0, V6_EAST5, Class.STRUCTURAL, "spot:quota:v6e@us-east5", "in region us-east5"),
    (8, QUOTA_N, V4, Class.QUOTA, "spot:quota:v4@us-central2", "allows 20800"),
    (8, QUOTA_ZONE, V5E, Class.QUOTA, "spot:quota:v5e@us-central1-a", "allows 4"),
    (8, ADDRESSES, V6_CENTRAL, Class.STRUCTURAL, "region:us-central1", "ssh_transport: iap"),
    (403, ADDRESSES, V6_CENTRAL, Class.STRUCTURAL, "region:us-central1", "ssh_transport: iap"),
    (3, NO_TYPE, V6, Class.STRUCTURAL, "type:v6e-16@us-east1-d", "not sold there"),
    (403, NO_LOCATION, V6, Class.STRUCTURAL, "zone:us-east1-d", "may not use us-east1-d"),
    (7, "LOCATION_POLICY_VIOLATED", V6, Class.STRUCTURAL, "zone:us-east1-d", "may not use us-east1-d"),
    (403, NO_PERMISSION, V6, Class.STRUCTURAL, "project", "roles/tpu.admin"),
    (7, NO_PERMISSION, V6, Class.STRUCTURAL, "project", "roles/tpu.admin"),
    (9, DELETE.format("ACTIVE"), V6, Class.REFUSED_DELETE, "", ""),
    (9, DELETE.format("PROVISIONING"), V6, Class.REFUSED_DELETE, "", ""),
    (0, EMPTY, V6, Class.TRANSIENT, TYPE, ""),
    (6, "Resource 'n' already exists", V6, Class.EXISTS, "", ""),
    (409, "Requested entity already exists", V6, Class.EXISTS, "", ""),
    (5, "Resource 'n' was not found", V6, Class.GONE, "", ""),
    (404, "not found", V6, Class.GONE, "", ""),
    (3, "Invalid value at 'node.runtime_version'", V6, Class.STRUCTURAL, TYPE, "check runtime"),
    (429, "exceeded the rate limit", V6, Class.RATE_LIMIT, "project", ""),
    (429, "", V6, Class.RATE_LIMIT, "project", ""),
    (8, "Resource exhausted", V6, Class.STOCKOUT, TYPE, ""),
    (14, "The service is currently unavailable.", V6, Class.TRANSIENT, TYPE, ""),
    (13, "Internal error", V6, Class.TRANSIENT, TYPE, ""),
    (503, "backend error", V6, Class.TRANSIENT, TYPE, ""),
    (10, "Too much contention on these documents. Please try again.", V6, Class.TRANSIENT, TYPE, ""),
    (2, "something new", V6, Class.UNKNOWN, TYPE, ""),
    (2, "", V6, Class.UNKNOWN, TYPE, ""),
]


@pytest.mark.parametrize(("code", "text", "of", "cls", "scope", "hint"), TABLE)
def test_every_text_has_its_meaning(code: int, text: str, of: Pool, cls: Class, scope: str, hint: str) -> None:
    """Why: the class says what the next try is, the scope where not to try, the hint what the user can do."""
    refusal = classify(code, text, of)
    assert (refusal.cls, refusal.scope) == (cls, scope)
    assert hint in refusal.hint
    assert bool(refusal.hint) == bool(hint), "a hint that says nothing, or one that this table does not know"
    assert refusal.text == (text or f"code {code}" if cls is Class.UNKNOWN else text)


@pytest.mark.parametrize(("code", "text", "of", "cls", "scope", "hint"), TABLE)
def test_the_event_id_changes_nothing(code: int, text: str, of: Pool, cls: Class, scope: str, hint: str) -> None:
    """Why: the API appends a new id to most messages; texts are compared and shown without it."""
    assert classify(code, f"{text} [EID: 0x1f3A9c]", of) == classify(code, text, of)


@pytest.mark.parametrize(("code", "text", "of", "cls", "scope", "hint"), TABLE)
def test_a_cooldown_is_learnt_where_the_pool_looks_for_it(
    code: int, text: str, of: Pool, cls: Class, scope: str, hint: str
) -> None:
    """Why: a scope that no pool asks about would never stop a request."""
    assert scope == "" or scope in pool_scopes(of)


@settings(deadline=None)
@given(st.integers(0, 600), st.text(max_size=80))
def test_any_answer_at_all_is_classified(code: int, text: str) -> None:
    """Why: an unknown error means "try elsewhere", never "abort the race"."""
    refusal = classify(code, text, V6)
    assert refusal.cls in Class
    assert refusal.scope == "" or refusal.scope in pool_scopes(V6)


def test_a_program_that_runs_out_of_memory_is_no_quota() -> None:
    """Why: RESOURCE_EXHAUSTED is also what a program says whose arrays do not fit the chip."""
    text = "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Program hbm requirement 17.3G exceeded by 1.3G"
    assert classify(1, text, V6).cls not in (Class.QUOTA, Class.STRUCTURAL, Class.STOCKOUT)


def test_limit_zero_elsewhere_does_not_close_this_region() -> None:
    """Why: a quota failure disproves the place that it names, not the one we happened to ask."""
    assert "us-east5" in classify(429, QUOTA_0, V6).scope


def test_nothing_is_ever_gone_on_a_403() -> None:
    """Why: a permission that was taken away must not free a slot whose TPU is still there."""
    for text in (NO_PERMISSION, NO_LOCATION, ""):
        assert classify(403, text, V6).cls is not Class.GONE
