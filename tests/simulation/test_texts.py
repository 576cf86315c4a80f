"""The API's words, letter for letter: the classifier reads these."""

import re

import pytest

from tpufn.simulation.texts import EMPTY_OPERATION, error_id, quota_metric, refusal

EXACT = [
    (
        ("stockout", {"zone": "us-central1-b"}),
        8,
        'There is no more capacity in the zone "us-central1-b"; you can try in another zone where Cloud TPU Nodes are '
        "offered (see https://cloud.google.com/tpu/docs/regions)",
    ),
    (
        ("reserved-stockout", {}),
        9,
        "Insufficient reserved capacity. Contact customer support to increase your reservation.",
    ),
    (
        ("preempted-while-creating", {}),
        3,
        "Cloud TPU received a bad request. update is not supported while in state PREEMPTED",
    ),
    (
        (
            "quota-http",
            {
                "metric": "TPUV6EPreemptiblePerProjectPerRegionForTPUAPI",
                "limit": 0,
                "kind": "region",
                "place": "us-east5",
            },
        ),
        429,
        "Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded. Limit: 0 in region us-east5.",
    ),
    (
        (
            "quota-failure",
            {
                "metric": "TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI",
                "limit": 20800,
                "kind": "region",
                "place": "us-central2",
            },
        ),
        8,
        "Quota 'TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI' exhausted. Limit 20800 in region us-central2",
    ),
    (
        (
            "quota-failure",
            {
                "metric": "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI",
                "limit": 4,
                "kind": "zone",
                "place": "us-central1-a",
            },
        ),
        8,
        "Quota 'TPUV5sLitepodServingPerProjectPerZoneForTPUAPI' exhausted. Limit 4 in zone us-central1-a",
    ),
    (
        ("quota-address", {"region": "us-central1"}),
        8,
        "Quota 'IN_USE_ADDRESSES' exceeded. Limit: 8.0 in region us-central1",
    ),
    (
        ("structural-type", {"type": "v6e-1", "zone": "asia-east1-a"}),
        3,
        'Cloud TPU received a bad request. The requested accelerator configuration for accelerator type, "v6e-1", '
        'could not be found in the zonal accelerator configurations for "asia-east1-a".; the accelerator v6e-1 was not '
        "found in zone asia-east1-a",
    ),
    (
        ("structural-location", {"zone": "us-central2-b"}),
        403,
        "Permission denied on 'locations/us-central2-b' (or it may not exist).",
    ),
    (
        ("permission", {"permission": "tpu.nodes.get", "resource": "projects/P/locations/Z/nodes/N"}),
        403,
        "Permission 'tpu.nodes.get' denied on 'projects/P/locations/Z/nodes/N'",
    ),
    (
        ("delete-refused", {"state": "ACTIVE"}),
        9,
        "DeleteQueuedResource is not supported when state is ACTIVE (must be one of [ACCEPTED WAITING_FOR_RESOURCES "
        "SUSPENDED FAILED])",
    ),
]


@pytest.mark.parametrize(
    ("said", "code", "text"), EXACT, ids=lambda value: value[0] if isinstance(value, tuple) else ""
)
def test_the_words_are_those_of_the_reports(said, code, text):
    """Why: a classifier that is tested on invented words fails in the field."""
    kind, values = said
    error = refusal(kind, key="k", **values)
    assert error.code == code
    rest = error.text.removeprefix(text)
    assert rest != error.text
    assert re.fullmatch(r"( \[EID: 0x[0-9a-f]{16}\])?( \[reason: \"LOCATION_POLICY_VIOLATED\"\])?", rest)


def test_most_messages_end_in_an_error_id():
    """Why: whoever compares whole texts must stumble in a test, not in the field."""
    assert refusal("stockout", key="k", zone="z").text.endswith(error_id("k:stockout"))
    assert error_id("a") == error_id("a") != error_id("b")


def test_one_text_has_two_surfaces():
    """Why: the address quota is seen as failed data (8) and as HTTP 403."""
    assert refusal("quota-address", code=403, region="r").code == 403


def test_the_client_librarys_own_words():
    """Why: an empty operation has no code, only this text."""
    assert EMPTY_OPERATION == "Unexpected state: Long-running operation had neither response nor error set."


@pytest.mark.parametrize(
    ("family", "spot", "kind", "chips", "metric"),
    [
        ("v6e", True, "region", 64, "TPUV6EPreemptiblePerProjectPerRegionForTPUAPI"),
        ("v4", True, "region", 16, "TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI"),
        ("v5e", False, "zone", 4, "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"),
        ("v5e", True, "region", 64, "TPUV5sPreemptibleLitepodPerProjectPerRegionForTPUAPI"),
    ],
)
def test_quota_metrics_have_their_real_names(family, spot, kind, chips, metric):
    """Why: metric, scope kind and scope name are read from them."""
    assert quota_metric(family, spot=spot, kind=kind, chips=chips) == metric
