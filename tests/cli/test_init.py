"""`tpufn init` as a person meets it: in a terminal with questions, and with another tool's configuration."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpufn.spec.deployment import load_deployment

ROOT = Path(__file__).parents[2]
CONFIG = (
    'project = "my-gcp-project"\n'
    '[[slots]]\nname = "spot-v6e-8-ue5-1"\nzone = "us-east5-b"\naccelerator = "v6e-8"\nmode = "spot"\n'
)


def talk(folder: Path, answers: str) -> str:
    """Run it on a terminal of its own, typing the answers ahead."""
    leader, follower = pty.openpty()
    source = os.pathsep.join(str(ROOT / name) for name in ("shared", "cli"))
    env = {**os.environ, "PYTHONPATH": source, "PATH": "/usr/bin:/bin", "COLUMNS": "120", "TERM": "dumb"}
    command = [sys.executable, "-m", "tpufn_cli", "init"]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=env, cwd=folder)
    os.close(follower)
    os.write(leader, answers.encode())
    said = b""
    try:
        while data := os.read(leader, 4096):
            said += data
    except OSError:
        pass  # the terminal is closed at its end
    os.close(leader)
    assert process.wait(30) == 0, said.decode()
    return said.decode()


def test_questions_and_what_they_make(tmp_path: Path) -> None:
    """A wrong answer is asked again with what would be right; the file needs no correction."""
    answers = ["my-project", "lab", "v6e-20", "v6e-8, v5p-16", "", "us-east5-b", "moon-1", "us-east5-a", "2", "cloud"]
    said = talk(tmp_path, "".join(f"{line}\n" for line in answers))
    assert "there is no v6e-20; the nearest sizes are v6e-16 and v6e-32" in said
    assert "moon-1 does not sell v5p-16" in said
    assert "$" in said, "prices are shown"
    fleet = load_deployment(tmp_path / "deployment.yaml").fleet
    assert (fleet.name, fleet.project, fleet.mode) == ("lab", "my-project", "cloud")
    assert {(pool.type, pool.zone, pool.count) for pool in fleet.pools} == {
        ("v6e-8", "us-east5-b", 2),
        ("v5p-16", "us-east5-a", 2),
    }
    assert "8 chips on 1 host" in (tmp_path / "deployment.yaml").read_text()
    assert (tmp_path / "job.yaml").exists()


def test_from_tpu_manager(tpufn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text(CONFIG)
    ran = tpufn("init", "lab", "--from-tpu-manager", "config.toml")
    assert ran.code == 0, ran.err
    fleet = load_deployment(tmp_path / "lab" / "deployment.yaml").fleet
    assert (fleet.name, [name for name, _ in fleet.slots()]) == ("lab", ["spot-v6e-8-ue5-1"])


def test_a_wrong_config_writes_nothing(
    tpufn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text("slots = 3 4")
    ran = tpufn("init", "lab", "--from-tpu-manager", "config.toml")
    assert (ran.code, "not TOML" in ran.err) == (2, True)
    assert not Path("lab").exists()


def test_a_deployment_is_named_after_its_folder(
    tpufn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two projects of one name would share a sandbox, and release each other's TPUs."""
    monkeypatch.chdir(tmp_path)
    ran = tpufn("init", "Speech Models/", "--yes")
    assert "name: speech-models " in (tmp_path / "Speech Models" / "deployment.yaml").read_text()
    assert "  0. cd 'Speech Models'\n" in ran.out
    assert "0. cd" not in tpufn("init", "--yes").out
