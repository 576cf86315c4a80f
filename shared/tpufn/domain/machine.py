"""A state machine is a table `{state: {event: state}}`. A missing key is a typed error and changes nothing."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from tpufn.domain.errors import IllegalTransition

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


def step(table: Mapping[S, Mapping[E, S]], state: S, event: E) -> S:
    """The state after `event`. Raises IllegalTransition where the table has no such edge."""
    try:
        return table[state][event]
    except KeyError:
        raise IllegalTransition(f"{type(state).__name__} {state} has no transition for {event}") from None


def allows(table: Mapping[S, Mapping[E, S]], state: S, event: E) -> bool:
    """Whether the table has an edge for `event` from `state`."""
    return event in table.get(state, {})


def diagram(table: Mapping[S, Mapping[E, S]]) -> str:
    """The table as a Mermaid state diagram: the documentation's diagrams are made by this."""
    edges = (f"    {a} --> {b}: {event}" for a, row in table.items() for event, b in row.items())
    return "\n".join(["stateDiagram-v2", *edges])
