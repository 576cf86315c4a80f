"""Problems in what people write: where, what, and what to write instead. All of them, in the order of their lines."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from tpufn.domain.errors import InputError

Loc = tuple[str | int, ...]
"""The path to a value: keys of mappings and indices of lists, from the top of the file."""

MAX_PROBLEMS = 100
"""More help nobody."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class Faults(ValueError):
    """Several problems in one value, each at a path below it. Raised by validators, unfolded by `checked`."""

    def __init__(self, faults: Iterable[tuple[Loc, str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(text for _, text in self.faults))


def raise_faults(faults: Iterable[tuple[Loc, str]]) -> None:
    """Raise Faults if there are any."""
    found = tuple(faults)
    if found:
        raise Faults(found)


def dotted(loc: Loc) -> str:
    """The path as people read it: `jobs[0].env.DEBUG`."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}"
        else:
            text += f'["{shown(part)}"]'
    return text.removeprefix(".")


def shown(value: object, limit: int = 60) -> str:
    """A value for a message: printable, on one line, cut when it is long."""
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(value)[: limit + 1])
    return f"{text[:limit]}..." if len(text) > limit else text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean "priority"?`, or "" when nothing is near."""
    options, word = list(known), word[:100]
    near = get_close_matches(word, options, n=1, cutoff=0.6) or [o for o in options if o.lower() == word.lower()]
    return f'; did you mean "{near[0]}"?' if near else ""


@dataclass
class Report:
    """Collects problems of one source and raises them together."""

    name: str
    lines: Mapping[Loc, int] = field(default_factory=dict)
    _found: list[tuple[int, str]] = field(default_factory=list)
    _wrong: set[Loc] = field(default_factory=set)

    def where(self, loc: Loc) -> str:
        """`job.yaml:7: jobs[0].priority`: the file, the line where known, the key."""
        line = self.line(loc)
        parts = [f"{self.name}:{line}" if line else self.name, dotted(loc)]
        return ": ".join(part for part in parts if part)

    def line(self, loc: Loc) -> int:
        """The line of a value, or of the nearest thing around it that the file has. 0 where lines are unknown."""
        return next((self.lines[loc[:n]] for n in range(len(loc), -1, -1) if loc[:n] in self.lines), 0)

    def add(self, loc: Loc, text: str) -> None:
        """A key that is wrong is not missing as well, though rules that come later may see it so."""
        if text.startswith("is missing") and loc in self._wrong:
            return
        self._wrong.add(loc)
        self._found.append((self.line(loc), f"{self.where(loc)}: {text}"))

    def add_line(self, line: int, text: str) -> None:
        """A problem of a line rather than of a key."""
        self._found.append((line, f"{self.name}:{line}: {text}"))

    @property
    def problems(self) -> tuple[str, ...]:
        """Every problem once, by line."""
        ordered = sorted(self._found, key=lambda found: found[0])
        return tuple(dict.fromkeys(text for _, text in ordered))

    def close(self) -> None:
        """Raise InputError with all problems (the first hundred, and how many more), if there are any."""
        found = self.problems
        if len(found) > MAX_PROBLEMS:
            more = len(found) - MAX_PROBLEMS
            found = (*found[:MAX_PROBLEMS], f"{self.name}: and {more} more problems; mend these first")
        if found:
            raise InputError(found)
