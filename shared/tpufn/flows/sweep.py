"""`autoscale`: the cloud is listed first and the slots read then, so that nothing created in between is a stray."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tpufn.decide import autoscale
from tpufn.decide.decision import Decision
from tpufn.decide.observe import Observed
from tpufn.domain.cloud import Tpu
from tpufn.domain.errors import Refused, Unknown
from tpufn.domain.events import Event, Tick, WorkerReady
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import DEMAND, TERMINAL, JobState
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot, SlotState
from tpufn.ports import Cut, Ports
from tpufn.runner import Function

_ALIVE = tuple(s for s in JobState if s not in TERMINAL)


def load(ports: Ports, event: Event, policy: Policy) -> autoscale.SweepSnapshot | None:
    """None when nothing is there to look after: three reads of one document each."""
    if isinstance(event, WorkerReady) and event.host_key:
        ports.workers.introduce(event.tpu, event.worker, event.host_key)
    with ports.store.cut() as cut:
        fleet, slots = cut.fleet(), cut.slots()
        if fleet is None:
            return None
        jobs, rows = bool(cut.jobs_in(_ALIVE, limit=1)), bool(cut.rows(limit=1))
    full = not isinstance(event, Tick) or event.full
    settled = {name for name, _ in fleet.slots()} == {s.name for s in slots if s.state is not SlotState.RETIRED}
    if settled and not full and autoscale.quiet(slots, jobs=jobs, rows=rows):
        return None
    zones = _zones(fleet, slots if full else [s for s in slots if s.state is not SlotState.RETIRED])
    listed, silent = _list(ports, zones)
    with ports.store.cut() as cut:
        return _snapshot(ports, cut, listed, silent, policy)


def _zones(fleet: Fleet, slots: Sequence[Slot]) -> tuple[str, ...]:
    """The fleet's zones, and those of slots whose pool has left the file: now and then of retired ones too, for what
    was asked for there may be granted when nobody looks any more."""
    return tuple(dict.fromkeys((*fleet.zones, *(s.zone for s in slots))))


def _list(ports: Ports, zones: Sequence[str]) -> tuple[list[Tpu], set[str]]:
    """Everything that the zones list, and the zones that did not answer: one zone's 403 does not stop the others."""
    listed: list[Tpu] = []
    silent: set[str] = set()
    for zone in zones:
        try:
            listed += ports.cloud.list(zone)
        except (Refused, Unknown):
            silent.add(zone)
    return listed, silent


def _snapshot(
    ports: Ports, cut: Cut, listed: Sequence[Tpu], silent: set[str], policy: Policy
) -> autoscale.SweepSnapshot | None:
    fleet, slots, now = cut.fleet(), cut.slots(), cut.now
    if fleet is None:
        return None
    long_ago = now - policy.long_wait
    oldest = cut.jobs_in((JobState.PENDING,), limit=20)
    return autoscale.SweepSnapshot(
        now=now,
        fleet=fleet,
        slots=slots,
        scopes={s.id: s for s in cut.scopes()},
        rows=cut.rows(),
        due_jobs=cut.jobs_due(before=now),
        cancelling=cut.jobs_in((JobState.CANCELLING,), limit=100),
        waiting_long=[j for j in oldest if j.submitted_at < long_ago],
        demand=bool(cut.jobs_in(tuple(DEMAND), limit=1)),
        observed=_observe(ports, fleet, slots, listed, silent),
        listed=listed,
    )


def _observe(
    ports: Ports, fleet: Fleet, slots: Sequence[Slot], listed: Sequence[Tpu], silent: set[str]
) -> Mapping[str, Observed]:
    """Each leg and idle slot's TPU, where the cloud answered. Absence from a list is a hint: get by name first."""
    by_name = {t.name: t for t in listed}
    result: dict[str, Observed] = {}
    for slot in slots:
        pool = fleet.pool(slot.pool)
        if pool is None or pool.zone in silent or not _is_observed(slot):
            continue
        try:
            result[slot.name] = _look(ports, slot, by_name.get(slot.tpu) or ports.cloud.get(slot.tpu, pool.zone))
        except (Refused, Unknown):
            continue
    return result


def _is_observed(slot: Slot) -> bool:
    """Legs and idle slots, and places of TPUs that were there before us."""
    return slot.is_leg or slot.state is SlotState.IDLE or (slot.adopted and slot.state is SlotState.FREE)


def _look(ports: Ports, slot: Slot, tpu: Tpu | None) -> Observed:
    """Whether its workers answer is asked only while it boots: READY is not usable."""
    if tpu is None or not tpu.is_ready or not slot.is_leg:
        return Observed(tpu=tpu)
    answering = ports.workers.usable(tpu)
    return Observed(tpu=tpu, usable=len(answering) == len(tpu.workers), workers_answering=len(answering))


def _decide(snapshot: autoscale.SweepSnapshot, event: Event, policy: Policy) -> Decision:
    decision = autoscale.decide(snapshot, policy=policy)
    failed = autoscale.failed_startup(event) if isinstance(event, WorkerReady) else None
    return replace(decision, steps=(*decision.steps, failed)) if failed else decision


def _entity(event: Event) -> str:
    return f"slot:{event.slot}" if isinstance(event, WorkerReady) else ""


AUTOSCALE = Function(name="autoscale", load=load, decide=_decide, entity=_entity)
