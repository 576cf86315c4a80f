"""The verdict on an attempt: what its workers' reports, its heartbeats and the cloud say together.

Order of belief. All zeros, none after a TERM of ours, is success whatever the cloud says. A preemption that the worker
or the cloud reports comes next, then silence, then what the output's end looks like, and the exit code last: when one
worker vanishes, the others die of it with exit codes that look like the application's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.cloud import NodeState, QueuedResourceState, Tpu
from tpufn.domain.orders import Exited, Phase, WorkerReport
from tpufn.domain.policy import Policy

SIGTERM_EXIT = 143
_LATER = 3.0
"""Seconds after a failure from which on a heartbeat says that its host was not lost with it."""


@dataclass(frozen=True, kw_only=True)
class Sight:
    """All that a verdict looks at. `tpu` is None when the cloud says *not found*; `blind` when it did not answer."""

    now: float
    attempt: Attempt
    report: WorkerReport
    tpu: Tpu | None
    blind: bool = False
    alive: frozenset[int] = frozenset()  # silent workers on which a probe found the attempt alive all the same
    answering: frozenset[int] = frozenset()  # hosts that answered a late probe, and have an end or life to show


@dataclass(frozen=True, kw_only=True)
class Verdict:
    outcome: Outcome
    cause: str
    evidence: tuple[str, ...] = ()
    release: bool = False
    failed_worker: int | None = None


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """Something is wrong; wait for evidence until `until`."""

    until: float
    cause: str


def success(sight: Sight) -> Verdict | None:
    """Zeros from every worker."""
    if not sight.report.all_zero:
        return None
    count = sight.report.count
    return Verdict(outcome=Outcome.SUCCEEDED, cause=f"exit 0 from {workers(count)}", evidence=(_codes(sight.report),))


def lost_tpu(sight: Sight) -> Verdict | None:
    """The TPU was reclaimed or is gone: the worker's notice, or the cloud's word."""
    noticed = [i for i, e in sorted(sight.report.exited.items()) if e.preempted]
    if noticed:
        return _reclaimed(f"worker {noticed[0]} got the preemption notice")
    if sight.blind:
        return None
    if sight.tpu is None:
        return _gone("the cloud says not found")
    request, node = sight.tpu.request, sight.tpu.node
    if node is NodeState.PREEMPTED or request in (QueuedResourceState.SUSPENDING, QueuedResourceState.SUSPENDED):
        return _reclaimed(f"the cloud says node {node or 'gone'}, queued resource {request or 'gone'}")
    if sight.tpu.is_dead:
        return _gone(f"the cloud says node {node or 'gone'}, queued resource {request or 'gone'}")
    return None


def unfit_tpu(sight: Sight) -> Verdict | None:
    """Launch only on READY and HEALTHY: idle TPUs may have fallen ill since they were last looked at."""
    if sight.blind or sight.tpu is None or sight.tpu.is_ready:
        return None
    return _unfit(f"node {sight.tpu.node or 'none'}, health {sight.tpu.health or 'unknown'}", None)


def judge_launch(sight: Sight) -> Verdict | Doubt | None:
    """Before `go`: nothing of the user's has run yet."""
    lost = lost_tpu(sight)
    if lost:
        return lost
    failed = first_failure(sight.report)
    if failed and failed.phase is Phase.DEVICE:
        return _unfit(f"worker {failed.worker}: {failed.reason or 'the device is busy'}", failed.worker)
    if failed:
        return Doubt(until=sight.now, cause=f"set-up failed on worker {failed.worker}: {failed.reason}")
    if sight.now >= sight.attempt.due_at and not sight.report.all_prepared:
        missing = sorted(set(range(sight.report.count)) - sight.report.prepared)
        return _unfit(f"workers {_list(missing)} were not prepared within the launch budget", None)
    return None


def judge_running(
    sight: Sight, *, policy: Policy, finish_timeout: float, max_runtime: float | None
) -> Verdict | Doubt | None:
    """While the command runs."""
    attempt, now = sight.attempt, sight.now
    if any(e.preempted for e in sight.report.exited.values()):
        return lost_tpu(sight)
    failed = first_failure(sight.report)
    if failed:
        return Doubt(until=now + policy.settle, cause=describe(failed))
    lost = lost_tpu(sight)
    if lost:
        return lost
    silent = silent_workers(sight, policy=policy)
    if silent:
        return Doubt(until=now + policy.settle, cause=f"no heartbeat from workers {_list(silent)}")
    if max_runtime is not None and now >= attempt.started_at + max_runtime:
        return Verdict(outcome=Outcome.TIMED_OUT, cause=f"ran longer than max_runtime ({max_runtime:g} s)")
    if attempt.first_zero_at and now >= attempt.first_zero_at + finish_timeout:
        late = sorted(set(range(sight.report.count)) - set(sight.report.exited))
        cause = f"workers {_list(late)} still ran {finish_timeout:g} s after the first one had finished"
        return Verdict(outcome=Outcome.TIMED_OUT, cause=cause)
    return None


