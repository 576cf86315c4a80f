"""What deployment files mean, and what is wrong with wrong ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

import tpufn_cli
from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Mode, Model
from tpufn.spec.deployment import load_deployment
from tpufn.spec.jobs import load_jobs

Write = Callable[[str, str], Path]

HEAD = "name: lab\nproject: my-project\nssh_transport: iap\ntpus:\n"
TWO = "[us-east1-d, us-east5-a]"
V6E = "  - {type: v6e-8, zone: us-east1-d, count: 2, chip_limit: 16}\n"


def entry(**keys: object) -> str:
    return "  - {" + ", ".join(f"{key}: {value}" for key, value in keys.items()) + "}\n"


def v6e(**keys: object) -> str:
    return entry(**{"type": "v6e-8", "zone": "us-east1-d", "count": 2, **keys})


WRONG: list[tuple[str, str, str, str]] = [
    ("unknown key", "nam: x\n" + HEAD + V6E, "d.yaml:1: nam", 'did you mean "name"?'),
    ("missing name", HEAD.replace("name: lab\n", "") + V6E, "d.yaml:1: name", "`name: lab`"),
    ("no TPUs", "name: lab\nproject: my-project\n", "d.yaml:1: tpus", "is missing"),
    ("empty TPUs", HEAD.replace("tpus:", "tpus: []"), "d.yaml:4: tpus", "name one TPU"),
    ("name with capitals", HEAD.replace("lab", "My_Lab") + V6E, "d.yaml:1: name", "write my-lab"),
    ("sandbox as mode", HEAD + V6E + "mode: sandbox\n", "d.yaml:6: mode", "laptop, cloud"),
    ("unknown key in an entry", HEAD + v6e(keep_warm=1), "d.yaml:5: tpus[0].keep_warm", '"keep_warm_count"?'),
    ("no zone", HEAD + entry(type="v6e-8", count=1), "d.yaml:5: tpus[0].zone", "zone: us-central2-b"),
    ("zone and zones", HEAD + v6e(zones="[us-east5-a]"), "tpus[0].zones", "keep one"),
    ("zone as a list", HEAD + v6e(zone="[us-east1-d]"), "tpus[0].zone", "single zone"),
    ("zone twice", HEAD + entry(type="v6e-8", zones="[us-east1-d, us-east1-d]", count=1), "zones[1]", "keep one"),
    ("bad zone", HEAD + v6e(zone="us-east1"), "tpus[0].zone", 'did you mean "us-east1-d"?'),
    ("no count", HEAD + entry(type="v6e-8", zone="us-east1-d"), "tpus[0].count", "count: 1"),
    ("negative count", HEAD + v6e(count=-1), "tpus[0].count", "0 or more"),
    ("impossible size", HEAD + v6e(type="v6e-12"), "tpus[0].type", "v6e-8 and v6e-16"),
    ("more warm than there are", HEAD + v6e(keep_warm_count=3), "tpus[0].keep_warm_count", "raise `count`"),
    ("slot over the limit", HEAD + v6e(chip_limit=4), "tpus[0].chip_limit", "smaller type"),
    ("cores are not chips", HEAD + v6e(type="v4-64", zone="us-central2-b", chip_limit=31), "chip_limit", "32 chips"),
    (
        "limits that disagree",
        HEAD + V6E + v6e(type="v6e-4", chip_limit=8),
        "d.yaml:6: tpus[1].chip_limit",
        "same number",
    ),
    ("no limit", HEAD + v6e(chip_limit=0), "tpus[0].chip_limit", "drop the key"),
    ("duplicate pool", HEAD + V6E + V6E, "d.yaml:6: tpus[1].type", "raise its `count`"),
    ("duplicate id", HEAD + v6e(id="a") + v6e(type="v6e-4", id="a"), "d.yaml:6: tpus[1].id", "tpus[0]"),
    (
        "slot name taken",
        HEAD + v6e(id="a") + entry(type="v6e-4", zone="us-east1-d", existing="a-1"),
        "existing",
        "`id`",
    ),
    ("long names", HEAD + v6e(id="x" * 60), "tpus[0].id", "shorten `id`"),
    ("reserved without reservation", HEAD + v6e(provisioning_model="reserved"), "reservation", "needs"),
    ("reservation on spot", HEAD + v6e(reservation="r"), "tpus[0].reservation", "drop one"),
    ("runtime of another generation", HEAD + v6e(runtime="v2-alpha-tpuv5"), "tpus[0].runtime", "write v2-alpha-tpuv6e"),
    ("warm existing", HEAD + v6e(existing="mine", keep_warm_count=1), "tpus[0].keep_warm_count", "drop it"),
    (
        "existing in two zones",
        HEAD + entry(type="v6e-8", zones="[us-east1-d, us-east5-a]", existing="m"),
        "zones",
        "one zone",
    ),
    ("existing name", HEAD + v6e(existing="My_TPU"), "tpus[0].existing", "lowercase"),
    ("transport", HEAD.replace("iap", "ssh") + V6E, "d.yaml:3: ssh_transport", "direct, iap"),
    ("secrets as text", HEAD + V6E + "worker_secrets: a\n", "d.yaml:6: worker_secrets", "must be a list"),
    ("bucket with a path", HEAD + V6E + "buckets: [gs://a-b/c]\n", "buckets", "write gs://a-b"),
    ("prefixes without buckets", HEAD + V6E + "writable_prefixes: [x]\n", "writable_prefixes", "list the buckets"),
    (
        "zone code taken",
        HEAD + V6E + v6e(zone="us-east5-a") + "zone_codes: {us-east5-a: ue1d}\n",
        "zone_codes",
        "another",
    ),
    ("no startup script", HEAD + V6E + "startup_script: nowhere.sh\n", "d.yaml:6: startup_script", "relative to this"),
    ("boolean as text", HEAD + V6E + "tmux_sync: maybe\n", "d.yaml:6: tmux_sync", "true or false"),
    ("poll interval", HEAD + V6E + "poll_interval: often\n", "poll_interval", "90s"),
    ("a date as name", HEAD.replace("lab", "2026-01-01") + V6E, "d.yaml:1: name", 'write "2026-01-01"'),
]


@pytest.mark.parametrize(("text", "place", "fix"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_file_names_place_and_fix(
    text: str, place: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads the message knows where to look and what to write."""
    monkeypatch.chdir(tmp_path)
    Path("d.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        load_deployment("d.yaml")
    assert any(place in problem and fix in problem for problem in caught.value.problems), caught.value.problems


def test_one_wrong_entry_hides_no_other_problem(write: Write) -> None:
    """All problems at once, also those between keys."""
    text = "nam: x\n" + HEAD + v6e(cuont=1) + v6e(type="v6e-12") + V6E + V6E.replace("16", "32")
    with pytest.raises(InputError) as caught:
        load_deployment(write("d.yaml", text))
    wanted = ["nam", "cuont", "v6e-12", "raise its `count`", "disagrees"]
    assert all(any(word in problem for problem in caught.value.problems) for word in wanted)


def test_tpu_runner_file(tpu_runner: Path) -> None:
    """The file of a tpu-runner user gives the pools that it names, and says what has no meaning here."""
    loaded = load_deployment(tpu_runner / "deployment.yaml")
    pools = [(p.id, p.type, p.count, p.chip_limit, p.runtime) for p in loaded.fleet.pools]
    assert pools[1] == ("spot-v6e64-ue1d", "v6e-64", 2, 128, "v2-alpha-tpuv6e")
    assert loaded.fleet.idle_timeout == 600.0
    assert loaded.fleet.worker_secrets == ("wandb-key",)
    assert [note.split(": ")[1] for note in loaded.notes] == ["controller_timeout"]
    assert any("IN_USE_ADDRESSES" in warning for warning in loaded.warnings)


def test_zones_make_one_pool_each(write: Write) -> None:
    """A list is short for several entries; the codes of the zones can be chosen."""
    text = HEAD + entry(type="v5e-8", zones="[us-west4-a, us-east5-a]", count=1) + "zone_codes: {us-west4-a: west}\n"
    fleet = load_deployment(write("d.yaml", text)).fleet
    assert [pool.slots for pool in fleet.pools] == [("spot-v5e8-west-1",), ("spot-v5e8-ue5a-1",)]
    assert {pool.type for pool in fleet.pools} == {"v5litepod-8"}


def test_counts_may_exceed_the_limit(write: Write) -> None:
    """One quota serves several shapes; the limit binds while jobs run. Every entry of the scope gets it."""
    text = HEAD + v6e(count=9, chip_limit=16) + v6e(type="v6e-4", count=9)
    assert [pool.chip_limit for pool in load_deployment(write("d.yaml", text)).fleet.pools] == [16, 16]


def test_existing_tpu_is_one_slot(write: Write) -> None:
    """It has its own name, no runtime to choose, and nothing is made."""
    text = HEAD + entry(
        type="v4-64", zone="us-central2-b", existing="mine", provisioning_model="on-demand", chip_limit=32
    )
    (pool,) = load_deployment(write("d.yaml", text)).fleet.pools
    assert (pool.slots, pool.count, pool.model, pool.runtime) == (("mine",), 0, Model.ON_DEMAND, "")


def test_odd_runtime_with_permission(write: Write) -> None:
    """The catalogue may be behind: whoever knows better says so."""
    loaded = load_deployment(write("d.yaml", HEAD + v6e(runtime="v2-alpha-tpuv5", allow_runtime="true")))
    assert loaded.fleet.pools[0].runtime == "v2-alpha-tpuv5"
    assert loaded.warnings == ()


def test_unknown_runtime_and_zone_are_warnings(write: Write) -> None:
    """Both may be newer than the catalogue."""
    loaded = load_deployment(write("d.yaml", HEAD + v6e(runtime="v3-tpuv6e", zone="us-east9-a")))
    assert ["v3-tpuv6e is not a known" in loaded.warnings[1], "us-east9-a" in loaded.warnings[0]] == [True, True]


def test_missing_runtime_is_noted(write: Write) -> None:
    """What is filled in is said."""
    assert "v2-alpha-tpuv6e is used" in load_deployment(write("d.yaml", HEAD + V6E)).notes[0]


def test_every_other_key_is_a_setting(write: Write) -> None:
    """Settings are text, whatever the file has."""
    write("setup.sh", "#!/bin/sh\n")
    more = "startup_script: setup.sh\nauto_setup: on\npoll_interval: 30\nbuckets: {gs://a-b: us-east1}\nmode: laptop\n"
    fleet = load_deployment(write("d.yaml", HEAD + V6E + more + "subnets: {us-east1-d: s}\n")).fleet
    wanted = {"startup_script": "#!/bin/sh\n", "auto_setup": "true", "poll_interval": "30.0", "ssh_transport": "iap"}
    assert wanted.items() <= fleet.settings.items()
    assert (fleet.buckets, fleet.mode, fleet.pools[0].subnetwork) == ({"a-b": "us-east1"}, Mode.LAPTOP, "s")
    assert all(isinstance(value, str) for value in fleet.settings.values())


def test_init_templates_are_valid_together(tmp_path: Path) -> None:
    """The first thing that a person gets must work."""
    examples = Path(next(iter(tpufn_cli.__path__))) / "examples" / "init"
    loaded = load_deployment(examples / "deployment.yaml")
    assert loaded.warnings == ()
    assert load_jobs(examples / "job.yaml", fleet=loaded.fleet).warnings == ()


def test_a_wrong_key_is_not_missing_as_well(tmp_path: Path) -> None:
    """Two messages about one key, one of them false, send people the wrong way."""
    path = tmp_path / "deployment.yaml"
    path.write_text("name: lab\nproject: my-project\ntpus: [{type: v4-8, zone: nowhere, count: x}]\n")
    with pytest.raises(InputError) as caught:
        load_deployment(path)
    assert len(caught.value.problems) == 2, caught.value.problems
    assert not [problem for problem in caught.value.problems if "is missing" in problem]
