"""Ignore files by git's rules, as documented in gitignore(5) and as `git check-ignore` answers.

Each pattern is matched against one path itself, never against what lies below it: an excluded directory is simply not
entered, which is why nothing inside it can be included again. Libraries that match everything below a pattern differ
from git where a later pattern includes a file again. Paths are bytes, as git sees them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t\n\r\x0b\x0c",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file."""

    regex: re.Pattern[bytes]
    includes: bool  # a line with `!`
    directories_only: bool
    by_name: bool  # no slash in it: it is matched against the last component, at any depth

    def matches(self, path: bytes, name: bytes, is_directory: bool) -> bool:
        if self.directories_only and not is_directory:
            return False
        return self.regex.fullmatch(name if self.by_name else path) is not None


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of one file, and the directory that they are relative to (b"" for the top)."""

    base: bytes
    patterns: tuple[Pattern, ...]

    def verdict(self, path: bytes, is_directory: bool) -> bool | None:
        """Whether a path from the top is ignored; None where this file says nothing. The last match decides."""
        inner = path[len(self.base) + 1 :] if self.base else path
        name = inner.rpartition(b"/")[2]
        for pattern in reversed(self.patterns):
            if pattern.matches(inner, name, is_directory):
                return not pattern.includes
        return None


def read_patterns(base: bytes, content: bytes) -> IgnoreFile:
    """An ignore file's patterns. Lines that can never match are left out."""
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return IgnoreFile(base, tuple(p for line in lines if (p := _pattern(line.removesuffix(b"\r")))))


def is_ignored(files: Sequence[IgnoreFile], path: bytes, is_directory: bool) -> bool:
    """Whether the files, from the top to the path's own directory, ignore it: the innermost that speaks decides."""
    verdicts: Iterable[bool | None] = (file.verdict(path, is_directory) for file in reversed(files))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def _pattern(line: bytes) -> Pattern | None:
    if line.startswith(b"#"):
        return None
    body = _without_trailing_spaces(line)
    includes = body.startswith(b"!")
    body = body[1:] if includes else body
    directories_only = body.endswith(b"/")
    body = body[:-1] if directories_only else body
    by_name = b"/" not in body
    regex = _regex(body.removeprefix(b"/"), by_name) if body else None
    return Pattern(regex, includes, directories_only, by_name) if regex else None


def _without_trailing_spaces(line: bytes) -> bytes:
    """Spaces at the end do not count unless escaped."""
    kept = 0
    at = 0
    while at < len(line):
        step = 2 if line[at : at + 1] == b"\\" else 1
        if line[at : at + 1] != b" ":
            kept = at + step
        at += step
    return line[:kept]


def _regex(glob: bytes, by_name: bool) -> re.Pattern[bytes] | None:
    """The regular expression of a pattern; None for one that can never match."""
    out = b""
    at = 0
    while at < len(glob):
        char = glob[at : at + 1]
        if char == b"*":
            piece, at = _stars(glob, at, by_name)
        elif char == b"?":
            piece, at = b"[^/]", at + 1
        elif char == b"[":
            piece, at = _bracket(glob, at)
        else:
            at += char == b"\\"
            piece, at = re.escape(glob[at : at + 1]), at + 1
        if not piece:
            return None
        out += piece
    return re.compile(out, re.DOTALL)


def _stars(glob: bytes, at: int, by_name: bool) -> tuple[bytes, int]:
    """`*` stays within one component; `**` alone between slashes spans any number of them."""
    end = at
    while glob[end : end + 1] == b"*":
        end += 1
    spans = end - at > 1 and not by_name and glob[:at][-1:] in (b"", b"/") and glob[end : end + 1] in (b"", b"/")
    if not spans:
        return b"[^/]*", end
    return (b"(?:.*/)?", end + 1) if glob[end : end + 1] == b"/" else (b".*", end)


def _bracket(glob: bytes, at: int) -> tuple[bytes, int]:
    """One `[...]`; nothing where it is not closed, or names an unknown class: then the pattern matches nothing."""
    at += 1
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    items, first = b"", True
    while first or glob[at : at + 1] != b"]":
        first = False
        item, at = _bracket_item(glob, at)
        if item is None:
            return b"", at
        items += item
    chosen = b"[^" if negated else b"["
    return b"(?!/)" + chosen + items + b"]", at + 1


def _bracket_item(glob: bytes, at: int) -> tuple[bytes | None, int]:
    """A class, a range or a single character inside brackets, as regular expression text."""
    end = glob.find(b"]", at + 2)
    if glob[at : at + 2] == b"[:" and end > at + 2 and glob[end - 1 : end] == b":":
        return _CLASSES.get(glob[at + 2 : end - 1]), end + 1
    low, at = _bracket_char(glob, at)
    if not low:
        return None, at
    if glob[at : at + 1] != b"-" or glob[at + 1 : at + 2] in (b"", b"]"):
        return _byte(low), at
    high, at = _bracket_char(glob, at + 1)
    if not high:
        return None, at
    return (_byte(low) + b"-" + _byte(high) if low <= high else _byte(low)), at


def _bracket_char(glob: bytes, at: int) -> tuple[bytes, int]:
    at += glob[at : at + 1] == b"\\"
    return glob[at : at + 1], at + 1


def _byte(char: bytes) -> bytes:
    return b"\\x%02x" % char[0]
