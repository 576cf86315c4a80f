"""The demo's training script by itself: it trains, keeps checkpoints, and goes on from them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

TRAIN = Path(__file__).parents[2] / "cli" / "tpufn_cli" / "examples" / "demo" / "train.py"


def train(folder: Path, *, worker: int = 0, steps: int = 10, seconds: float = 0.001) -> subprocess.Popen[str]:
    env = {**os.environ, "STEPS": str(steps), "STEP_SECONDS": str(seconds), "JOB_WORKER_ID": str(worker)}
    argv = [sys.executable, str(TRAIN), "--checkpoints", str(folder)]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_it_trains_and_keeps_checkpoints(tmp_path: Path) -> None:
    """The loss falls; worker 0 writes every few steps."""
    out, _ = (run := train(tmp_path, steps=40)).communicate(timeout=30)
    losses = [float(line.rpartition("=")[2]) for line in out.splitlines() if line.startswith("step=")]
    assert run.returncode == 0
    assert losses[0] > 10 * losses[-1]
    assert "checkpoint step=5\n" in out
    assert json.loads((tmp_path / "step-000040.json").read_text())["step"] == 40


def test_it_resumes(tmp_path: Path) -> None:
    """The next attempt does not begin again."""
    train(tmp_path, steps=10).communicate(timeout=30)
    out, _ = train(tmp_path, steps=20).communicate(timeout=30)
    assert out.startswith("resumed from checkpoint step=10\n")
    assert "step=15/20" in out


def test_other_workers_write_nothing(tmp_path: Path) -> None:
    """Four workers that write the same checkpoint would tear it."""
    out, _ = train(tmp_path, worker=2).communicate(timeout=30)
    assert list(tmp_path.iterdir()) == []
    assert out.startswith("joined as worker 2")


def test_sigterm_writes_a_last_checkpoint_and_fails(tmp_path: Path) -> None:
    """A preempted attempt must not look like a success, and loses one step at most."""
    run = train(tmp_path, steps=10_000, seconds=0.01)
    assert run.stdout is not None
    while "checkpoint step=5" not in run.stdout.readline():
        pass
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=30)
    assert run.returncode != 0
    assert "checkpoint step=" in out
    assert "stopped by SIGTERM at step=" in err


def test_a_bucket_address_says_what_to_install() -> None:
    """The example needs only the standard library, which cannot write there."""
    run = subprocess.run(
        [sys.executable, str(TRAIN), "--checkpoints", "gs://b/c"], capture_output=True, text=True, check=False
    )
    assert run.returncode != 0
    assert "gcsfs" in run.stderr
