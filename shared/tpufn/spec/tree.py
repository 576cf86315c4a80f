"""A source tree as the list of what its bundle will hold. Nothing is written here, and no link is followed.

Links inside the tree are kept as they are. One that leads out of it, is absolute, or leads back to a directory around
it is refused by name. Sockets, pipes and devices are left out with a note.
"""

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tpufn.spec.gitignore import IgnoreFile, is_ignored, read_patterns
from tpufn.spec.problems import shown

IGNORE_FILES = (".tpufnignore", ".tpu-runnerignore", ".gitignore")
"""The first of these that the top directory has is the one that counts, there and below."""

ALWAYS_SKIPPED = frozenset(
    {
        ".git",
        ".venv",
        "__pycache__",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
        ".nox",
        ".DS_Store",
        ".ipynb_checkpoints",
    }
)

MAX_BYTES = 2 << 30
MAX_FILES = 100_000
LARGE = 100 << 20
"""Bytes from which on it is worth a word: a data set, or an environment, that came along by mistake."""
_LISTED = 10


@dataclass(frozen=True, slots=True)
class Member:
    """One file, directory or link of a bundle. `path` is relative, with `/` between its parts."""

    path: str
    is_directory: bool = False
    link: str = ""
    size: int = 0
    executable: bool = False


@dataclass
class Tree:
    """What was found: members in the order of their paths' bytes, problems, and notes on what was left out."""

    root: Path
    members: list[Member] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(member.size for member in self.members)

    @property
    def files(self) -> int:
        return sum(not member.is_directory for member in self.members)


def scan(root: Path) -> Tree:
    """Walk a directory by the rules of its ignore files, and check sizes."""
    root = Path(os.path.realpath(root))
    there = [name for name in IGNORE_FILES if (root / name).is_file()]
    tree = Tree(root)
    _Walk(tree, there[0] if there else "").directory("", [])
    tree.members.sort(key=lambda member: os.fsencode(member.path))
    ignore_file = ignore_in(there[0] if there else "")
    tree.problems += oversize(tree.members, ignore_file)
    if LARGE < tree.size <= MAX_BYTES:
        tree.notes.append(f"it holds {tree.size / 2**20:.0f} MiB; {_largest(tree.members, ignore_file, count=3)}")
    tree.notes += [note for other in there[1:] if (note := _overruled(tree, there[0], other))]
    return tree


def _overruled(tree: Tree, counts: str, other: str) -> str:
    """What goes along though another ignore file lists it: secrets, as often as not."""
    ignores = {"": tuple(_patterns(tree.root, other, ""))}
    tops: list[str] = []
    for member in tree.members:  # a directory before what is in it
        above = ignores.get(member.path.rpartition("/")[0])
        if above is None or member.path in (counts, other):
            continue
        if is_ignored(above, os.fsencode(member.path), member.is_directory):
            tops.append(member.path)
        elif member.is_directory:
            ignores[member.path] = (*above, *_patterns(tree.root, other, member.path))
    if not tops:
        return ""
    named = ", ".join([*map(shown, tops[:3]), *(["..."] if len(tops) > 3 else [])])
    return (
        f"{counts} counts, {other} does not: what only {other} lists is sent along ({named}); list it in {counts} too"
    )


def _patterns(root: Path, name: str, inside: str) -> Iterator[IgnoreFile]:
    """Those of one directory's own ignore file."""
    file = root / inside / name
    if name and file.is_file() and not file.is_symlink():
        yield read_patterns(os.fsencode(inside), file.read_bytes())


def ignore_in(name: str) -> str:
    """Where to list what is not wanted: in the file that counts, so that no other one stops counting."""
    return f"`{name or IGNORE_FILES[0]}`"


def oversize(members: list[Member], ignore_file: str) -> Iterator[str]:
    """Whether there is too much for a bundle, with the largest paths, which are the ones to ignore."""
    size, files = sum(m.size for m in members), sum(not m.is_directory for m in members)
    if size > MAX_BYTES:
        yield f"holds {size / 2**30:.1f} GiB, over {MAX_BYTES / 2**30:g} GiB; {_largest(members, ignore_file)}"
    if files > MAX_FILES:
        yield f"holds {files} files, over {MAX_FILES}; {_largest(members, ignore_file)}"


def _largest(members: list[Member], ignore_file: str, *, count: int = _LISTED) -> str:
    top = sorted(members, key=lambda m: (-m.size, m.path))[:count]
    named = ", ".join(f"{shown(m.path)} ({m.size / 2**20:.1f} MiB)" for m in top)
    return f"list what is not needed in {ignore_file}. The largest: {named}"


@dataclass
class _Walk:
    tree: Tree
    ignore_name: str

    def directory(self, inside: str, ignores: list[IgnoreFile]) -> None:
        """Take in everything of one directory, in the order of names."""
        here = self.tree.root / inside
        try:
            entries = sorted(os.scandir(here), key=lambda entry: os.fsencode(entry.name))
            ignores = [*ignores, *_patterns(self.tree.root, self.ignore_name, inside)]
        except OSError as error:
            self.tree.problems.append(f"{shown(inside or '.')} cannot be read: {error.strerror}; ignore it or mend it")
            return
        for entry in entries:
            path = f"{inside}/{entry.name}" if inside else entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name not in ALWAYS_SKIPPED and not is_ignored(ignores, os.fsencode(path), is_directory):
                self._take(entry, path)
                if is_directory:
                    self.directory(path, ignores)

    def _take(self, entry: os.DirEntry[str], path: str) -> None:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            self.tree.members.append(Member(path, is_directory=True))
        elif stat.S_ISLNK(status.st_mode):
            self._take_link(path)
        elif not stat.S_ISREG(status.st_mode):
            self.tree.notes.append(f"{shown(path)} is left out: it is neither a file nor a directory nor a link")
        elif not os.access(entry.path, os.R_OK):
            self.tree.problems.append(f"{shown(path)} cannot be read; ignore it, or give yourself read permission")
        else:
            executable = bool(status.st_mode & 0o100)
            self.tree.members.append(Member(path, size=status.st_size, executable=executable))

    def _take_link(self, path: str) -> None:
        target = os.readlink(self.tree.root / path)
        problem = link_problem(self.tree.root, path, target)
        if problem:
            self.tree.problems.append(
                f"{shown(path)} is a link {problem}; remove it, or list it in {ignore_in(self.ignore_name)}"
            )
        else:
            self.tree.members.append(Member(path, link=target))


def link_problem(root: Path, path: str, target: str) -> str:
    """What is wrong with a link of the tree, in words that follow "is a link"; "" where it may stay."""
    if os.path.isabs(target):
        return f"to the absolute path {shown(target)}"
    try:
        os.stat(root / path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return f"to {shown(target)}, which leads in a circle"
    real = Path(os.path.realpath(root / path))
    if not real.is_relative_to(root) or escapes(path, target):
        return f"to {shown(target)}, outside of the bundle"
    if (root / path).parent.is_relative_to(real):
        return f"to {shown(target)}, a directory around it, which leads in a circle"
    return ""


def escapes(path: str, target: str) -> bool:
    """Whether a link at `path` with this relative target leads out of the tree, by its words alone."""
    joined = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return joined == ".." or joined.startswith("../")
