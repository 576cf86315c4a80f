"""The bundle: a job's source tree as one content-addressed archive, the same on every machine for the same tree."""

import os
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tpufn.domain.errors import InputError
from tpufn.domain.job import Bundle
from tpufn.spec.tarball import Progress, Writer, inspect, open_archive, pack_tree, repack
from tpufn.spec.tree import Member, Tree, scan


@dataclass(frozen=True)
class Built:
    """A bundle, where its archive is on this machine (None for a gs:// address), and what was left out."""

    bundle: Bundle
    path: Path | None = None
    notes: tuple[str, ...] = ()


def check(source: str, *, base: Path) -> tuple[str, ...]:
    """What will be left out of the bundle of a source, found without writing it. Raises InputError as `build` does."""
    path = base / source
    if source.startswith("gs://"):
        return ()
    if path.is_dir():
        return tuple(_scanned(path).notes)
    with open_archive(path) as archive:
        _inspected(path, archive)
    return ()


def build(source: Path | str, *, base: Path, into: Path, progress: Progress | None = None) -> Built:
    """Make the bundle of a directory or of a tar archive, relative to `base`, as `<sha256>.tar.gz` in `into`.

    `progress` is told (bytes read, bytes in all). A gs:// address is kept as it is. Raises InputError.
    """
    if str(source).startswith("gs://"):
        return Built(Bundle(uri=str(source)))
    path = base / source
    if path.is_dir():
        return _from_directory(path, into, progress)
    if path.is_file():
        return _from_archive(path, into, progress)
    raise InputError(f"bundle: there is no {path}; name a directory or a tar archive")


def _from_directory(root: Path, into: Path, progress: Progress | None) -> Built:
    tree = _scanned(root)
    return _write(
        into, tree.size, progress, lambda writer: pack_tree(writer, tree), files=tree.files, notes=tuple(tree.notes)
    )


def _from_archive(path: Path, into: Path, progress: Progress | None) -> Built:
    with open_archive(path) as archive:
        found = _inspected(path, archive)
        total = sum(member.size for member, _ in found)
        files = sum(not member.is_directory for member, _ in found)
        return _write(into, total, progress, lambda writer: repack(writer, archive, found), files=files)


def _scanned(root: Path) -> Tree:
    tree = scan(root)
    if tree.problems:
        raise InputError(f"bundle {root}: {problem}" for problem in tree.problems)
    return tree


def _inspected(path: Path, archive: tarfile.TarFile) -> list[tuple[Member, tarfile.TarInfo]]:
    found, problems = inspect(archive)
    if problems:
        raise InputError(f"bundle {path}: {problem}" for problem in problems)
    return found


def _write(
    into: Path,
    total: int,
    progress: Progress | None,
    fill: Callable[[Writer], None],
    *,
    files: int,
    notes: tuple[str, ...] = (),
) -> Built:
    """Write beside the final name first, so that a broken archive never has a hash for its name."""
    into.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".bundle-", dir=into)
    try:
        with os.fdopen(descriptor, "wb") as file:
            writer = Writer(file, total, progress)
            fill(writer)
            sha256 = writer.close()
        final = into / f"{sha256}.tar.gz"
        os.replace(name, final)
    except BaseException:
        os.unlink(name)
        raise
    return Built(Bundle(sha256=sha256, size=writer.size, files=files), final, notes)
