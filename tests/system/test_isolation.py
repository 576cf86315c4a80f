"""A second deployment in the same project: neither sees documents, messages or TPUs of the other."""

import json
from pathlib import Path

from tpufn.domain.job import JobState

from .deployment import Cloud, Deployment
from .test_messages import job, publish

FLEET = """
idle_timeout_seconds: 60
tpus:
  - {type: v6e-1, zone: us-east5-b, count: 1}
"""
SOME = dict.fromkeys(("submit", "capacity_race", "assign", "execute", "autoscale"), 1)


def test_two_deployments_in_a_project(deployment: Deployment, cloud: Cloud, tmp_path: Path) -> None:
    """The same job's id in both. Each lists the whole zone, and takes only its own TPUs for its own."""
    other = Deployment(cloud, tmp_path, FLEET, SOME)
    with other.running():
        body = {"v": 1, "submission_id": "same", "jobs": [job(other, id="same", tpu="v6e-1")]}
        publish(other, "submissions", json.dumps(body).encode())
        other.until_ended("same")
        assert other.job("same").state is JobState.SUCCEEDED, other.describe()
        assert deployment.job("same") is None
        assert [each.id for each in other.client().jobs()] == ["same"]
        mine, theirs = set(deployment.tpus()), set(other.tpus())
        for each in (deployment, other):
            full_ticks = len(ticked(each))
            each.bus.publish("ticks", {"full": True})
            each.until(lambda each=each, before=full_ticks: len(ticked(each)) > before + 2)
        assert set(other.tpus()) == theirs != set()
        given_up = {str(note.data.get("tpu")) for note in deployment.notes() if note.event == "slot.releasing"}
        assert mine - set(deployment.tpus()) <= given_up, "what is gone was given up by its own"
        assert not mine & theirs
        assert not [p for p in deployment.pushes.seen if other.name.encode() in p.data]
    for tpu in theirs:
        cloud.tpus.preempt(tpu, notice=0.0)


def ticked(deployment: Deployment) -> list[dict[str, str]]:
    """The ticks that `autoscale` has handled."""
    return [line for line in deployment.logged("autoscale") if line.get("event") == "Tick"]
