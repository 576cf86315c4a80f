"""The job's source tree: fetched, its hash verified, extracted so that nothing lands outside of JOB_DIR."""

from __future__ import annotations

import contextlib
import os
import posixpath
import tarfile

from .bucket import BucketError
from .workspace import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .bucket import Bucket
    from .protocol import Order, Place


def install(place: Place, order: Order, bucket: Bucket, check: Callable[[], None]) -> str:
    """Returns the bundle's hash. `check` is called between the pieces and may raise."""
    try:
        _fetch(place.bundle, order, bucket, check)
        found = _sha256(place.bundle, check)
        if order.bundle_sha256 and found != order.bundle_sha256:
            raise SetupError(f"the bundle's hash is {found} instead of {order.bundle_sha256}")
        extract(place.bundle, place.job_dir, check)
    except BucketError as error:
        raise SetupError(f"the bundle cannot be fetched: {error}") from error
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SetupError(f"the bundle cannot be extracted: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(place.bundle)
    return found


def extract(archive: str, directory: str, check: Callable[[], None]) -> None:
    """Raises SetupError for a member that would land, or point, outside of `directory`."""
    with tarfile.open(archive, "r:*") as tar:
        tar.errorlevel = 1
        if hasattr(tarfile, "fully_trusted_filter"):
            tar.extraction_filter = tarfile.fully_trusted_filter  # every member is vetted here
        late = []
        for member in tar:
            check()
            _vet(member, directory)
            if member.isdir():
                late.append((member.name, member.mode & 0o777 | 0o700))
            tar.extract(member, directory, set_attrs=not member.isdir())
    for name, mode in reversed(late):
        os.chmod(os.path.join(directory, name), mode)


def _vet(member: tarfile.TarInfo, directory: str) -> None:
    name = posixpath.normpath(member.name)
    if name.startswith(("/", "../")) or name == ".." or "\0" in name:
        raise SetupError(f"the bundle's member {member.name!r} leaves the directory")
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        raise SetupError(f"the bundle's member {member.name!r} is a device or a pipe")
    parent = os.path.realpath(os.path.join(directory, posixpath.dirname(name)))
    if not _is_inside(parent, directory):
        raise SetupError(f"the bundle's member {member.name!r} goes through a symbolic link")
    if member.issym() or member.islnk():
        base = parent if member.issym() else directory
        if os.path.isabs(member.linkname) or not _is_inside(
            os.path.realpath(os.path.join(base, member.linkname)), directory
        ):
            raise SetupError(f"the bundle's link {member.name!r} points outside")
    elif os.path.islink(os.path.join(directory, name)):
        raise SetupError(f"the bundle's member {member.name!r} would follow a link")
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    member.mode &= 0o777


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + os.sep)


def _fetch(path: str, order: Order, bucket: Bucket, check: Callable[[], None]) -> None:
    if order.bundle_key:
        bucket.download(order.bundle_key, path, check)
        return
    name, _, key = order.bundle_uri[len("gs://") :].partition("/")
    bucket.sibling(name).download(key, path, check)


def _sha256(path: str, check: Callable[[], None]) -> str:
    import hashlib

    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            check()
            digest.update(chunk)
    return digest.hexdigest()
