"""A job's whole life through every real process: with all events, with bad ones, and with none at all."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from tpufn.domain.attempt import Attempt, Outcome
from tpufn.domain.job import JobState

from . import eventarc, pushes
from .deployment import REGIONS, Deployment

STEPS = 40
HINTS = frozenset({"worker-events", "preemptions", "worker-ready", "wakes"})
"""What may get lost for good: the ticks find it. People's messages are kept until they are handled."""


def job_file(deployment: Deployment, id: str, type: str, regions: Collection[str] = REGIONS) -> Path:
    """A file that trains on that type, in any of these regions."""
    buckets = "".join(f"      - gs://{deployment.buckets[region]}\n" for region in regions)
    path = deployment.home / f"{id}.yaml"
    path.write_text(
        f"jobs:\n  - id: {id}\n    tpu: {type}\n    buckets:\n{buckets}    bundle: {Path(__file__).parent / 'job'}\n"
        f'    env: {{STORAGE: "{deployment.cloud.storage}", STEPS: "{STEPS}"}}\n    command: python3 train.py\n'
    )
    return path


def running(deployment: Deployment, id: str) -> Attempt | None:
    """The job's attempt that trains now, some steps along."""
    found = [a for a in deployment.attempts(id) if a.state == "running"]
    return found[0] if found and steps(deployment, found[0]) >= 5 else None


def steps(deployment: Deployment, attempt: Attempt) -> int:
    kept = deployment.get(attempt.bucket, f"jobs/{attempt.job}/checkpoints/step.json")
    return int(json.loads(kept)["step"]) if kept else 0


def preempted(deployment: Deployment, id: str, *, notice: float = 1.0) -> int:
    """Take the TPU away under the running job. Returns the steps that it had made by then, or soon after."""
    deployment.until(lambda: running(deployment, id))
    attempt = running(deployment, id)
    assert attempt
    made = steps(deployment, attempt)
    deployment.cloud.tpus.preempt(attempt.tpu, notice=notice)
    return made


def check_retried(deployment: Deployment, id: str, made: int, *, workers: int) -> None:
    """One preemption, one success in the same region, and each command ran once, the second after the checkpoint."""
    first, second = deployment.attempts(id)
    assert (first.outcome, second.outcome) == (Outcome.PREEMPTED, Outcome.SUCCEEDED), deployment.describe()
    assert (first.region, first.bucket) == (second.region, second.bucket)
    logs = b"".join(piece.data for piece in deployment.client().logs(id)).decode()
    begun = re.findall(r"attempt (\d) worker (\d) begins after step (\d+)", logs)
    assert Counter(number for number, _, _ in begun) == {"1": workers, "2": workers}
    assert {int(step) for number, _, step in begun if number == "1"} == {0}
    assert min(int(step) for number, _, step in begun if number == "2") >= made
    assert steps(deployment, second) == STEPS
    check_at_rest(deployment)


def check_at_rest(deployment: Deployment) -> None:
    """No lease is left, and every TPU of the deployment in the cloud is one that a slot knows."""
    deployment.until(lambda: not any(slot.lease for slot in deployment.slots().values()))
    deployment.until(
        lambda: set(deployment.tpus()) == {s.tpu for s in deployment.slots().values() if s.holds_chips or s.is_leg}
    )


def test_race_preemption_and_retry(deployment: Deployment) -> None:
    """`tpufn submit` to succeeded: three legs in three zones, one wins, the winner is preempted, the job goes on."""
    ran = deployment.tpufn("submit", str(job_file(deployment, "life", "v5p-16")))
    assert (ran.returncode, ran.stdout) == (0, "life\n"), ran.stderr
    made = preempted(deployment, "life")
    deployment.until_ended("life")
    assert deployment.job("life").state is JobState.SUCCEEDED, deployment.describe()
    requested = {n.slot for n in deployment.notes() if n.event == "slot.requesting" and "v5p16" in n.slot}
    assert requested == {"spot-v5p16-uc1a-1", "spot-v5p16-ue5a-1", "spot-v5p16-ew4b-1"}
    check_retried(deployment, "life", made, workers=2)
    shown = deployment.tpufn("job", "life", "--json")
    assert [a["outcome"] for a in json.loads(shown.stdout)["attempts"]] == ["preempted", "succeeded"], shown.stderr


@pytest.mark.parametrize("seed", [1])
def test_events_doubled_reordered_delayed_and_lost(deployment: Deployment, seed: int) -> None:
    """The same end, whatever becomes of the events."""
    deployment.cloud.eventarc.plan = eventarc.Chaos(seed, drop=0.3, duplicate=0.3, late=0.5, window=1.0)
    deployment.pushes.plan = pushes.Chaos(seed, loses=HINTS, drop=0.3, duplicate=0.3, late=0.5, window=1.0)
    deployment.client().submit(str(job_file(deployment, "chaos", "v5p-8")))
    made = preempted(deployment, "chaos", notice=0.0)
    deployment.until_ended("chaos", seconds=120)
    check_retried(deployment, "chaos", made, workers=1)


def test_ticks_alone(deployment: Deployment) -> None:
    """No trigger fires, no worker's message comes: ticks, and the wakes that they send, finish the job."""
    deployment.cloud.eventarc.plan = lambda event: ()
    deployment.pushes.plan = only({"ticks", "wakes", "submissions"})
    deployment.client().submit(str(job_file(deployment, "ticks", "v6e-8", REGIONS[1:])))
    made = preempted(deployment, "ticks", notice=0.0)
    deployment.until_ended("ticks", seconds=120)
    check_retried(deployment, "ticks", made, workers=1)


def only(topics: Collection[str]) -> Callable[[pushes.Push], tuple[float, ...]]:
    return lambda push: (0.0,) if push.topic in topics else ()
