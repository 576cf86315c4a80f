"""A YAML file as plain data that remembers its lines and its exact words.

YAML readers turn `yes`, `0123`, `1e3` and `2026-01-01` into something else, each in its own way. So a plain scalar that
any of them would change stays a `Scalar` with its source text, and the type of the key decides what to make of it.

A file is refused, with the line and the fix, when it is over 1 MiB, not UTF-8, has NUL bytes, is indented with tabs,
holds several documents, repeats a key, or grows beyond all measure through aliases.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from tpufn.domain.errors import InputError
from tpufn.spec.problems import Loc, Report
from tpufn.spec.yaml_tree import MAX_DEPTH, Tree

MAX_BYTES = 1 << 20
STDIN = "-"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAB_INDENT = re.compile(r" *\t")
_HIDDEN_BREAKS = re.compile("[\u0085\u2028\u2029]")
_TABS = "is indented with a tab; YAML allows only spaces"
_OPENING = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSING = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


@dataclass(frozen=True)
class Source:
    """One file (or message): its data, where every value stands, and its name as the user wrote it."""

    name: str
    data: dict[str, Any]
    lines: dict[Loc, int] = field(default_factory=dict)

    def report(self) -> Report:
        """An empty report that knows this source's lines."""
        return Report(self.name, self.lines)


def load(path: str | PathLike[str]) -> Source:
    """Read a file, or standard input for `-`. Raises InputError with every problem of its form."""
    return parse(str(path), _read(Path(path), str(path)))


def parse(name: str, raw: bytes) -> Source:
    """Read a file's bytes. Raises InputError like `load`."""
    report = Report(name)
    text = _decode(report, raw)
    report.close()
    for line, problem in _form(text):
        report.add_line(line, problem)
    report.close()
    return _compose(name, text)


def _read(path: Path, name: str) -> bytes:
    try:
        with nullcontext(sys.stdin.buffer) if name == STDIN else path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{name}: there is no such file; check the path, or write one with `tpufn init`") from None
    except IsADirectoryError:
        raise InputError(f"{name}: is a directory; name the file in it") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}; check its permissions") from None
    except ValueError:
        raise InputError(f"{name!r}: is not a path; it holds a NUL character") from None
    if len(raw) > MAX_BYTES:
        raise InputError(f"{name}: is over 1 MiB; keep data out of it and put large scripts into the bundle")
    return raw


def _decode(report: Report, raw: bytes) -> str:
    if b"\0" in raw:
        line = raw[: raw.index(b"\0")].count(b"\n") + 1
        report.add_line(line, "holds a NUL byte; save the file as plain UTF-8 text")
        return ""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        report.add_line(line, f"is not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8")
        return ""
    for hidden in _HIDDEN_BREAKS.finditer(text):
        line = text.count("\n", 0, hidden.start()) + 1
        escape = f"\\u{ord(hidden[0]):04x}"
        report.add_line(line, f'holds a character that YAML takes for a line break; write "{escape}", in quotes')
    return text


def _form(text: str) -> Iterator[tuple[int, str]]:
    """Problems of form, as (line, text). Nothing is built here, so nothing can grow."""
    depth = documents = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, _OPENING) - isinstance(event, _CLOSING)
            documents += isinstance(event, yaml.DocumentStartEvent)
            if depth > MAX_DEPTH:
                yield _line(event), f"is nested more than {MAX_DEPTH} levels deep; write it flatter"
                return
            if documents > 1:
                yield _line(event), "starts a second document; keep one, without `---` lines between"
                return
    except yaml.YAMLError as error:
        line, problem = _explained(error, text)
        rows = text.split("\n")
        if not _TAB_INDENT.match(rows[min(line, len(rows)) - 1]):
            yield line, problem
            return
        yield from ((n, _TABS) for n, row in enumerate(rows, 1) if _TAB_INDENT.match(row))


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _explained(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """(line, text) of a parser's error."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "unreadable"
        hint = "; quote the value, or use `|` for a text of several lines" if "mapping values" in problem else ""
        return mark.line + 1, f"is not valid YAML: {problem}{hint or '; check the quotes, colons and indentation here'}"
    position = getattr(error, "position", 0)
    character = text[position : position + 1]
    return text.count("\n", 0, position) + 1, f"holds the control character {character!r}; remove it or write an escape"


def _compose(name: str, text: str) -> Source:
    lines: dict[Loc, int] = {}
    report = Report(name, lines)
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        report.add_line(*_explained(error, text))
        report.close()
    if not isinstance(node, yaml.MappingNode):
        found = "empty" if node is None else "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise InputError(f"{name}:1: must be a mapping at the top, but is {found}; begin with a key such as `jobs:`")
    data = Tree(report, lines).mapping(node, ())
    report.close()
    return Source(name, data, lines)
