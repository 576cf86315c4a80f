"""One storm with its outcome as a value: what was wrong, which parts took place, which transitions were taken."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from .edges import Edge
from .storm import Parts, Storm

_AROUND = 6
"""The last lines of a story are shown whatever they are about."""
_LINES = 60
"""How many lines a story is cut down to."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`problem` is "" where nothing is wrong; `parts` are the names of what took place."""

    seed: int
    problem: str
    parts: tuple[str, ...]
    taken: frozenset[Edge]
    story: str = ""

    @property
    def kind(self) -> str:
        """The problem without its names and numbers: two of one kind are taken for the same."""
        return re.sub(r"[\w-]*\d[\w.-]*", "#", self.problem)

    def about(self) -> str:
        """The lines of the story that are about what the problem names, and its end."""
        names = set(re.findall(r"[\w-]*\d[\w.-]*", self.problem))
        names |= {name.rpartition(".")[0] for name in names if "." in name}
        lines = self.story.splitlines()
        about = [i for i, line in enumerate(lines) if "CRASH" in line or any(n and n in line for n in names)]
        shown = sorted({*about, *range(max(0, len(lines) - _AROUND), len(lines))})[-_LINES:]
        return "\n".join(lines[i] for i in shown)


def blow(seed: int, *, keep: Collection[str] | None = None, parts: Parts | None = None, trace: int = 400) -> Outcome:
    """One storm to its end. Whatever stops it is its problem: an invariant, a limit of time, a defect."""
    storm = Storm(seed, keep=keep, parts=parts, trace=trace)
    problem = ""
    try:
        storm.run()
    except Exception as error:  # recorded: the other seeds go on
        first = str(error).partition("\n")[0]
        problem = first if isinstance(error, AssertionError) else f"{type(error).__name__}: {first}"
    return Outcome(
        seed=seed,
        problem=problem,
        parts=tuple(dict.fromkeys(storm.struck)),
        taken=frozenset(storm.edges.taken),
        story=storm.universe.story() if problem or trace > 400 else "",
    )