def judge_settling(sight: Sight, *, policy: Policy) -> Verdict | None:
    """In doubt: the evidence, the conclusive first. None while it is worth waiting for more."""
    lost = lost_tpu(sight)
    if lost:
        return lost
    failed = first_failure(sight.report)
    silent = silent_workers(sight, policy=policy)
    due = sight.now >= sight.attempt.due_at
    if silent and due:
        return _gone(f"workers {_list(silent)} went silent")
    if failed is None:
        return None
    busy = busy_device(sight.report)
    if busy is not None:
        return _unfit(f"worker {busy.worker}: {busy.reason or 'the device was busy'}", busy.worker)
    answered = _everybody_answered(sight)
    if not (due or answered):
        return None
    if failed.phase is not Phase.COMMAND and not answered and not _is_well(sight):
        return _gone(f"{describe(failed)}, and the TPU was not known to be well afterwards")
    return _from_exit(failed, sight)


def revived(sight: Sight, *, policy: Policy) -> bool:
    """Whether the doubt was a false alarm: nobody failed and every worker is heard again."""
    return first_failure(sight.report) is None and not silent_workers(sight, policy=policy)


def stopped(sight: Sight) -> bool:
    """The stop proof: every agent wrote `closed` and found nothing left, or the node cannot run anything any more."""
    if sight.report.all_closed and all(c.clean for c in sight.report.closed.values()):
        return True
    return not sight.blind and (sight.tpu is None or sight.tpu.proves_stop)


def first_failure(report: WorkerReport) -> Exited | None:
    """The failure to blame: the earliest one that does not look like the death of a sibling."""
    failures = [e for e in report.exited.values() if (e.code != 0 or e.phase is not Phase.COMMAND) and not e.ours]
    return min(failures, key=lambda e: (e.signature == "sibling-death", e.at, e.worker), default=None)


def busy_device(report: WorkerReport) -> Exited | None:
    """The earliest end, over all workers, that says that another process held the device."""
    busy = [
        e for e in report.exited.values() if not e.ours and (e.phase is Phase.DEVICE or e.signature == "device-busy")
    ]
    return min(busy, key=lambda e: (e.at, e.worker), default=None)


def silent_workers(sight: Sight, *, policy: Policy) -> tuple[int, ...]:
    """Workers without an end whose heartbeat is overdue. Before the first beat, `go` counts as one."""
    report, limit = sight.report, policy.heartbeat * policy.missed_heartbeats
    start = max(sight.attempt.started_at, sight.attempt.created_at)
    beats: Mapping[int, float] = report.heartbeats
    waiting = (i for i in range(report.count) if i not in report.exited and i not in sight.alive)
    return tuple(i for i in waiting if sight.now - max(beats.get(i, 0.0), start) > limit)


def describe(failed: Exited) -> str:
    """One worker's end in words."""
    what = "the command" if failed.phase is Phase.COMMAND else f"its {failed.phase.value} step"
    code = "without an exit code" if failed.code is None else f"with exit code {failed.code}"
    return f"worker {failed.worker}: {what} ended {code}" + (f" ({failed.reason})" if failed.reason else "")


def workers(count: int) -> str:
    return "the worker" if count == 1 else f"all {count} workers"


def _from_exit(failed: Exited, sight: Sight) -> Verdict:
    evidence = (describe(failed), _codes(sight.report))
    if failed.signature == "sibling-death":
        cause = "every failed worker died of losing another one"
        return Verdict(outcome=Outcome.INFRASTRUCTURE, cause=cause, evidence=evidence, release=True)
    if failed.code == SIGTERM_EXIT:
        cause = f"worker {failed.worker} was terminated from outside"
        return Verdict(outcome=Outcome.INFRASTRUCTURE, cause=cause, evidence=evidence, release=True)
    return Verdict(outcome=Outcome.FAILED, cause=describe(failed), evidence=evidence, failed_worker=failed.worker)


def _everybody_answered(sight: Sight) -> bool:
    """Whether nobody was lost: the cloud says the TPU is well, and every host gave a sign of life after the failure.

    A reclaimed TPU says READY for up to a minute, so an end that was written is no such sign: a later heartbeat is, or
    the answer to a later probe.
    """
    failed = first_failure(sight.report)
    if failed is None or not _is_well(sight):
        return False
    beats, running = sight.report.heartbeats, set(range(sight.report.count)) - set(sight.report.exited)
    if not running:
        return len(sight.answering) == sight.report.count
    return all(i in sight.answering or beats.get(i, 0.0) > failed.at + _LATER for i in running)


def _is_well(sight: Sight) -> bool:
    return not sight.blind and sight.tpu is not None and sight.tpu.is_ready


def _reclaimed(cause: str) -> Verdict:
    return Verdict(outcome=Outcome.PREEMPTED, cause=cause, evidence=(cause,), release=True)


def _gone(cause: str) -> Verdict:
    return Verdict(outcome=Outcome.INFRASTRUCTURE, cause=cause, evidence=(cause,), release=True)


def _unfit(cause: str, worker: int | None) -> Verdict:
    return Verdict(outcome=Outcome.UNFIT, cause=cause, evidence=(cause,), release=True, failed_worker=worker)


def _codes(report: WorkerReport) -> str:
    codes = {i: e.code for i, e in sorted(report.exited.items())}
    return "exit codes: " + ", ".join(f"worker {i}: {'none' if c is None else c}" for i, c in codes.items())


def _list(numbers: "tuple[int, ...] | list[int]") -> str:
    return ", ".join(map(str, numbers))


LIVE = frozenset({AttemptState.ASSIGNED, AttemptState.LAUNCHING, AttemptState.RUNNING, AttemptState.SETTLING})
"""The states in which a verdict is still open."""
