"""What a decision is: steps to commit in order, each with its effects, its notes and a reason that carries the numbers.

Steps of one decision are independent commits. The first stale one ends the decision; the runner reloads and decides
again, so a later step may rely on the earlier ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tpufn.domain.attempt import Attempt
from tpufn.domain.capacity import CreateOutcome, Scope
from tpufn.domain.effects import Effect, Row
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobSpec
from tpufn.domain.notes import Note
from tpufn.domain.slot import Slot

Document = Job | JobSpec | Attempt | Slot | Scope | CreateOutcome | Row | Fleet


@dataclass(frozen=True, kw_only=True)
class Step:
    """One atomic commit: conditional writes, the effects that go with them, and what to tell people."""

    writes: tuple[Document, ...] = ()
    deletes: tuple[Document, ...] = ()
    effects: tuple[Effect, ...] = ()
    notes: tuple[Note, ...] = ()
    closes: tuple[str, ...] = ()  # entities whose open effect has become pointless
    reason: str = ""

    def __add__(self, other: "Step") -> "Step":
        """Both in one commit."""
        return Step(
            writes=self.writes + other.writes,
            deletes=self.deletes + other.deletes,
            effects=self.effects + other.effects,
            notes=self.notes + other.notes,
            closes=self.closes + other.closes,
            reason="; ".join(filter(None, (self.reason, other.reason))),
        )


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The steps in the order of their commits, and the entities whose owners should look at them."""

    steps: tuple[Step, ...] = ()
    wakes: tuple[str, ...] = ()
    reason: str = ""


def coalesced(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps that share a document, as one: two commits of one version cannot both succeed. The later write counts."""
    merged: list[Step] = []
    where: dict[tuple[str, str], int] = {}
    for step in steps:
        refs = [_reference(d) for d in step.writes]
        place = next((where[ref] for ref in refs if ref in where), len(merged))
        if place == len(merged):
            merged.append(step)
        else:
            merged[place] = _over(merged[place], step)
        where |= dict.fromkeys(refs, place)
    return tuple(merged)


def _over(first: Step, second: Step) -> Step:
    later = {_reference(d) for d in second.writes}
    kept = tuple(d for d in first.writes if _reference(d) not in later)
    return replace(first, writes=kept) + second


def _reference(document: Document) -> tuple[str, str]:
    match document:
        case Slot(name=name):
            return "slot", name
        case Row(entity=entity):
            return "row", entity
        case Fleet():
            return "fleet", ""
        case _:
            return type(document).__name__, document.id


NOTHING = Decision(reason="nothing to do")


@dataclass(frozen=True, kw_only=True)
class Retry:
    """An effect's result that asks for another try of the same effect, after a pause."""

    after: float
    reason: str = field(default="")
