"""A failing storm with as few parts as still fail in the same way: delta debugging over their names."""

import time
from collections.abc import Callable, Sequence

from .outcome import Outcome, blow
from .storm import Parts

_BUDGET = 60.0
"""Seconds of trying."""


def shrunk(outcome: Outcome, *, parts: Parts | None = None, budget: float = _BUDGET) -> tuple[Outcome, list[str]]:
    """The outcome of the smallest storm found, and the parts that it consists of."""
    best, end = [outcome], time.monotonic() + budget

    def fails(kept: Sequence[str]) -> bool:
        if time.monotonic() > end:
            return False
        found = blow(outcome.seed, keep=kept, parts=parts, trace=1_000_000)
        same = found.kind == outcome.kind
        best[0] = found if same else best[0]
        return same

    kept = minimal(outcome.parts, fails)
    return best[0], kept


def minimal(names: Sequence[str], fails: Callable[[Sequence[str]], bool]) -> list[str]:
    """A subset that still fails and of which nothing can be left out in blocks of any size down to one."""
    kept, size = list(names), max(1, len(names) // 2)
    while kept:
        for start in range(len(kept) - size, -size, -size):
            rest = [*kept[: max(0, start)], *kept[start + size :]]
            if len(rest) < len(kept) and fails(rest):
                kept = rest
        if size == 1:
            break
        size = max(1, size // 2)
    return kept
