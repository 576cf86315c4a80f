"""What has happened so far, folded from notes: the legs of the race, where each job is, and what TPUs were held."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tpufn.domain.accelerators import price_per_hour
from tpufn.domain.attempt import AttemptState
from tpufn.domain.fleet import Fleet, Model, Pool
from tpufn.domain.job import TERMINAL, JobState
from tpufn.domain.notes import Note
from tpufn.domain.slot import SlotState
from tpufn_cli.render import words
from tpufn_cli.render.notes import listed

_STATES = frozenset(JobState)
_SLOT_STATES = frozenset(SlotState)
_PHASES = frozenset(AttemptState)
_PAID = frozenset({SlotState.BOOTING, SlotState.IDLE, SlotState.BUSY, SlotState.CLEANING})


@dataclass(frozen=True, kw_only=True)
class Leg:
    """One slot as the race table shows it."""

    slot: str
    type: str = ""
    zone: str = ""
    state: str = "requesting"
    since: float = 0.0
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class Whereabouts:
    """One job, as the header says it."""

    state: str = "pending"
    attempt: str = ""
    phase: str = ""
    slot: str = ""


@dataclass
class Meter:
    """TPU-time: chip-seconds and list price, from READY to the delete. An estimate."""

    chip_seconds: float = 0.0
    cost: float = 0.0
    _running: dict[str, float] = field(default_factory=dict)

    def turn(self, slot: str, pool: Pool | None, state: str, at: float) -> None:
        """`slot` came into `state`."""
        if state in _PAID:
            self._running.setdefault(slot, at)
        elif slot in self._running:
            self._stop(pool, at - self._running.pop(slot))

    def _stop(self, pool: Pool | None, seconds: float) -> None:
        if pool is not None:
            spot = pool.model is Model.SPOT
            self.chip_seconds += seconds * pool.chips
            self.cost += seconds / 3600 * price_per_hour(pool.type, pool.zone, spot=spot)


class Story:
    """A fold over notes. Unknown events change nothing."""

    def __init__(self, fleet: Fleet) -> None:
        self._pools = dict(fleet.slots())
        self.legs: dict[str, Leg] = {}
        self.jobs: dict[str, Whereabouts] = {}
        self.meter = Meter()
        self.started = 0.0
        self.now = 0.0

    def add(self, note: Note) -> None:
        self.started = self.started or note.at
        self.now = max(self.now, note.at)
        kind, _, what = note.event.partition(".")
        match kind:
            case "slot" if what in _SLOT_STATES:
                remark = note.reason if what == SlotState.RELEASING else ""
                self._move(note.slot or words.bare(note.subject), what, note.at, remark=remark)
            case "race":
                self._race(note, what)
            case "attempt" if what in _PHASES:
                self._attempt(note, what)
            case "job" if note.job:
                self._job(note, what)

    def ended(self, jobs: Iterable[str]) -> bool:
        """Whether all of these jobs are terminal."""
        return all(self.jobs.get(job, Whereabouts()).state in TERMINAL for job in jobs)

    def _race(self, note: Note, what: str) -> None:
        match what:
            case "opened":
                self.legs = {name: leg for name, leg in self.legs.items() if leg.state != SlotState.FREE}
                for slot in listed(note, "legs"):
                    self.legs.setdefault(slot, self._leg(slot, note.at))
            case "won":
                self._move(note.slot, self._state(note.slot), note.at, remark="won the race")
            case "lost":
                self._move(note.slot, SlotState.RELEASING, note.at, remark="lost the race")

    def _state(self, slot: str) -> str:
        return self.legs[slot].state if slot in self.legs else str(SlotState.IDLE)

    def _move(self, slot: str, state: str, at: float, *, remark: str = "") -> None:
        leg = self.legs.get(slot) or self._leg(slot, at)
        since = leg.since if leg.state == state else at
        self.legs[slot] = replace(leg, state=state, since=since, remark=remark or leg.remark)
        self.meter.turn(slot, self._pools.get(slot), state, at)

    def _leg(self, slot: str, at: float) -> Leg:
        pool = self._pools.get(slot)
        return Leg(slot=slot, type=pool.type if pool else "", zone=pool.zone if pool else "", since=at)

    def _job(self, note: Note, what: str) -> None:
        if what in _STATES:
            self.jobs[note.job] = Whereabouts(state=what)
        else:
            self.jobs.setdefault(note.job, Whereabouts())

    def _attempt(self, note: Note, phase: str) -> None:
        if phase == AttemptState.ASSIGNED:
            self._move(note.slot, SlotState.BUSY, note.at)
        before = self.jobs.get(note.job, Whereabouts())
        if before.state in TERMINAL or phase == AttemptState.CLOSED:
            return
        self.jobs[note.job] = Whereabouts(
            state=str(JobState.ACTIVE), attempt=note.attempt, phase=phase, slot=note.slot or before.slot
        )
