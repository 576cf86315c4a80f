"""One attempt's next step: launch, go, doubt, verdict, stop, close.

Woken by the attempt's own document, by its workers' messages and by the tick; every wake looks at everything anew.
"""

from dataclasses import dataclass, replace

from tpufn.decide import attempts
from tpufn.decide.attempts import Trio
from tpufn.decide.decision import NOTHING, Decision, Step
from tpufn.decide.release import released
from tpufn.decide.verdict import (
    Doubt,
    Sight,
    Verdict,
    judge_launch,
    judge_running,
    judge_settling,
    lost_tpu,
    revived,
    stopped,
    success,
    unfit_tpu,
)
from tpufn.domain.attempt import AttemptState
from tpufn.domain.policy import Policy
from tpufn.domain.slot import SlotState


@dataclass(frozen=True, kw_only=True)
class ExecuteSnapshot:
    trio: Trio
    sight: Sight


def decide(snapshot: ExecuteSnapshot, *, policy: Policy) -> Decision:
    """At most one step; the next one follows from the event that this commit causes."""
    step = _step(snapshot.trio, snapshot.sight, policy)
    return Decision(steps=(step,), reason=step.reason) if step else NOTHING


def _step(trio: Trio, sight: Sight, policy: Policy) -> Step | None:
    match trio.attempt.state:
        case AttemptState.ASSIGNED:
            return _assigned(trio, sight, policy)
        case AttemptState.LAUNCHING:
            return _launching(trio, sight, policy)
        case AttemptState.RUNNING:
            return _running(trio, sight, policy)
        case AttemptState.SETTLING:
            return _settling(trio, sight, policy)
        case AttemptState.STOPPING:
            return _stopping(trio, sight, policy)
        case AttemptState.CLOSED:
            return None


def _assigned(trio: Trio, sight: Sight, policy: Policy) -> Step:
    verdict = lost_tpu(sight) or unfit_tpu(sight)
    if verdict:
        return _conclude(trio, sight, verdict, policy)
    return attempts.launch(trio, now=sight.now, policy=policy)


def _launching(trio: Trio, sight: Sight, policy: Policy) -> Step | None:
    verdict = judge_launch(sight)
    if isinstance(verdict, Verdict):
        return _conclude(trio, sight, verdict, policy)
    if isinstance(verdict, Doubt):
        return attempts.doubt(trio, replace(verdict, until=sight.now + policy.settle), now=sight.now)
    return attempts.go(trio, now=sight.now) if sight.report.all_prepared else None


def _running(trio: Trio, sight: Sight, policy: Policy) -> Step | None:
    spec = trio.spec
    verdict = success(sight) or judge_running(
        sight, policy=policy, finish_timeout=spec.finish_timeout, max_runtime=spec.max_runtime
    )
    if isinstance(verdict, Verdict):
        return _conclude(trio, sight, verdict, policy)
    if isinstance(verdict, Doubt):
        return attempts.doubt(trio, verdict, now=sight.now)
    if sight.report.zeros and not trio.attempt.first_zero_at:
        return Step(writes=(replace(trio.attempt, first_zero_at=sight.now),), reason="the first worker has finished")
    return None


def _settling(trio: Trio, sight: Sight, policy: Policy) -> Step | None:
    verdict = success(sight) or judge_settling(sight, policy=policy)
    if verdict:
        return _conclude(trio, sight, verdict, policy)
    if trio.attempt.started_at and revived(sight, policy=policy):
        return attempts.revive(trio, now=sight.now)
    return None


def _stopping(trio: Trio, sight: Sight, policy: Policy) -> Step | None:
    if stopped(sight):
        proof = "every worker has closed" if sight.report.all_closed else "the node runs nothing any more"
        return attempts.close(trio, sight, proof, policy=policy)
    slot = trio.slot
    if slot is None or sight.now < trio.attempt.due_at:
        return None
    if slot.state is SlotState.CLEANING:
        return released(slot, f"no stop proof from {trio.attempt.id} in {policy.stop_budget:.0f} s", now=sight.now)
    return attempts.stop_again(trio, now=sight.now, policy=policy) if slot.adopted else None


def _conclude(trio: Trio, sight: Sight, verdict: Verdict, policy: Policy) -> Step:
    return attempts.conclude(trio, verdict, sight.report, now=sight.now, policy=policy)
