"""Zone codes, the names of pools and slots, and the placement keys that join jobs to pools."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpufn.domain.accelerators import FAMILIES, region_of
from tpufn.domain.fleet import (
    NAMED,
    Fleet,
    Model,
    Pool,
    accepting_pools,
    job_keys,
    pool_id,
    slot_key,
    zone_code,
)

ZONES = sorted({zone for family in FAMILIES.values() for zone in family.zones})


@pytest.mark.parametrize(
    ("zone", "code"),
    [
        ("europe-west4-a", "ew4a"),
        ("us-central2-b", "uc2b"),
        ("us-central1-a", "uc1a"),
        ("us-east1-d", "ue1d"),
        ("us-south1-a", "us1a"),
        ("us-west1-c", "uw1c"),
        ("asia-northeast1-b", "ane1b"),
        ("asia-southeast1-b", "ase1b"),
        ("northamerica-northeast1-a", "nne1a"),
        ("southamerica-west1-b", "sw1b"),
    ],
)
def test_zone_codes_are_initials_digits_letter(zone: str, code: str) -> None:
    """Why: slot names are read aloud and typed, and they must never change."""
    assert zone_code(zone) == code


def test_zone_codes_of_the_catalogue_differ() -> None:
    """Why: two zones with one code would be two pools with the same slots."""
    assert len({zone_code(z) for z in ZONES}) == len(ZONES)


@pytest.mark.parametrize(
    ("model", "type", "zone", "id"),
    [
        (Model.SPOT, "v6e-64", "europe-west4-a", "spot-v6e64-ew4a"),
        (Model.ON_DEMAND, "v4-32", "us-central2-b", "ondemand-v432-uc2b"),
        (Model.RESERVED, "v5litepod-16", "us-central1-a", "reserved-v5e16-uc1a"),
        (Model.SPOT, "v5p-8", "us-east5-a", "spot-v5p8-ue5a"),
    ],
)
def test_pool_ids_read_well(model: Model, type: str, zone: str, id: str) -> None:
    """Why: a slot's name says what it is: how it is bought, what it is, where."""
    assert pool_id(model, type, zone) == id


def test_a_zone_code_can_be_given() -> None:
    """Why: two zones of the same code are told apart in the deployment file."""
    assert pool_id(Model.SPOT, "v6e-64", "asia-southeast1-a", code="sin") == "spot-v6e64-sin"


def test_slots_have_fixed_names() -> None:
    """Why: the fleet is a fixed table: raising the ceiling adds names and changes none."""
    small = Pool(id="spot-v6e64-ew4a", type="v6e-64", zone="europe-west4-a", count=2)
    large = Pool(id="spot-v6e64-ew4a", type="v6e-64", zone="europe-west4-a", count=3)
    assert small.slots == ("spot-v6e64-ew4a-1", "spot-v6e64-ew4a-2")
    assert large.slots[:2] == small.slots
    assert Pool(id="p", type="v6e-8", zone="us-east1-d", existing="mine", count=0).slots == ("mine",)


def test_a_chip_limit_covers_model_family_and_zone() -> None:
    """Why: types of one family share their quota; another way of buying has its own."""
    one = Pool(id="a", type="v6e-64", zone="us-east1-d")
    scopes = {
        "type": Pool(id="b", type="v6e-8", zone="us-east1-d").scope,
        "model": Pool(id="c", type="v6e-64", zone="us-east1-d", model=Model.ON_DEMAND).scope,
        "family": Pool(id="d", type="v4-64", zone="us-east1-d").scope,
        "zone": Pool(id="e", type="v6e-64", zone="us-east5-a").scope,
    }
    assert {why for why, scope in scopes.items() if scope == one.scope} == {"type"}


TYPES = ("v6e-8", "v6e-64", "v4-32", "v5litepod-16")
PLACES = ("us-east1-d", "us-east1-c", "us-central2-b", "us-central1-a", "us-central1-b")
REGIONS = sorted({region_of(z) for z in PLACES})

