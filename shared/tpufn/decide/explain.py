"""`why`: what a job waits for, in plain words and per candidate pool; for an ended one, the evidence of its verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpufn.decide.cooldown import blocking
from tpufn.decide.request import chips_left
from tpufn.domain.attempt import Attempt
from tpufn.domain.capacity import Class, CreateOutcome, Scope
from tpufn.domain.fleet import Fleet, Pool, accepting_pools, slot_key
from tpufn.domain.job import Job, JobState
from tpufn.domain.slot import Slot, SlotState
from tpufn.domain.views import Explanation, PoolOutlook


@dataclass(frozen=True, kw_only=True)
class WhySnapshot:
    """`outcomes`: per pool, newest first. `ahead`: pending jobs of better rank that want one of the same pools."""

    now: float
    fleet: Fleet
    job: Job
    slots: Sequence[Slot]
    scopes: Mapping[str, Scope]
    outcomes: Mapping[str, Sequence[CreateOutcome]]
    attempts: Sequence[Attempt]
    ahead: int


def explain(snapshot: WhySnapshot) -> Explanation:
    job = snapshot.job
    pools = accepting_pools(snapshot.fleet, job.accepts) if job.wants_capacity else ()
    return Explanation(
        job=job.id,
        state=job.state.value,
        headline=_headline(snapshot, pools),
        now=snapshot.now,
        pools=tuple(outlook(pool, snapshot) for pool in pools),
        ahead=snapshot.ahead if job.wants_capacity else 0,
        evidence=_evidence(snapshot),
    )


def _headline(snapshot: WhySnapshot, pools: Sequence[Pool]) -> str:
    job, now = snapshot.job, snapshot.now
    match job.state:
        case JobState.PENDING if not pools:
            return job.unschedulable or "nothing in the fleet can run it: no pool offers its type in its regions"
        case JobState.PENDING if stuck := _impossible_everywhere(pools, snapshot):
            return f"unschedulable: {stuck}"
        case JobState.PENDING:
            ahead = snapshot.ahead
            behind = f", behind {ahead} job{'s' if ahead > 1 else ''}" if ahead else ""
            pinned = f" in {job.region}, where its checkpoints are" if job.region else ""
            return f"waits for a TPU{pinned} since {now - job.since:.0f} s{behind}"
        case JobState.WAITING if job.due_at > now:
            return f"waits {job.due_at - now:.0f} s before its next attempt: {job.cause}"
        case JobState.WAITING:
            return job.cause or "waits for proof that its last attempt has stopped"
        case JobState.ACTIVE:
            return f"runs as attempt {job.attempt} on {job.slot}"
        case JobState.CANCELLING:
            return f"is being cancelled: waits for proof that nothing of it runs on {job.slot}"
        case _:
            return f"{job.state}: {job.cause}"


def _impossible_everywhere(pools: Sequence[Pool], snapshot: WhySnapshot) -> str:
    """Why no pool that accepts the job can work until something changes; "" when one may."""
    revision = snapshot.fleet.revision
    blocks = [blocking(pool, snapshot.scopes, now=snapshot.now, revision=revision) for pool in pools]
    causes = [block.cause for block in blocks if block is not None and block.cls is Class.STRUCTURAL]
    return "; ".join(dict.fromkeys(causes)) if len(causes) == len(pools) else ""


def outlook(pool: Pool, snapshot: WhySnapshot) -> PoolOutlook:
    """What one pool has for the job."""
    named = [name for name in pool.slots if slot_key(name) in snapshot.job.accepts]
    mine = [s for s in snapshot.slots if s.pool == pool.id and (not named or s.name in named)]
    states = [s.state for s in mine if not s.hold]
    last = next(iter(snapshot.outcomes.get(pool.id, ())), None)
    block = blocking(pool, snapshot.scopes, now=snapshot.now, revision=snapshot.fleet.revision)
    left = chips_left(snapshot.fleet, snapshot.slots)[pool.scope]
    return PoolOutlook(
        pool=pool.id,
        type=pool.type,
        zone=pool.zone,
        ceiling=len(named or pool.slots),
        free=states.count(SlotState.FREE),
        coming=sum(s.is_leg and not s.hold for s in mine),
        idle=states.count(SlotState.IDLE),
        busy=states.count(SlotState.BUSY) + states.count(SlotState.CLEANING),
        held=sum(bool(s.hold) for s in mine),
        chips_used=int(pool.chip_limit - left) if pool.chip_limit else 0,
        chip_limit=pool.chip_limit,
        last_outcome=last.result if last else "",
        last_text=last.text if last else "",
        last_at=last.at if last else 0.0,
        scope=block.id if block else "",
        next_try_at=block.until if block else 0.0,
        verdict=_verdict(pool, mine, block, left, snapshot.now),
    )


def _verdict(pool: Pool, mine: Sequence[Slot], block: Scope | None, left: float, now: float) -> str:
    legs = [s for s in mine if s.is_leg and not s.hold]
    if any(s.state is SlotState.IDLE and not s.hold for s in mine):
        return "a TPU is idle: the job starts on it next, or a better-ranked one does"
    if legs:
        first = max(legs, key=lambda s: (list(SlotState).index(s.state), -s.requested_at))
        return f"{first.name} is {first.state} since {now - first.since:.0f} s"
    if block is not None and block.cls is Class.STRUCTURAL:
        again = f"next try in {_span(block.until - now)}, or once `tpufn fleet apply` has run"
        return f"cannot work until the deployment or the project changes: {block.cause}; {again}"
    if block is not None:
        return f"{block.cls}: {block.cause}; next try in {_span(block.until - now)}"
    if not any(s.state is SlotState.FREE and not s.hold for s in mine):
        return f"every slot is taken{_by(mine)}"
    if left < pool.chips:
        return f"the chip limit of {pool.chip_limit} leaves {left:.0f} chips, it needs {pool.chips}"
    return "is asked next"


def _by(slots: Sequence[Slot]) -> str:
    """The first few that have the slots: jobs, people."""
    holders = [s.lease.attempt.rpartition(".")[0] if s.lease else s.hold for s in slots]
    named = list(dict.fromkeys(filter(None, holders)))
    return f": {', '.join(named[:3])}{', ...' if len(named) > 3 else ''}" if named else ""


def _span(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _evidence(snapshot: WhySnapshot) -> tuple[str, ...]:
    """The last attempt's verdict, with what it rested on."""
    if not snapshot.attempts:
        return (snapshot.job.cause,) if snapshot.job.is_terminal else ()
    last = snapshot.attempts[-1]
    if last.outcome is None:
        return ()
    head = f"attempt {last.number} on {last.slot} in {last.zone}: {last.outcome}: {last.cause}"
    tail = (f"last lines of worker {last.failed_worker}:\n{last.tail.rstrip()}",) if last.tail else ()
    return tuple(dict.fromkeys((head, *last.evidence, *tail)))
