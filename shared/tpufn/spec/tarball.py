"""Deterministic archives: the same members give the same bytes.

Owners, times and modes (but for the executable bit) are left out, so that a bundle's hash says what is in it. Other
people's archives are read with suspicion: nothing in them may name a place outside.
"""

import errno
import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from tpufn.domain.errors import InputError
from tpufn.spec.problems import shown
from tpufn.spec.tree import MAX_BYTES, MAX_FILES, Member, Tree, escapes

Progress = Callable[[int, int], None]
"""Told (bytes read so far, bytes in all)."""

_DAMAGE = (tarfile.TarError, EOFError, ValueError, zlib.error, lzma.LZMAError)
_ZSTD = b"\x28\xb5\x2f\xfd"


class Writer:
    """Writes one tar.gz and hashes it on the way."""

    def __init__(self, file: BinaryIO, total: int, progress: Progress | None) -> None:
        self._file, self._hash = file, hashlib.sha256()
        tee = _Tee(file, self._hash.update)
        self._zip = gzip.GzipFile(filename="", mode="wb", fileobj=tee, mtime=0, compresslevel=6)
        self._tar = tarfile.open(fileobj=self._zip, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115  # closed by close()
        self._done, self._total, self._progress = 0, total, progress
        self.size = 0

    def add(self, member: Member, content: BinaryIO | None = None) -> None:
        """Append a member. Raises OSError when a file has less content than `member.size`."""
        self._tar.addfile(_header(member), content)
        self._done += member.size
        if self._progress:
            self._progress(self._done, self._total)

    def close(self) -> str:
        """Finish the archive and return its sha256."""
        self._tar.close()
        self._zip.close()
        self.size = self._file.tell()
        return self._hash.hexdigest()


class _Tee(io.RawIOBase):
    def __init__(self, file: BinaryIO, seen: Callable[[bytes], None]) -> None:
        self._file, self._seen = file, seen

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]  # any buffer
        self._seen(piece)
        return self._file.write(piece)


def _header(member: Member) -> tarfile.TarInfo:
    info = tarfile.TarInfo(member.path)
    info.mode = 0o755 if member.executable or member.is_directory or member.link else 0o644
    if member.is_directory:
        info.type = tarfile.DIRTYPE
    elif member.link:
        info.type, info.linkname = tarfile.SYMTYPE, member.link
    else:
        info.size = member.size
    return info


def pack_tree(writer: Writer, tree: Tree) -> None:
    """Write every member of a tree. Raises InputError when a file changes meanwhile."""
    for member in tree.members:
        if member.is_directory or member.link:
            writer.add(member)
            continue
        try:
            descriptor = os.open(tree.root / member.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            with os.fdopen(descriptor, "rb") as content:
                writer.add(member, content)
        except OSError as error:
            if error.errno not in (None, errno.ENOENT, errno.ELOOP, errno.EACCES, errno.ENOTDIR):
                raise
            raise InputError(f"{shown(member.path)} changed while it was being packed; try again") from None


@contextmanager
def open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar archive of any compression that this Python reads. Raises InputError for anything else."""
    try:
        archive = tarfile.open(path, "r:*")  # noqa: SIM115  # closed below
    except (*_DAMAGE, OSError):
        with path.open("rb") as file:
            is_zstd = file.read(4) == _ZSTD
        cause = "is compressed with zstd, which this Python cannot read" if is_zstd else "is not a tar archive"
        raise InputError(f"{path}: {cause}; make one with `tar -czf NAME.tar.gz -C DIRECTORY .`") from None
    try:
        with archive:
            yield archive
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # a full disk, say: not the archive's fault
            raise
        raise InputError(f"{path}: is damaged: {error}; make it anew") from None


def inspect(archive: tarfile.TarFile) -> tuple[list[tuple[Member, tarfile.TarInfo]], list[str]]:
    """The members of somebody's archive in its order, and what is wrong with them. Of equal names the last counts."""
    found: dict[str, tuple[Member, tarfile.TarInfo]] = {}
    problems: list[str] = []
    size = 0
    for info in archive:
        size += info.size
        if size > MAX_BYTES or len(found) > MAX_FILES:
            problems.append(f"holds more than {MAX_BYTES / 2**30:g} GiB or {MAX_FILES} members; leave some out")
            break
        path = str(PurePosixPath(info.name))
        problem = _member_problem(info)
        if problem:
            problems.append(f"{shown(info.name)} {problem}; make the archive without it")
        elif path != ".":
            found.pop(path, None)
            found[path] = (_member(info, path), info)
    problems += _below_links(member for member, _ in found.values())
    return list(found.values()), problems


def _member(info: tarfile.TarInfo, path: str) -> Member:
    link = info.linkname if info.issym() else ""
    return Member(path, info.isdir(), link, info.size if info.isreg() else 0, bool(info.mode & 0o100))


def _member_problem(info: tarfile.TarInfo) -> str:
    if info.name.startswith("/") or ".." in PurePosixPath(info.name).parts:
        return "lies outside of the archive's own directory"
    if not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
        return "is neither a file nor a directory nor a link"
    if info.issym() and (info.linkname.startswith("/") or escapes(info.name, info.linkname)):
        return f"is a link to {shown(info.linkname)}, outside of the archive"
    if info.islnk() and (info.linkname.startswith("/") or ".." in PurePosixPath(info.linkname).parts):
        return f"is a hard link to {shown(info.linkname)}, outside of the archive"
    return ""


def _below_links(members: Iterator[Member]) -> Iterator[str]:
    """Members whose way leads through a link: unpacking them could write anywhere."""
    listed = list(members)
    links = {member.path for member in listed if member.link}
    for member in listed:
        through = next((str(p) for p in PurePosixPath(member.path).parents if str(p) in links), "")
        if through:
            yield f"{shown(member.path)} lies below the link {shown(through)}; make the archive without it"


def repack(writer: Writer, archive: tarfile.TarFile, found: list[tuple[Member, tarfile.TarInfo]]) -> None:
    """Write somebody's archive in our form, in its order. Hard links become files."""
    for member, info in found:
        if not (info.isreg() or info.islnk()):
            writer.add(member)
            continue
        try:
            content = archive.extractfile(info)
        except KeyError:
            raise InputError(f"{shown(member.path)} is a hard link to nothing; make the archive without it") from None
        if content is None:
            raise InputError(f"{shown(member.path)} is a hard link to no file; make the archive without it")
        with content:
            size = content.seek(0, os.SEEK_END)
            content.seek(0)
            writer.add(replace(member, size=size), content)  # type: ignore[arg-type]  # IO[bytes] is binary