pools = st.builds(
    lambda number, type, zone, model, count: Pool(id=f"p{number}", type=type, zone=zone, model=model, count=count),
    st.integers(0, 3),
    st.sampled_from(TYPES),
    st.sampled_from(PLACES),
    st.sampled_from(Model),
    st.integers(1, 3),
)
wishes = st.fixed_dictionaries(
    {
        "types": st.one_of(st.just(("any",)), st.lists(st.sampled_from(TYPES), min_size=1, unique=True).map(tuple)),
        "regions": st.lists(st.sampled_from(REGIONS), min_size=1, unique=True).map(tuple),
        "zone": st.sampled_from(("", *PLACES)),
        "slot": st.sampled_from(("", "", "", "p0-1", "p2-3")),
        "model": st.sampled_from(("", *Model)),
    }
)


def accepts(wish: dict[str, object], pool: Pool) -> bool:
    """Whether a job with these wishes can run in a pool, in plain words."""
    if wish["slot"]:
        return wish["slot"] in pool.slots
    right_type = wish["types"] == ("any",) or pool.type in wish["types"]  # type: ignore[operator]
    right_place = pool.zone == wish["zone"] if wish["zone"] else region_of(pool.zone) in wish["regions"]  # type: ignore[operator]
    return right_type and right_place and wish["model"] in ("", pool.model)


@settings(deadline=None)
@given(wishes, st.lists(pools, max_size=6, unique_by=lambda p: p.id))
def test_keys_meet_exactly_where_the_job_can_run(wish: dict[str, object], some: list[Pool]) -> None:
    """Why: jobs never name pools and pools never name jobs, and yet the keys must say just what the plain words say."""
    keys = job_keys(wish["types"], wish["regions"], zone=wish["zone"], slot=wish["slot"], model=wish["model"])  # type: ignore[arg-type]
    found = accepting_pools(Fleet(name="lab", pools=tuple(some)), keys)
    assert found == tuple(p for p in some if accepts(wish, p))


@settings(deadline=None)
@given(wishes)
def test_a_job_has_each_key_once_and_few_of_them(wish: dict[str, object]) -> None:
    """Why: a query takes 30 keys, and a document repeated under one key would be read twice."""
    keys = job_keys(wish["types"], wish["regions"], zone=wish["zone"], slot=wish["slot"], model=wish["model"])  # type: ignore[arg-type]
    assert len(set(keys)) == len(keys)
    assert len(keys) <= max(2, len(wish["types"]) * len(wish["regions"]))  # type: ignore[arg-type]


def test_a_named_slot_is_the_only_key_besides_the_mark() -> None:
    """Why: whether any job names a slot at all is asked by one key."""
    assert job_keys(("v6e-8",), ("us-east1",), slot="p0-1") == (slot_key("p0-1"), NAMED)


@settings(deadline=None)
@given(st.lists(pools, min_size=2, max_size=2, unique_by=lambda p: (p.type, p.zone, p.model)))
def test_two_pools_share_keys_only_where_they_are_alike(two: list[Pool]) -> None:
    """Why: a key that two unlike pools answered to would send a job where it cannot run."""
    for a, b in combinations(two, 2):
        for key in a.keys & b.keys:
            kind, _, place = key.rpartition("@")
            model, _, type = kind.rpartition(":")
            assert type in ("*", a.type)
            assert type in ("*", b.type)
            assert place in (a.zone, a.region)
            assert place in (b.zone, b.region)
            assert model in ("", a.model)
            assert model in ("", b.model)


def test_the_fleet_knows_its_slots_places_and_pools() -> None:
    """Why: every loader starts from these."""
    one = Pool(id="a", type="v6e-8", zone="us-east1-d", count=2)
    two = Pool(id="b", type="v4-8", zone="us-central2-b", count=1)
    fleet = Fleet(name="lab", pools=(one, two))
    assert list(fleet.slots()) == [("a-1", one), ("a-2", one), ("b-1", two)]
    assert (fleet.zones, fleet.regions) == (("us-east1-d", "us-central2-b"), ("us-east1", "us-central2"))
    assert (fleet.pool("b"), fleet.pool("c")) == (two, None)
