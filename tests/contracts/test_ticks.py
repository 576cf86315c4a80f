"""The Cloud Scheduler adapter, against a local server of the same interface."""

import pytest

from tpufn.adapters.scheduler import CloudTicks, connect
from tpufn.domain.errors import CloudUnavailable, NotFound
from tpufn.ports import TickState

from .rest_server import error, rest_server

_JOBS = "/v1/projects/p/locations/us-central1/jobs"
_RUN, _NEXT = "2026-11-30T20:00:00Z", "2026-11-30T20:01:00.5Z"


@pytest.fixture
def jobs():
    """The service's jobs by path, as their JSON."""
    ran = {"lastAttemptTime": _RUN, "scheduleTime": _NEXT}
    return {
        f"{_JOBS}/autoscale": {"state": "ENABLED", "status": {}, **ran},
        f"{_JOBS}/idle": {"state": "PAUSED", "status": {"code": 13}, **ran},
        f"{_JOBS}/new": {"state": "ENABLED"},
        f"{_JOBS}/broken": {"state": "UPDATE_FAILED", "status": {"code": 7, "message": "denied"}},
    }


@pytest.fixture
def server(jobs):
    """It refuses what the service refuses: to pause what is not enabled, to resume what is not paused."""

    def answer(method, path):
        name, _, verb = path.partition(":")
        if name not in jobs:
            return error(404, "Job not found.")
        before = {"pause": "ENABLED", "resume": "PAUSED"}.get(verb, jobs[name]["state"])
        if jobs[name]["state"] != before:
            return error(400, f"Job.state must be {before}")
        jobs[name]["state"] = {"pause": "PAUSED", "resume": "ENABLED"}.get(verb, before)
        return 200, {"name": name.removeprefix("/v1/"), **jobs[name]}

    with rest_server(answer) as server:
        yield server


@pytest.fixture
def ticks(server):
    client = connect(server.endpoint)
    yield lambda *names: CloudTicks("p", "us-central1", names, client=lambda: client)
    client.transport.close()


def test_how_ticks_stand(ticks):
    """Why: `status` says when they are paused, late or failing."""
    assert list(ticks("autoscale", "idle", "new", "broken").ticks()) == [
        TickState(name="autoscale", paused=False, last_run=1796068800.0, next_run=1796068860.5),
        TickState(name="idle", paused=True, last_run=1796068800.0, next_run=1796068860.5, failure="code 13"),
        TickState(name="new", paused=False, last_run=0.0, next_run=0.0),
        TickState(name="broken", paused=True, last_run=0.0, next_run=0.0, failure="denied"),
    ]


def test_pause_and_resume_can_be_repeated(ticks, jobs):
    """Why: whoever is in doubt says it again; what stands already is left alone."""
    both = ticks("autoscale", "idle")
    for _ in range(2):
        both.pause()
        assert [jobs[f"{_JOBS}/{name}"]["state"] for name in ("autoscale", "idle")] == ["PAUSED", "PAUSED"]
    for _ in range(2):
        both.resume()
        assert [tick.paused for tick in both.ticks()] == [False, False]


def test_others_are_left_alone(ticks, jobs):
    """Why: a second deployment in the same project has ticks of its own."""
    ticks("autoscale").pause()
    assert jobs[f"{_JOBS}/new"]["state"] == "ENABLED"


def test_a_tick_that_is_not_deployed(ticks):
    """Why: a wrong region or name must not look like a deployment that is paused."""
    with pytest.raises(NotFound, match="the tick projects/p/locations/us-central1/jobs/none does not exist"):
        ticks("none").ticks()


def test_a_forbidden_tick_names_the_role(ticks, server):
    """Why: a missing permission is said with what mends it."""
    server.answer = lambda *_: error(403, "The principal lacks IAM permission")
    with pytest.raises(CloudUnavailable, match=r"roles/cloudscheduler\.admin"):
        ticks("autoscale").pause()
