"""Terraform's table of what wakes what, beside the code's own: both say the same."""

from collections.abc import Mapping, Sequence

import pytest

from tpufn.domain.events import (
    Command,
    Event,
    Notice,
    PreemptionNotice,
    Submission,
    Tick,
    Wake,
    WorkerEvent,
    WorkerReady,
    Written,
)
from tpufn.flows.registry import function, names
from tpufn.wire import TOPICS, written

from . import wakeups
from .deployment import Deployment

MESSAGES: Mapping[str, Sequence[Event]] = {
    "submissions": [Submission(id="s", body={})],
    "commands": [Command(verb="cancel", target="j")],
    "worker-events": [WorkerEvent(attempt="j.1", worker=0, what="exited")],
    "preemptions": [PreemptionNotice(slot="s", generation=1)],
    "worker-ready": [WorkerReady(slot="s", generation=1)],
    "wakes": [Wake(entity=entity) for entity in ("slot:s", "attempt:j.1", "placement:", "job:j", "tpu:z/n")],
    "ticks": [Tick()],
    "notices": [Notice(event="job.succeeded", subject="job:j")],
}


def test_every_topic_is_deployed() -> None:
    """And none besides."""
    assert set(wakeups.topics()) == TOPICS.keys() == MESSAGES.keys()


@pytest.mark.parametrize("topic", MESSAGES)
def test_a_topic_goes_to_those_whom_it_wakes(topic: str) -> None:
    """Neither less, which would lose messages, nor more, which would cost instances."""
    subscribed = {name for name, row in wakeups.functions().items() if topic in row.topics}
    assert subscribed == {name for event in MESSAGES[topic] for name in names(event)}


@pytest.mark.parametrize("document", ["jobs/{job}", "slots/{slot}", "jobs/{job}/attempts/{attempt}"])
def test_a_document_goes_to_those_whom_it_wakes(document: str) -> None:
    """The pattern is one whose paths the code reads."""
    path = document.replace("{job}", "j").replace("{slot}", "s").replace("{attempt}", "1")
    triggered = {name for name, row in wakeups.functions().items() if document in row.documents}
    event = written(path)
    assert isinstance(event, Written)
    assert triggered == set(names(event))


def test_no_other_document_wakes_anybody() -> None:
    """A write to what nobody watches costs nothing."""
    watched = {document for row in wakeups.functions().values() for document in row.documents}
    assert watched == {"jobs/{job}", "slots/{slot}", "jobs/{job}/attempts/{attempt}"}


def test_every_function_is_deployed_under_its_name() -> None:
    """The entry point is the name."""
    assert all(function(name).name == name for name in wakeups.functions())


def test_the_tests_tell_functions_what_terraform_does(deployment: Deployment) -> None:
    """No variable is forgotten here that production has."""
    assert wakeups.environment() <= deployment.environment().keys()
