"""Capacity for people: hold, queue, race, release and delete single slots, under the same ceilings as the jobs.

A held slot is never assigned to a job and never torn down as idle. A race of people's slots is won at the first grant:
the sweep cancels the others then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tpufn.decide.attempts import Trio
from tpufn.decide.decision import Step
from tpufn.decide.release import released, slot_note
from tpufn.decide.request import chips_left, guard, request
from tpufn.domain.capacity import Scope
from tpufn.domain.events import Command
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobSpec
from tpufn.domain.orders import WorkerReport
from tpufn.domain.policy import Policy
from tpufn.domain.slot import LEGS, Slot, SlotEvent, SlotState

_WON = frozenset({SlotState.PROVISIONING, SlotState.BOOTING, SlotState.IDLE, SlotState.BUSY})


@dataclass(frozen=True, kw_only=True)
class ControlSnapshot:
    """What the command's target is now. `trio` is the unclosed attempt of the job, or on the slot."""

    now: float
    fleet: Fleet
    job: Job | None = None
    spec: JobSpec | None = None
    slot: Slot | None = None
    trio: Trio | None = None
    report: WorkerReport | None = None
    successor: Job | None = None  # the job that a retry would make, if it is there already
    slots: Sequence[Slot] = ()  # with `scopes`: only where capacity is asked for
    scopes: Mapping[str, Scope] = field(default_factory=dict)


Verb = Callable[[ControlSnapshot, Command, Policy], Step | None]


def _hold(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    slot = snapshot.slot
    if slot is None or slot.hold or not as_seen(slot, command):
        return None
    slot = replace(slot, hold=_who(command))
    note = slot_note(slot, "slot.held", f"held by {slot.hold}")
    return Step(writes=(slot,), notes=(note,), reason=note.reason)


def _release(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    slot = snapshot.slot
    if slot is None or not slot.hold or not as_seen(slot, command):
        return None
    note = slot_note(slot, "slot.released", f"{slot.hold} gave it back to the jobs")
    idle_since = snapshot.now if slot.idle_since else 0.0
    after = replace(slot, hold="", group="", idle_since=idle_since)
    return Step(writes=(after,), notes=(note,), reason=note.reason)


def _delete(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    slot = snapshot.slot
    if slot is None or not slot.allows(SlotEvent.RELEASE) or slot.lease is not None or not as_seen(slot, command):
        return None
    return released(slot, f"deleted by {_who(command)}", now=snapshot.now)


def _queue(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    """Ask for one slot's TPU, for a person."""
    return _ask(snapshot, [command.target], command, policy, group="")


def _race(snapshot: ControlSnapshot, command: Command, policy: Policy) -> Step | None:
    """Ask for several slots at once: the first that is granted is kept."""
    return _ask(snapshot, [str(name) for name in command.args.get("slots", ())], command, policy, group=command.id)


def _ask(
    snapshot: ControlSnapshot, names: Sequence[str], command: Command, policy: Policy, *, group: str
) -> Step | None:
    """Requests for the free ones of these slots, as far as their scopes have chips left; one commit."""
    by_name, step = {s.name: s for s in snapshot.slots}, Step()
    left = chips_left(snapshot.fleet, snapshot.slots)
    scopes = set[str]()
    for name in dict.fromkeys(names):
        slot = by_name.get(name)
        pool = snapshot.fleet.pool(slot.pool) if slot else None
        if slot is None or pool is None or not _is_askable(slot, command) or left[pool.scope] < pool.chips:
            continue
        left[pool.scope] -= pool.chips
        scopes.add(pool.scope)
        reason, who = f"for {_who(command)}", _who(command)
        deployment, now = snapshot.fleet.name, snapshot.now
        step += request(slot, pool, reason, deployment=deployment, now=now, policy=policy, hold=who, group=group)
    for scope in sorted(scopes):
        step += guard(scope, snapshot.scopes)
    return step if scopes else None


def _is_askable(slot: Slot, command: Command) -> bool:
    """A free place that nobody else holds, of a TPU that is ours to make."""
    return slot.state is SlotState.FREE and not slot.adopted and slot.hold in ("", _who(command))


def losers(slots: Sequence[Slot], *, now: float) -> list[Step]:
    """The members of people's races that were beaten: each race is won at its first grant, the furthest along first."""
    groups: dict[str, list[Slot]] = {}
    for slot in slots:
        if slot.group:
            groups.setdefault(slot.group, []).append(slot)
    steps: list[Step] = []
    for members in groups.values():
        winner = min((s for s in members if s.state in _WON), key=_first, default=None)
        if winner is not None:
            steps += _settle(winner, members, now=now)
    return steps


def _settle(winner: Slot, members: Sequence[Slot], *, now: float) -> list[Step]:
    note = slot_note(winner, "race.won", f"the first of {len(members)} to be granted, held by {winner.hold}")
    won = Step(writes=(replace(winner, group=""),), notes=(note,), reason=f"{winner.name} won its race")
    beaten = (s for s in members if s.name != winner.name and s.state in LEGS | {SlotState.IDLE})
    return [won, *(released(s, f"{winner.name} was granted first", now=now) for s in beaten)]


def _first(slot: Slot) -> tuple[int, float, str]:
    return (-list(SlotState).index(slot.state), slot.since, slot.name)


def as_seen(slot: Slot | None, command: Command) -> bool:
    """Whether the slot still holds the generation and the attempt that the person saw, where the command names them."""
    if slot is None:
        return False
    seen = command.args
    same_generation = seen.get("generation") in (None, slot.generation)
    attempt = slot.lease.attempt if slot.lease else ""
    return same_generation and seen.get("attempt") in (None, attempt)


def _who(command: Command) -> str:
    return command.by or "somebody"


VERBS: Mapping[str, Verb] = {
    "hold": _hold,
    "release": _release,
    "delete": _delete,
    "queue": _queue,
    "race": _race,
}
CAPACITY = frozenset({"queue", "race"})
"""The verbs that ask for capacity: they need the whole slot table."""
