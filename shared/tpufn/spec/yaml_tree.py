"""From YAML nodes to plain data: aliases and merge keys written out, lines noted, nothing reinterpreted."""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from tpufn.spec.problems import Loc, Report, shown
from tpufn.spec.scalar import Scalar

MAX_DEPTH = 50
MAX_VALUES = 100_000

_TAG = "tag:yaml.org,2002:"
_KINDS = {"int": "a number", "float": "a number", "bool": "a boolean", "null": "null", "timestamp": "a date"}
_KNOWN = frozenset(_TAG + name for name in (*_KINDS, "str", "seq", "map", "value", "merge"))
_OTHER_NUMBERS = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|[-+]?\.[0-9]+([eE][-+]?[0-9]+)?|0o[0-7]+")
"""What YAML 1.2 takes for numbers; PyYAML follows 1.1 and reads some of them (`1e3`, `0o17`, `08`) as text."""


@dataclass
class Tree:
    """Builds the data of one document. Problems go to the report; building goes on as far as it makes sense."""

    report: Report
    lines: dict[Loc, int]
    _open: list[int] = field(default_factory=list)
    _values: int = 0

    def mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        """The data of a mapping node."""
        self.lines.setdefault(loc, node.start_mark.line + 1)
        data: dict[str, Any] = {}
        self._fill(data, node, loc)
        return data

    def _fill(self, data: dict[str, Any], node: yaml.MappingNode, loc: Loc) -> None:
        """Add a mapping's entries to `data`. What is there already stays: a written key wins over a merged one."""
        first: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                merged.append(value)
            elif self._is_new_key(key, first) and key.value not in data:
                self.lines[*loc, key.value] = first[key.value]
                data[key.value] = self._value(value, (*loc, key.value))
        for source in merged:
            self._merge(data, source, loc)

    def _is_new_key(self, key: yaml.Node, first: dict[str, int]) -> bool:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            self.report.add_line(line, "a key must be a single word, not a list or a mapping")
            return False
        if key.value in first:
            again = f"{shown(key.value)}: is given twice, first on line {first[key.value]}; keep one"
            self.report.add_line(line, again)
            return False
        first[key.value] = line
        return True

    def _merge(self, data: dict[str, Any], node: yaml.Node, loc: Loc) -> None:
        """Write out `<<: *name` or `<<: [*a, *b]`; the earlier one wins."""
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                self.report.add_line(node.start_mark.line + 1, "`<<` can only take in mappings; write `<<: *name`")
            elif self._enter(source):
                self._fill(data, source, loc)
                self._open.pop()

    def _value(self, node: yaml.Node, loc: Loc) -> Any:
        self.lines.setdefault(loc, node.start_mark.line + 1)
        if node.tag not in _KNOWN:
            tag = node.tag.replace(_TAG, "!!")
            self.report.add(loc, f"the tag {shown(tag)} has no meaning here; write the value without it")
            return None
        if not self._enter(node):
            return None
        data = self._inner(node, loc)
        self._open.pop()
        return data

    def _inner(self, node: yaml.Node, loc: Loc) -> Any:
        match node:
            case yaml.MappingNode():
                return self.mapping(node, loc)
            case yaml.SequenceNode():
                return [self._value(child, (*loc, i)) for i, child in enumerate(node.value)]
            case _:
                return _scalar(node)

    def _enter(self, node: yaml.Node) -> bool:
        """Count a value, and refuse what never ends. Aliases are counted as often as they are used."""
        self._values += 1
        line = node.start_mark.line + 1
        if id(node) in self._open:
            self.report.add_line(line, "an alias inside its own anchor never ends; write the value out")
        elif self._values > MAX_VALUES:
            if self._values == MAX_VALUES + 1:
                self.report.add_line(line, f"with its aliases this is over {MAX_VALUES} values; make it shorter")
        elif len(self._open) >= 2 * MAX_DEPTH:
            self.report.add_line(line, "aliases nest this too deeply; write the values out")
        else:
            self._open.append(id(node))
            return True
        return False


def _scalar(node: yaml.Node) -> str | Scalar:
    text: str = node.value
    is_plain = getattr(node, "style", None) in (None, "")
    kind = _KINDS.get(node.tag.removeprefix(_TAG))
    if kind is None and is_plain and _OTHER_NUMBERS.fullmatch(text):
        kind = "a number"
    return Scalar(text, kind) if kind else text
