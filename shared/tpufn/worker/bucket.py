"""Buckets as the agent sees them: a directory (sandbox, tests) or Cloud Storage (`gcs`)."""

from __future__ import annotations

import contextlib
import itertools
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    class Bucket(Protocol):
        poll: float  # seconds between two looks for an object
        interval: float  # seconds between two log objects
        rewrite: float  # seconds between two writes of the same object

        def url(self, key: str = "") -> str:
            """What the job is told: gs://..., or the directory's real path."""

        def put(self, key: str, data: bytes, *, once: bool = False) -> bool:
            """Write an object; with `once` only if there is none: False if there was. Raises BucketError."""

        def exists(self, key: str) -> bool: ...
        def download(self, key: str, path: str, check: Callable[[], None]) -> None:
            """Into a file; `check` is called now and then and may raise."""

        def sibling(self, name: str) -> Bucket:
            """Another bucket of the same kind."""

        def make_prefix(self, prefix: str) -> None:
            """Where prefixes are directories, make that one, so that the job can write below it."""


class BucketError(Exception):
    """The bucket did not answer, refused, or lacks the object."""


_scratch_numbers = itertools.count()


class DirectoryBucket:
    """The bucket `name` is the directory `root/name`, an object is a file. Nobody ever sees half an object."""

    poll, interval, rewrite = 0.02, 0.2, 0.05

    def __init__(self, root: str, name: str) -> None:
        self.root, self.name = os.path.realpath(root), name

    def url(self, key: str = "") -> str:
        return os.path.join(self.root, self.name, key) if key else os.path.join(self.root, self.name)

    def put(self, key: str, data: bytes, *, once: bool = False) -> bool:
        try:
            if once and self.exists(key):
                return False
            scratch = self.scratch()
            with open(scratch, "wb") as file:
                file.write(data)
            return self.publish(scratch, key, once=once)
        except OSError as error:
            raise BucketError(f"{self.url(key)}: {error}") from error

    def exists(self, key: str) -> bool:
        return os.path.exists(self.url(key))

    def download(self, key: str, path: str, check: Callable[[], None]) -> None:
        import shutil

        check()
        try:
            shutil.copyfile(self.url(key), path)
        except OSError as error:
            raise BucketError(f"{self.url(key)}: {error}") from error

    def sibling(self, name: str) -> DirectoryBucket:
        return DirectoryBucket(self.root, name)

    def make_prefix(self, prefix: str) -> None:
        os.makedirs(self.url(prefix), exist_ok=True)

    def scratch(self) -> str:
        """A new path outside of every bucket, on the same file system."""
        directory = os.path.join(self.root, ".uploads")
        os.makedirs(directory, exist_ok=True)
        return os.path.join(directory, f"{os.getpid()}-{id(self)}-{next(_scratch_numbers)}")

    def publish(self, scratch: str, key: str, *, once: bool) -> bool:
        """Make a finished scratch file the object `key`, in one step."""
        target = self.url(key)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not once:
            os.replace(scratch, target)
            return True
        try:
            os.link(scratch, target)
        except FileExistsError:
            return False
        except OSError:
            return self._create(scratch, target)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
        return True

    def _create(self, scratch: str, target: str) -> bool:
        """For file systems without hard links: still created by one writer only, though not in one step."""
        try:
            with open(scratch, "rb") as source, open(target, "xb") as file:
                for chunk in iter(lambda: source.read(1 << 20), b""):
                    file.write(chunk)
        except FileExistsError:
            return False
        return True


class NoBucket:
    """For a stop that came without any launch: nobody said where to report."""

    poll, interval, rewrite = 1.0, 1.0, 1.0

    def url(self, key: str = "") -> str:
        return key

    def put(self, key: str, data: bytes, *, once: bool = False) -> bool:
        del key, data, once
        return False

    def exists(self, key: str) -> bool:
        del key
        return False

    def download(self, key: str, path: str, check: Callable[[], None]) -> None:
        del path, check
        raise BucketError(f"no bucket to read {key} from")

    def sibling(self, name: str) -> NoBucket:
        raise BucketError(f"no bucket {name}")

    def make_prefix(self, prefix: str) -> None:
        """There is none to make."""


def open_bucket(source: Mapping[str, Any]) -> Bucket:
    """{"kind": "directory", "root", "bucket"}, {"kind": "gcs", "bucket", "endpoint"?, "token_url"?} or none."""
    kind = source.get("kind", "none")
    if kind == "directory":
        return DirectoryBucket(source["root"], source["bucket"])
    if kind == "gcs":
        from .gcs import CloudBucket

        return CloudBucket(source)
    return NoBucket()
