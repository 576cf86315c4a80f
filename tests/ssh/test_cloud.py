"""An attempt over SSH with the cloud's own services around it: identity, secrets, messages, the preemption notice."""

import subprocess
import time
from collections import Counter

import pytest

from .google import serve_google
from .sshd import until

CANARY = "canary-91c2e4"


@pytest.fixture
def google():
    with serve_google() as made:
        yield made


@pytest.fixture
def workers(site, google):
    settings = {"linger": 0.2, "cache_reserve": 0, "publish": {**google.identity, "kind": "pubsub", "project": "p"}}
    return site.again(
        project="p",
        settings=settings,
        secret_source={**google.identity, "kind": "secret-manager"},
        metadata={"kind": "server", "url": google.metadata + "/instance/preempted"},
    )


def test_secret_is_known_to_the_command_alone(site, google, workers, tmp_path):
    """Read there by the machine's identity: the order, the bucket, ps, sshd and our causes never hold it."""
    google.secrets["wandb"] = CANARY
    order = site.order('test -n "$TOKEN" && echo ${#TOKEN}; sleep 1000', secrets={"TOKEN": "wandb"})
    assert workers.launch(order) == {}
    site.go(order)
    until(lambda: all(site.log(order, worker) == f"{len(CANARY)}\n".encode() for worker in range(4)))
    assert CANARY not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    found = subprocess.run(["grep", "-rl", CANARY, str(tmp_path)], capture_output=True, text=True, check=False)
    assert all(path.endswith("/env.sh") for path in found.stdout.split())
    assert workers.stop(site.stop_order(order)) == {}
    until(lambda: len(site.results(order, "closed")) == 4)
    assert (
        subprocess.run(["grep", "-rl", CANARY, str(tmp_path)], stdout=subprocess.DEVNULL, check=False).returncode == 1
    )


def test_secret_that_is_refused(site, google, workers):
    """A set-up failure that names the secret's trouble, on every worker."""
    order = site.order(secrets={"TOKEN": "none"})
    workers.launch(order)
    until(lambda: len(site.results(order, "exited")) == 4)
    assert all("a secret cannot be read" in each["reason"] for each in site.results(order, "exited").values())


def test_notice_is_told_within_a_second(site, google, workers):
    """TERM and its grace for the job, the message at once, and the end says that it was preempted."""
    order = site.order("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done", grace=30.0)
    workers.launch(order)
    site.go(order)
    until(lambda: all(site.log(order, worker) == b"up\n" for worker in range(4)))
    begin = time.monotonic()
    google.preempted.set()
    until(lambda: [topic for topic, _ in google.published].count("preemptions") == 4)
    took = time.monotonic() - begin
    body = next(body for topic, body in google.published if topic == "preemptions")
    assert body == {"slot": "s", "generation": 3, "attempt": "job.1", "found": "notice"}
    until(lambda: len(site.results(order, "closed")) == 4)
    assert all(
        (e["preempted"], e["ours"], e["code"]) == (True, True, 0) for e in site.results(order, "exited").values()
    )
    assert all(site.log(order, worker).endswith(b"saved\n") for worker in range(4))  # flushed to the last
    assert took < 3.0  # one second on a machine of its own


def test_messages_follow_the_bucket(site, google, workers):
    """Each result once as an object, and once as a hint."""
    order = site.order()
    workers.launch(order)
    site.go(order)
    until(lambda: len(google.published) == 16)
    told = Counter(body["what"] for _, body in google.published)
    assert told == {"accepted": 4, "prepared": 4, "exited": 4, "closed": 4}
    assert {topic for topic, _ in google.published} == {"worker-events"}
