"""What an effect's result does: it clears the outbox row and makes the transition, in one commit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tpufn.decide.cooldown import cooled, pool_scopes, rearmed
from tpufn.decide.decision import Retry, Step
from tpufn.decide.refusals import classify
from tpufn.decide.release import released, slot_note
from tpufn.domain.attempt import Attempt
from tpufn.domain.capacity import Class, CreateOutcome, Refusal, Scope
from tpufn.domain.effects import Row
from tpufn.domain.fleet import Fleet, Model, Pool
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotEvent, SlotState


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The cloud took the request, or has it already with our labels."""


@dataclass(frozen=True, kw_only=True)
class SaidNo:
    """The cloud refused: its own words."""

    code: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Unanswered:
    """The call ended without an answer: it may or may not have taken effect."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Deleted:
    """After the delete: whether the cloud says not found; else why it is still there."""

    gone: bool
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Reached:
    """A launch, stop or go: the workers that were not reached, with the cause."""

    missing: Mapping[int, str]


Result = Accepted | SaidNo | Unanswered | Deleted | Reached


@dataclass(frozen=True, kw_only=True)
class SlotRecord:
    """What recording a slot's effect needs."""

    now: float
    fleet: Fleet
    slot: Slot
    row: Row
    scopes: Mapping[str, Scope]

    @property
    def pool(self) -> Pool | None:
        return self.fleet.pool(self.slot.pool)

    @property
    def is_current(self) -> bool:
        return self.row.effect.generation == self.slot.generation


def created(record: SlotRecord, result: Result, *, policy: Policy) -> Step | Retry:
    """The outcome of a create. Refused: nothing exists, and the slot is free again at once."""
    slot, now = record.slot, record.now
    if not record.is_current:
        return Step(reason="the slot has moved on")
    if isinstance(result, Unanswered):
        return Retry(after=policy.transient_cooldown, reason=result.text)
    if isinstance(result, SaidNo) and slot.create_settled:
        return Step(reason=f"refused, but the cloud was seen to have it: {result.text}")
    if isinstance(result, SaidNo):
        gone = Refusal(cls=Class.UNKNOWN, scope="", text=result.text)  # the pool has left the file meanwhile
        refusal = classify(result.code, result.text, record.pool) if record.pool else gone
        return refused(record, refusal, policy=policy)
    slot = replace(slot, create_settled=True)
    if slot.state is not SlotState.REQUESTING:
        return Step(writes=(slot,), reason="accepted, and not wanted any more")
    slot = slot.on(SlotEvent.QUEUED, now=now, cause="the cloud accepted the request", deadline=0.0)
    return Step(writes=(slot,), notes=(slot_note(slot, "slot.waiting", slot.cause),), reason=slot.cause)


def refused(record: SlotRecord, refusal: Refusal, *, policy: Policy) -> Step:
    """A create that the cloud refused: cool the scope down, give the slot back."""
    slot, now = replace(record.slot, create_settled=True), record.now
    recorded = outcome(record, refusal.cls.value, refusal.text, how="told")
    step = _cool(record, refusal, policy) + Step(writes=(recorded,))
    if not slot.is_leg:
        return step + Step(writes=(slot,))
    cause = f"{refusal.cls}: {refusal.text}"
    slot = slot.on(SlotEvent.RELEASE, now=now).on(SlotEvent.GONE, now=now, cause=cause, hold="", group="")
    note = slot_note(slot, "slot.refused", cause)
    return step + Step(writes=(slot,), notes=(note,), reason=cause)


def failed(record: SlotRecord, refusal: Refusal, *, policy: Policy) -> Step:
    """A queued resource that failed or was suspended after it had been accepted: a husk that must be deleted."""
    cause = f"{refusal.cls}: {refusal.text}"
    recorded = Step(writes=(outcome(record, refusal.cls.value, refusal.text, how="seen"),))
    return _cool(record, refusal, policy) + recorded + released(record.slot, cause, now=record.now)


def _cool(record: SlotRecord, refusal: Refusal, policy: Policy) -> Step:
    if not refusal.scope:
        return Step()
    scope = record.scopes.get(refusal.scope, Scope(id=refusal.scope))
    cool = cooled(scope, refusal, now=record.now, revision=record.fleet.revision, policy=policy)
    if cool == scope:
        return Step()
    return Step(writes=(cool,), reason=f"{refusal.scope} cools down until {cool.until - record.now:.0f} s from now")


def outcome(record: SlotRecord, result: str, text: str = "", *, how: str) -> CreateOutcome:
    """`how` we know: told by the create's own answer, or seen later. Both surfaces may speak of one failure, and a TPU
    that was adopted is granted a second time: the id has to be a new one, or it could never be recorded."""
    slot = record.slot
    return CreateOutcome(
        id=f"{slot.name}-g{slot.generation}-{result}-{how}-{record.now:.3f}",
        pool=slot.pool,
        slot=slot.name,
        at=record.now,
        result=result,
        waited=round(record.now - slot.requested_at, 3),
        text=text,
    )


def deleted(record: SlotRecord, result: Result, *, policy: Policy) -> Step | Retry:
    """The outcome of a delete: free once *not found* can be believed, else again with backoff."""
    slot, now = record.slot, record.now
    if not record.is_current or slot.state is not SlotState.RELEASING:
        return Step(reason="the slot has moved on")
    pause = min(policy.delete_backoff * 2 ** min(record.row.tries, 8), policy.delete_backoff_max)
    if not isinstance(result, Deleted) or not result.gone:
        return Retry(after=pause, reason=getattr(result, "text", ""))
    if slot.lease is not None:
        return Retry(after=policy.delete_backoff, reason=f"{slot.lease.attempt} is not closed yet")
    if not slot.create_settled and now < slot.requested_at + policy.effect_claim + policy.create_unknown:
        return Retry(after=policy.delete_backoff, reason="the create's outcome is not known yet")
    slot = slot.on(SlotEvent.GONE, now=now, workers=(), create_settled=True, cause="")
    note = slot_note(slot, "slot.free", f"the cloud says not found: {record.slot.cause}")
    return Step(writes=(slot, *_rearmed(record)), notes=(note,), reason="not found")


def _rearmed(record: SlotRecord) -> tuple[Scope, ...]:
    """Full quotas that our own release may have made room in."""
    slot = record.slot
    model = Model(slot.scope.split(":")[1]) if slot.scope else Model.SPOT
    pool = record.pool or Pool(id=slot.pool, type=slot.type, zone=slot.zone, model=model)
    scopes = (record.scopes[id] for id in pool_scopes(pool) if id in record.scopes)
    return tuple(rearmed(s, now=record.now) for s in scopes if s.cls is Class.QUOTA and s.until > record.now)


def launched(attempt: Attempt, result: Result, *, now: float, policy: Policy) -> Step | Retry:
    """The outcome of a launch: done when every worker accepted, else the rest again."""
    if attempt.accepted or attempt.outcome is not None:
        return Step(reason="the attempt has moved on")
    if isinstance(result, Reached) and result.missing:
        causes = "; ".join(f"worker {i}: {cause}" for i, cause in sorted(result.missing.items())[:3])
        return Retry(after=policy.transient_cooldown, reason=causes)
    return Step(writes=(replace(attempt, accepted=True),), reason="every worker accepted the launch")


def told(result: Result, *, policy: Policy) -> Step | Retry:
    """The outcome of a stop or a go: again for the workers that were not reached."""
    if isinstance(result, Reached) and result.missing:
        return Retry(after=policy.transient_cooldown, reason=f"{len(result.missing)} workers not reached")
    return Step(reason="done")
