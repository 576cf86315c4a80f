"""The catalogue: names, sizes, hosts, places and prices."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpufn.domain.accelerators import (
    FAMILIES,
    accelerator,
    all_types,
    api_type,
    nearest_types,
    price_per_hour,
    region_of,
)


@pytest.mark.parametrize(
    ("written", "api"),
    [
        ("v5e-16", "v5litepod-16"),
        ("v5lite-16", "v5litepod-16"),
        ("v5litepod-16", "v5litepod-16"),
        (" V5E-16 ", "v5litepod-16"),
        ("v6-8", "v6e-8"),
        ("v6e-8", "v6e-8"),
        ("v4-32", "v4-32"),
        ("h100-8", "h100-8"),
        ("any", "any"),
    ],
)
def test_aliases_become_the_names_of_the_api(written: str, api: str) -> None:
    """Why: people write v5e, the API knows v5litepod; unknown names stay for the error to show."""
    assert api_type(written) == api


@pytest.mark.parametrize(
    ("type", "family", "chips", "hosts"),
    [
        ("v2-8", "v2", 4, 1),
        ("v2-32", "v2", 16, 4),
        ("v3-8", "v3", 4, 1),
        ("v4-8", "v4", 4, 1),
        ("v4-32", "v4", 16, 4),
        ("v4-64", "v4", 32, 8),
        ("v5litepod-1", "v5e", 1, 1),
        ("v5litepod-8", "v5e", 8, 1),
        ("v5litepod-16", "v5e", 16, 4),
        ("v5p-8", "v5p", 4, 1),
        ("v5p-16", "v5p", 8, 2),
        ("v6e-1", "v6e", 1, 1),
        ("v6e-8", "v6e", 8, 1),
        ("v6e-16", "v6e", 16, 4),
        ("v6e-64", "v6e", 64, 16),
    ],
)
def test_names_count_cores_or_chips(type: str, family: str, chips: int, hosts: int) -> None:
    """Why: a chip limit counts chips, but v2, v3, v4 and v5p names count TensorCores, two a chip."""
    kind = accelerator(type)
    assert (kind.type, kind.family, kind.chips, kind.hosts) == (type, family, chips, hosts)


@pytest.mark.parametrize(
    ("type", "nearest"),
    [
        ("v5p-6", ("v5p-8",)),
        ("v6e-12", ("v6e-8", "v6e-16")),
        ("v6e-2", ("v6e-1", "v6e-4")),
        ("v6e-512", ("v6e-256",)),
        ("v4-4", ("v4-8",)),
        ("v5litepod-100", ("v5litepod-64", "v5litepod-128")),
    ],
)
def test_impossible_sizes_name_the_nearest_ones(type: str, nearest: tuple[str, ...]) -> None:
    """Why: an error carries its fix."""
    assert nearest_types(type) == nearest
    with pytest.raises(ValueError, match=f"no {type}") as error:
        accelerator(type)
    assert all(name in str(error.value) for name in nearest)


@pytest.mark.parametrize(
    "type", ["", "any", "v6e", "v6e-", "v6e-0", "v6e-08", "v6e-1.5", "-8", "h100-8", "v7-8", "V6E-8"]
)
def test_what_is_no_type_is_refused(type: str) -> None:
    """Why: a typo must not become a request to the cloud."""
    with pytest.raises(ValueError, match="unknown TPU type"):
        accelerator(type)


@settings(deadline=None)
@given(st.sampled_from(all_types()))
def test_every_type_is_whole(type: str) -> None:
    """Why: hosts, chips and prices are divided out of the catalogue: no type may come out uneven or free."""
    kind = accelerator(type)
    family = FAMILIES[kind.family]
    assert kind.chips * family.cores_per_chip == int(type.partition("-")[2])
    assert kind.hosts == 1 or kind.hosts * family.chips_per_host == kind.chips
    assert api_type(type) == type
    for zone in family.zones:
        assert 0 < price_per_hour(type, zone, spot=True) < price_per_hour(type, zone, spot=False)


@settings(deadline=None)
@given(st.sampled_from(all_types()), st.integers(1, 20_000))
def test_a_size_exists_or_has_neighbours(type: str, size: int) -> None:
    """Why: every number gets an answer, and what is offered instead exists."""
    name = f"{type.partition('-')[0]}-{size}"
    if name in all_types():
        assert accelerator(name).type == name
    else:
        assert nearest_types(name)
        assert all(accelerator(other) for other in nearest_types(name))


def test_prices_scale_with_chips_and_follow_the_region() -> None:
    """Why: placement tries the cheaper pool first, so the order of prices matters."""
    assert price_per_hour("v6e-64", "us-east1-d", spot=True) == pytest.approx(64 * 0.544)
    assert price_per_hour("v4-32", "us-central2-b", spot=True) == pytest.approx(16 * 0.922)
    assert price_per_hour("v6e-8", "me-central1-a", spot=True) == pytest.approx(8 * 1.215), "an unlisted region"


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-central2-b", "us-central2"),
        ("europe-west4-a", "europe-west4"),
        ("northamerica-northeast1-a", "northamerica-northeast1"),
        ("us-south1-ai1b", "us-south1"),
    ],
)
def test_a_zone_is_in_its_region(zone: str, region: str) -> None:
    """Why: buckets are chosen by region, TPUs are asked for by zone."""
    assert region_of(zone) == region


@pytest.mark.parametrize(
    "zone", ["", "us-central2", "us-central2-", "us-central2-B", "us-central2-b-c", "Us-central2-b", "us-central2-b "]
)
def test_what_is_no_zone_is_refused(zone: str) -> None:
    """Why: a region where a zone belongs is a common slip."""
    with pytest.raises(ValueError, match="not a zone"):
        region_of(zone)


def test_every_zone_of_the_catalogue_is_a_zone() -> None:
    """Why: the catalogue is data by hand."""
    for family in FAMILIES.values():
        assert family.zones
        assert family.sizes == tuple(sorted(set(family.sizes)))
        assert family.runtimes
        assert all(region_of(zone) for zone in family.zones)
