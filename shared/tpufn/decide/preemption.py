"""A TPU is being reclaimed, or was: settle its attempt as preempted, or give the TPU up if nothing ran on it."""

from dataclasses import dataclass, replace

from tpufn.decide import attempts
from tpufn.decide.attempts import Trio
from tpufn.decide.decision import NOTHING, Decision, Step
from tpufn.decide.release import released
from tpufn.decide.verdict import LIVE, Sight, Verdict, success
from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.events import PreemptionNotice
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotEvent


@dataclass(frozen=True, kw_only=True)
class PreemptionSnapshot:
    """`trio` and `sight` are None when no attempt holds the slot."""

    now: float
    slot: Slot
    trio: Trio | None = None
    sight: Sight | None = None


def decide(snapshot: PreemptionSnapshot, event: PreemptionNotice, *, policy: Policy) -> Decision:
    """Nothing for another generation: the notice is late. After a notice the TPU is always given up."""
    slot = snapshot.slot
    if slot.generation != event.generation:
        return NOTHING
    cause = f"Spot preemption of {slot.tpu} ({event.found})"
    if snapshot.trio is None or snapshot.sight is None:
        if slot.lease is not None or not slot.allows(SlotEvent.RELEASE):
            return NOTHING
        step = released(slot, cause, now=snapshot.now)
        return Decision(steps=(step,), reason=cause)
    attempt = snapshot.trio.attempt
    if attempt.state not in LIVE:
        return _remembered(attempt, cause)
    done = success(snapshot.sight)
    verdict = (
        replace(done, release=True)
        if done
        else Verdict(outcome=Outcome.PREEMPTED, cause=cause, evidence=(cause,), release=True)
    )
    step = attempts.conclude(snapshot.trio, verdict, snapshot.sight.report, now=snapshot.now, policy=policy)
    return Decision(steps=(step,), reason=step.reason)


def _remembered(attempt: Attempt, cause: str) -> Decision:
    """The verdict is in already; when the attempt closes, its TPU is given up."""
    if attempt.state is AttemptState.CLOSED or attempt.release:
        return NOTHING
    return Decision(steps=(Step(writes=(replace(attempt, release=True),), reason=cause),), reason=cause)
