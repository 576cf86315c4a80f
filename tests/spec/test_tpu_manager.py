"""A config.toml of tpu-manager becomes a deployment file with the same slots."""

from pathlib import Path

import pytest

from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet
from tpufn.spec.deployment import parse_deployment
from tpufn.spec.tpu_manager import convert

CONFIG = """
project  = "my-gcp-project"
network  = "tpu-network"
ntfy_topic = ""
[subnets]
"europe-west4-a" = "tpu-subnet-europe-west4"
[zone_codes]
"europe-west4-a" = "ew4a"
[[slots]]
name = "ondemand-v4-8-uc2-1"
zone = "us-central2-b"
accelerator = "v4-8"
mode = "on-demand"
v6e_zones  = [["europe-west4-a", "ew4a"]]
v6e_counts = [["v6e-64", 1], ["v6e-8", 8]]
poll_interval = 30
auto_setup = true
"""


def fleet(text: str, environment: dict[str, str] | None = None) -> Fleet:
    made = convert(text, environment or {}, name="lab").text
    return parse_deployment("deployment.yaml", made, base=Path()).fleet


def test_slots_keep_their_names_and_share_their_quota() -> None:
    """Keys that TOML put into the last slot's table count as well."""
    found = fleet(CONFIG)
    names = {name for name, _ in found.slots()}
    assert names == {
        "ondemand-v4-8-uc2-1",
        "spot-v6e-64-ew4a-1",
        *(f"spot-v6e-8-ew4a-{n}" for n in range(1, 9)),
    }
    limits = {pool.id: pool.chip_limit for pool in found.pools}
    assert limits == {"ondemand-v4-8-uc2": 4, "spot-v6e-64-ew4a": 64, "spot-v6e-8-ew4a": 64}
    assert (found.project, found.mode) == ("my-gcp-project", "laptop")
    assert found.settings["network"] == "tpu-network"
    assert found.settings["auto_setup"] == "true"
    assert found.settings["poll_interval"] == "30.0"


def test_the_same_keys_at_the_top() -> None:
    top, _, slots = CONFIG.partition("[subnets]")
    moved = slots.splitlines()[-4:]
    rest = "\n".join(slots.splitlines()[:-4])
    assert fleet("\n".join([top, *moved, "[subnets]", rest])) == fleet(CONFIG)


def test_numbered_slots_are_one_entry() -> None:
    slot = '[[slots]]\nname = "spot-a-{}"\nzone = "us-east5-b"\naccelerator = "v6e-8"\nmode = "spot"\n'
    found = fleet('project = "my-gcp-project"\n' + "".join(slot.format(n) for n in (1, 2, 3)))
    assert [(pool.id, pool.count, pool.chip_limit) for pool in found.pools] == [("spot-a", 3, 24)]


def test_the_environment_overrides() -> None:
    assert fleet(CONFIG, {"TPU_MANAGER_PROJECT": "other-project", "HOME": "/"}).project == "other-project"
    assert fleet(CONFIG, {"TPU_MANAGER_V6E_COUNTS": '[["v6e-16", 2]]'}).pool("spot-v6e-16-ew4a") is not None


def test_what_cannot_be_kept_is_said() -> None:
    odd = '[[slots]]\nname = "mine"\nzone = "us-east5-b"\naccelerator = "v6e-8"\n'
    notes = convert(f'colour = "red"\nproject = "my-gcp-project"\n{odd}', {}, name="lab").notes
    assert "slot mine becomes mine-1: slots here end in a number" in notes
    assert "`colour` has no meaning here and is left out" in notes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing = ", "not TOML"),
        ('project = "p"', "there are no slots in it"),
        ('[[slots]]\nname = "a-1"\n', "slot a-1: zone, accelerator missing"),
        ('[[slots]]\nname = "a-1"\nzone = "z"\naccelerator = "v6e-20"\n', "there is no v6e-20; the nearest sizes"),
        ('[[slots]]\nname = "a-1"\nzone = "z"\naccelerator = "v6e-8"\nmode = "lent"\n', "neither on-demand nor spot"),
    ],
)
def test_a_wrong_config(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        convert(text, {}, name="lab")
