"""The one loop: load a bounded snapshot, decide purely, commit conditionally, perform effects.

Every function runs through `Runner.handle`. A stale commit reloads and decides again, a few times, with jitter; then it
raises, and redelivery goes on. Effects are claimed in the commit that makes them, performed after it, and recorded in a
commit that clears their row. A crash between any two lines leaves a row that somebody else takes when the claim ends.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tpufn.decide.decision import Decision, Retry, Step
from tpufn.decide.records import Result
from tpufn.domain.effects import Effect, Kind, Row
from tpufn.domain.errors import CommitUnknown, Stale
from tpufn.domain.events import Event
from tpufn.domain.notes import Note
from tpufn.domain.policy import Policy
from tpufn.ports import Commit, Cut, Ports

WIDTH = 16
"""Effects that are performed side by side."""
TRIES = 6
"""Decisions per event before the event is given back for redelivery."""


@dataclass(frozen=True, kw_only=True)
class Function:
    """One function: how it loads, decides, and which kinds of effects it performs. Snapshots are its own affair."""

    name: str
    load: Callable[[Ports, Event, Policy], Any]
    decide: Callable[[Any, Event, Policy], Decision]
    entity: Callable[[Event], str]  # whose open effect this event may be about; "" for none
    owns: frozenset[Kind] = frozenset()


Together = Callable[[Sequence[Callable[[], None]]], None]
"""Does all of them, in whatever order; raises what one of them raised, when all are done."""


def in_order(works: Sequence[Callable[[], None]]) -> None:
    """The plainest `Together`."""
    for work in works:
        work()


def side_by_side(works: Sequence[Callable[[], None]]) -> None:
    """On threads: the requests of a race must not wait for each other, when each may take half a minute."""
    if len(works) < 2:
        in_order(works)
        return
    with ThreadPoolExecutor(min(len(works), WIDTH), thread_name_prefix="effects") as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


Perform = Callable[[Ports, Effect, Policy], Result]
Record = Callable[[Cut, Row, Result, Policy], Step | Retry]


@dataclass(frozen=True, kw_only=True)
class Performer:
    """How one kind of effect is performed, and how its result is recorded."""

    perform: Perform
    record: Record


class Runner:
    """Runs functions over ports. `new_id` and `jitter` are given, so that a simulation can fix them; `announce` is told
    the notes of each commit after it, for the outbound feed (a crash in between loses them; the history has them).
    `together` performs the effects of one decision: by default one after the other."""

    def __init__(
        self,
        ports: Ports,
        *,
        policy: Policy,
        performers: dict[Kind, Performer],
        new_id: Callable[[], str],
        jitter: Callable[[int], float],
        announce: Callable[[Sequence[Note]], None] | None = None,
        together: Together = in_order,
    ) -> None:
        self.ports, self.policy = ports, policy
        self._performers, self._new_id, self._jitter = performers, new_id, jitter
        self._announce, self._together = announce, together

    def handle(self, function: Function, event: Event) -> str:
        """One event, to its end. Returns the decision's reason; raises Stale when others were faster every time."""
        if entity := function.entity(event):
            self.perform(function, entity)
        for attempt in range(TRIES):
            snapshot = function.load(self.ports, event, self.policy)
            if snapshot is None:
                return "none of its business"
            decision = function.decide(snapshot, event, self.policy)
            if self._carry_out(function, decision):
                return decision.reason
            self.ports.clock.sleep(self._jitter(attempt))
        raise Stale(f"{function.name}: {TRIES} decisions in a row were stale")

    def perform(self, function: Function, entity: str) -> bool:
        """Take over an open effect of this function whose claim has ended, if there is one, and perform it. What was
        queued behind it is wanted instead: a launch that nobody finished is not done before the stop."""
        with self.ports.store.cut() as cut:
            row, now = cut.row(entity), cut.now
        if row is None or row.effect.kind not in function.owns or row.claim_until > now or row.due_at > now:
            return False
        token = self._new_id()
        newest, until = row.queued or row.effect, now + self.policy.effect_claim
        claimed = replace(row, effect=newest, queued=None, claimed_by=token, claim_until=until)
        if not self._apply(Step(writes=(claimed,)), id=token, now=now):
            return False
        self._perform(entity, token)
        return True

    def take_over(self) -> None:
        """Free every claim: for an engine that is alone on its state, and so knows that whoever claimed is dead."""
        with self.ports.store.cut() as cut:
            claimed, now = [row for row in cut.rows() if row.claimed_by], cut.now
        for row in claimed:
            self._apply(Step(writes=(replace(row, claimed_by="", claim_until=0.0),)), id=self._new_id(), now=now)

    def _carry_out(self, function: Function, decision: Decision) -> bool:
        """Commit the steps in order, then perform what is ours. False at the first stale step; what was committed
        before it is performed all the same."""
        ours: list[tuple[str, str]] = []
        theirs = list(decision.wakes)
        fresh = True
        for step in decision.steps:
            rows = self._commit(step, claim=function.owns)
            if rows is None:
                fresh = False
                break
            ours += [(row.entity, token) for row, token in rows if row.claimed_by == token]
            theirs += [row.entity for row, _ in rows if not row.claimed_by]
        self._wake(theirs)
        self._together([partial(self._perform, entity, token) for entity, token in ours])
        return fresh

    def _wake(self, entities: Sequence[str]) -> None:
        if entities:
            self.ports.bus.publish_all("wakes", [{"entity": e} for e in dict.fromkeys(entities)])

    def _commit(self, step: Step, *, claim: frozenset[Kind]) -> list[tuple[Row, str]] | None:
        """Commit one step with its outbox rows. None when it was stale; else the rows with this commit's token."""
        token = self._new_id()
        with self.ports.store.cut() as cut:
            now = cut.now
            rows = [self._row(effect, cut.row(effect.entity), token, now, claim) for effect in step.effects]
            replaced = {row.entity for row in rows}
            closed = [row for e in step.closes if e not in replaced and (row := cut.row(e)) is not None]
        whole = replace(step, writes=(*step.writes, *rows), deletes=(*step.deletes, *closed))
        return [(row, token) for row in rows] if self._apply(whole, id=token, now=now) else None

    def _row(self, effect: Effect, there: Row | None, token: str, now: float, claim: frozenset[Kind]) -> Row:
        """A new effect replaces an unclaimed one and waits for a claimed one."""
        if there is not None and there.claim_until > now:
            return replace(there, queued=effect)
        version = there.version if there else ""
        if effect.kind not in claim:
            return Row(entity=effect.entity, effect=effect, version=version)
        until = now + self.policy.effect_claim
        return Row(entity=effect.entity, effect=effect, claimed_by=token, claim_until=until, version=version)

    def _perform(self, entity: str, token: str) -> None:
        """Perform a claimed effect and record it; then the one that was queued behind it. A claim that ended before the
        call began (this handler stood still meanwhile) is somebody else's to take."""
        while True:
            with self.ports.store.cut() as cut:
                row, now = cut.row(entity), cut.now
            if row is None or row.claimed_by != token or row.claim_until <= now:
                return
            result = self._performers[row.effect.kind].perform(self.ports, row.effect, self.policy)
            if not self._record(row.effect.kind, entity, token, result):
                return

    def _record(self, kind: Kind, entity: str, token: str, result: Result) -> bool:
        """Clear the row and make the transition in one commit. True when a queued effect is next."""
        for attempt in range(TRIES):
            with self.ports.store.cut() as cut:
                row, now = cut.row(entity), cut.now
                if row is None or row.claimed_by != token:
                    return False
                step = self._performers[kind].record(cut, row, result, self.policy)
            after = _cleared(row, step, now=now, claim=self.policy.effect_claim)
            if self._apply(after, id=self._new_id(), now=now):
                return row.queued is not None
            self.ports.clock.sleep(self._jitter(attempt))
        raise Stale(f"{entity}: the result of {kind} could not be recorded")

    def _apply(self, step: Step, *, id: str, now: float) -> bool:
        """One conditional commit. False when it was stale."""
        notes = tuple(replace(n, at=now, id=f"{id}-{i:02d}") for i, n in enumerate(step.notes))
        commit = Commit(id=id, writes=step.writes, deletes=step.deletes, notes=notes)
        try:
            self.ports.store.commit(commit)
        except Stale:
            return False
        except CommitUnknown:
            if not self.ports.store.applied(commit):
                return False
        if notes and self._announce is not None:
            self._announce(notes)
        return True


def _cleared(row: Row, step: Step | Retry, *, now: float, claim: float) -> Step:
    """The step with the row's end: deleted, handed to the queued effect, or left for another try."""
    if row.queued is not None:
        handed = replace(row, effect=row.queued, queued=None, claim_until=now + claim, tries=0, due_at=0.0)
        return (Step() if isinstance(step, Retry) else step) + Step(writes=(handed,))
    if isinstance(step, Retry):
        again = replace(row, claimed_by="", claim_until=0.0, due_at=now + step.after, tries=row.tries + 1)
        return Step(writes=(again,))
    return step + Step(deletes=(row,))
