"""Which edges of the three transition tables the commits took.

A commit shows states, not events: the edges between two states of a document are the shortest way through its table
over the states that the commit's notes name.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tpufn.codec import reference
from tpufn.domain.attempt import ATTEMPT_TABLE, Attempt
from tpufn.domain.job import JOB_TABLE, Job
from tpufn.domain.slot import SLOT_TABLE, Slot, SlotEvent, SlotState
from tpufn.ports import Commit

TABLES: Mapping[type, Mapping[Any, Mapping[Any, Any]]] = {Job: JOB_TABLE, Slot: SLOT_TABLE, Attempt: ATTEMPT_TABLE}
Edge = tuple[str, str, str]
"""(table, state, event)."""
ALL: frozenset[Edge] = frozenset(
    (kind.__name__, str(state), str(event))
    for kind, table in TABLES.items()
    for state in table
    for event in table[state]
)


class Edges:
    """Told each commit in order. `taken` are the edges so far."""

    def __init__(self) -> None:
        self.taken: set[Edge] = set()
        self._before: dict[tuple[str, str], Any] = {}

    def __call__(self, commit: Commit) -> None:
        for document in commit.writes:
            if type(document) not in TABLES:
                continue
            ref = reference(document)
            before, self._before[ref] = self._before.get(ref), document
            if before is not None:
                self.taken |= set(_edges(before, document, _named(commit, ref)))


def _named(commit: Commit, ref: tuple[str, str]) -> list[str]:
    """The states that the notes name of a slot."""
    subject = ":".join(ref)
    return [str(note.data["state"]) for note in commit.notes if note.subject == subject and "state" in note.data]


def _edges(before: Any, after: Any, named: Sequence[str]) -> Iterator[Edge]:
    table = TABLES[type(after)]
    state = before.state
    for target in [*(type(after.state)(name) for name in named), after.state]:
        if target is not state:
            for here, event in way(table, state, target):
                yield type(after).__name__, str(here), str(_told_apart(before, after, here, event))
            state = target


def _told_apart(before: Any, after: Any, state: Any, event: Any) -> Any:
    """The one pair of edges with equal ends: only a request makes a new generation."""
    if state is SlotState.FREE and event is SlotEvent.REQUEST and before.generation == after.generation:
        return SlotEvent.ADOPT
    return event


def way(table: Mapping[Any, Mapping[Any, Any]], start: Any, end: Any) -> tuple[tuple[Any, Any], ...]:
    """The shortest way through a table as (state, event); empty where there is none."""
    queue: deque[tuple[Any, tuple[tuple[Any, Any], ...]]] = deque([(start, ())])
    seen = {start}
    while queue:
        here, path = queue.popleft()
        for event, there in table[here].items():
            if there is end:
                return (*path, (here, event))
            if there not in seen:
                seen.add(there)
                queue.append((there, (*path, (here, event))))
    return ()
