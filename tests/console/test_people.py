"""People's slots end to end: the real commands against a real sandbox engine."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FLEET = """\
name: people
project: tpufn-people
idle_timeout_seconds: 1
tpus:
  - {type: v4-8, zone: us-central2-b, count: 2, runtime: tpu-ubuntu2204-base}
  - {type: v6e-1, zone: us-east5-a, count: 2, runtime: v2-alpha-tpuv6e}
"""
ONE, TWO = "spot-v48-uc2b-1", "spot-v48-uc2b-2"
LEFT, RIGHT = "spot-v6e1-ue5a-1", "spot-v6e1-ue5a-2"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def tpufn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The console script on one sandbox whose engine runs in this process."""
    from tpufn.client import open_engine

    folder = tmp_path_factory.mktemp("people")
    (folder / "deployment.yaml").write_text(FLEET)
    home, file = str(folder / "home"), str(folder / "deployment.yaml")
    engine = open_engine(home=home, deployment=file, sandbox=True, speed=20.0)
    engine.start()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'shared'}{os.pathsep}{ROOT / 'cli'}",
        "TPUFN_CONFIG": os.devnull,
        "USER": "ada",
    }

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tpufn_cli", "--home", home, "-d", file, "--sandbox", *argv]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL, check=False, timeout=120
        )

    yield run
    engine.stop()


def slots(run: Run) -> dict[str, dict[str, Any]]:
    return {slot["name"]: slot for slot in json.loads(run("slots", "--json").stdout)}


def until(run: Run, condition: Callable[[dict[str, dict[str, Any]]], Any]) -> dict[str, dict[str, Any]]:
    deadline = time.monotonic() + 90
    while not condition(found := slots(run)):
        assert time.monotonic() < deadline, found
    return found


def test_a_queued_slot_is_held_until_it_is_given_back(tpufn: Run) -> None:
    """Asked for, ready, set up; not torn down as idle while it is held; torn down soon after it was given back."""
    assert tpufn("slots", "queue", ONE).stdout == f"{ONE}: asked for, and held for you\n"
    ready = until(tpufn, lambda found: found[ONE]["state"] == "idle")
    assert ready[ONE]["hold"] == "ada"
    done = tpufn("slots", "setup", ONE)
    assert done.returncode == 0, done.stderr
    assert f"{ONE}: set up on 1 worker; output in " in done.stdout
    assert f"{ONE} w0 | a simulated worker" in done.stderr
    assert tpufn("slots", "queue", ONE).returncode == 4
    since = ready[ONE]["since"]
    until(tpufn, lambda found: time.time() > since + 3)  # three idle timeouts
    assert slots(tpufn)[ONE]["state"] == "idle"
    assert tpufn("slots", "release", ONE).returncode == 0
    until(tpufn, lambda found: found[ONE]["state"] == "free")


def test_a_race_is_won_at_the_first_grant(tpufn: Run) -> None:
    """One is kept and held, the other is free again; deleting gives the winner up."""
    assert "asked for 2 at once" in tpufn("race", LEFT, RIGHT).stdout
    found = until(tpufn, lambda found: sorted(found[n]["state"] for n in (LEFT, RIGHT)) == ["free", "idle"])
    won = LEFT if found[LEFT]["state"] == "idle" else RIGHT
    assert found[won]["hold"] == "ada"
    assert tpufn("slots", "delete", won).stdout.startswith(f"{won}: deleted")
    until(tpufn, lambda found: found[won]["state"] == "free")


def test_holding_a_free_slot_keeps_it_from_the_jobs(tpufn: Run) -> None:
    """And a second person cannot queue what the first one holds."""
    assert tpufn("slots", "hold", TWO).returncode == 0
    until(tpufn, lambda found: found[TWO]["hold"] == "ada")
    assert tpufn("slots", "release", TWO).returncode == 0
    until(tpufn, lambda found: not found[TWO]["hold"])
    assert tpufn("slots", "hold", "nope").returncode == 3
