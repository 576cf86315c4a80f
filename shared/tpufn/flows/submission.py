"""`submit`: what came from the topic is validated like a file, by the same model."""

from tpufn.decide import submit
from tpufn.decide.decision import Decision
from tpufn.domain.errors import InputError
from tpufn.domain.events import Event, Submission
from tpufn.domain.job import Job, JobSpec
from tpufn.domain.policy import Policy
from tpufn.ports import Cut, Ports
from tpufn.runner import Function


def load(ports: Ports, event: Event, policy: Policy) -> submit.SubmitSnapshot | None:
    from tpufn.spec.submission import digest, read_submission  # its models cost an import that only this needs

    assert isinstance(event, Submission)
    with ports.store.cut() as cut:
        fleet = cut.fleet()
        if fleet is None:
            return None
        specs: tuple[JobSpec, ...] = ()
        problems: tuple[str, ...] = ()
        try:
            specs = read_submission(event.body, fleet, submission_id=event.id)
        except InputError as error:
            problems = error.problems
        existing = _existing(cut, (*(s.id for s in specs), submit.rejected_id(event)))
        return submit.SubmitSnapshot(
            now=cut.now, fleet=fleet, digest=digest(event.body), specs=specs, problems=problems, existing=existing
        )


def _existing(cut: Cut, ids: tuple[str, ...]) -> tuple[Job, ...]:
    return tuple(job for id in ids if (job := cut.job(id)) is not None)


def _decide(snapshot: submit.SubmitSnapshot, event: Event, policy: Policy) -> Decision:
    assert isinstance(event, Submission)
    return submit.decide(snapshot, event)


SUBMIT = Function(name="submit", load=load, decide=_decide, entity=lambda event: "")
