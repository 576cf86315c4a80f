"""`submit`: what came from the topic is validated like a file, by the same model.

A large submission is an object that the message names: `{"v": 1, "submission_id": ..., "specs": "gs://BUCKET/KEY"}`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tpufn.decide import submit
from tpufn.decide.decision import Decision
from tpufn.domain.errors import InputError, NotFound
from tpufn.domain.events import Event, Submission
from tpufn.domain.job import Job, JobSpec
from tpufn.domain.policy import Policy
from tpufn.ports import Cut, Ports
from tpufn.runner import Function


def load(ports: Ports, event: Event, policy: Policy) -> submit.SubmitSnapshot | None:
    from tpufn.spec.submission import digest, read_submission  # its models cost an import that only this needs

    assert isinstance(event, Submission)
    body, problem = _whole(ports, event.body)
    with ports.store.cut() as cut:
        fleet = cut.fleet()
        if fleet is None:
            return None
        specs: tuple[JobSpec, ...] = ()
        problems: tuple[str, ...] = (problem,) if problem else ()
        try:
            specs = () if problem else read_submission(body, fleet, submission_id=event.id)
        except InputError as error:
            problems = error.problems
        content = digest(body)
        existing = _existing(cut, (*(s.id for s in specs), submit.rejected_id(event.id, content)))
        return submit.SubmitSnapshot(
            now=cut.now, fleet=fleet, digest=content, specs=specs, problems=problems, existing=existing
        )


def _whole(ports: Ports, body: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """(the submission with its jobs, what is wrong with the object that it names)."""
    uri = body.get("specs")
    if uri is None:
        return body, ""
    bucket, _, key = str(uri).removeprefix("gs://").partition("/")
    if not key or not str(uri).startswith("gs://"):
        return body, f"submission.specs: must be the gs:// address of an object, not {uri!r}"
    try:
        named = msgspec.json.decode(ports.blobs.get(bucket, key), type=dict[str, Any])
    except NotFound:
        return body, f"submission.specs: there is no {uri}"
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return body, f"submission.specs: {uri} is no JSON object: {error}"
    return {**named, **{name: value for name, value in body.items() if name != "specs"}}, ""


def _existing(cut: Cut, ids: tuple[str, ...]) -> tuple[Job, ...]:
    return tuple(job for id in ids if (job := cut.job(id)) is not None)


def _decide(snapshot: submit.SubmitSnapshot, event: Event, policy: Policy) -> Decision:
    assert isinstance(event, Submission)
    return submit.decide(snapshot, event)


SUBMIT = Function(name="submit", load=load, decide=_decide, entity=lambda event: "")
