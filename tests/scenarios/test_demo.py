"""The demo as a person runs it: real engine, real processes, its own state directory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SEED = "5"
SOURCE = os.pathsep.join(str(Path(__file__).parents[2] / root) for root in ("shared", "cli"))


def start(home: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tpufn_cli", "demo", "--seed", SEED, "--json", "--home", str(home)]
    env = {**os.environ, "PYTHONPATH": SOURCE}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def story(run: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_the_demo_succeeds_after_a_preemption_and_repeats_with_its_seed(tmp_path: Path) -> None:
    """It must show what tpufn is for, leave nothing behind, and be the same story for the same seed."""
    first, second = (story(run) for run in [start(tmp_path / name) for name in ("a", "b")])
    last = first[-1]
    assert (last["event"], last["status"], last["attempts"], last["provisioned"]) == ("finished", "succeeded", 2, 0)
    assert len(last["regions"]) == 1, "the retry stays in its region"
    told = [event["text"] for event in first if event["event"] == "output"]
    assert any(text.startswith("resumed from checkpoint") for text in told)
    assert sequence(first) == sequence(second)


def sequence(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """What happened to which leg and which attempt, in order; the job's own output has times of its own."""
    told = (e for e in events if e["event"] not in ("output", "finished"))
    return [(e["event"], e.get("subject", ""), e.get("attempt", "")) for e in told]
