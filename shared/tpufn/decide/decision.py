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
    groups: list[Step | None] = []
    where: dict[tuple[str, str], int] = {}
    for step in steps:
        whole = step
        for place in sorted({where[ref] for ref in map(_reference, step.writes) if ref in where}, reverse=True):
            earlier, groups[place] = groups[place], None
            whole = _over(earlier, whole) if earlier else whole
        groups.append(whole)
        where |= dict.fromkeys(map(_reference, whole.writes), len(groups) - 1)
    return tuple(group for group in groups if group is not None)


def _over(first: Step, second: Step) -> Step:
    """Both, with what the second one writes and wants done in place of the first one's."""
    writes, entities = {_reference(d) for d in second.writes}, {e.entity for e in second.effects}
    kept = tuple(d for d in first.writes if _reference(d) not in writes)
    effects = tuple(e for e in first.effects if e.entity not in entities)
    return replace(first, writes=kept, effects=effects) + second


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
