"""Buckets as directories: the sandbox's Cloud Storage.

The bucket `name` is the directory `root/name` and an object is a file in it, so a job can read and write it by path. A
key therefore cannot be an object and the prefix of another object at once. Update times are the file system's. Writers
are the same code as the worker's agent: an object appears whole, and write-once is decided by the file system.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from tpufn.domain.errors import NotFound
from tpufn.ports import Object
from tpufn.worker.bucket import DirectoryBucket

_CHUNK = 1 << 20


class FileBlobs:
    """`region_of` knows the buckets there are: a mapping, or a function that answers "" for an unknown name.

    A known bucket's directory is made when it is first used.
    """

    def __init__(self, root: Path, region_of: Mapping[str, str] | Callable[[str], str]) -> None:
        self.root = root.resolve()
        self._region_of = region_of if callable(region_of) else _lookup(region_of)

    def region(self, bucket: str) -> str:
        region = self._region_of(bucket)
        if not region:
            raise NotFound(f"no bucket {bucket}")
        return region

    def put(self, bucket: str, key: str, data: bytes, *, once: bool = False) -> bool:
        return self._write(bucket, key, [data], once=once)

    def upload(self, bucket: str, key: str, path: str, *, progress: Callable[[int], None] | None = None) -> bool:
        with open(path, "rb") as source:
            return self._write(bucket, key, _chunks(source, progress), once=True)

    def get(self, bucket: str, key: str, *, start: int = 0) -> bytes:
        try:
            with self.path(bucket, key).open("rb") as file:
                file.seek(start)
                return file.read()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise NotFound(f"no object gs://{bucket}/{key}") from error

    def list(self, bucket: str, prefix: str) -> Sequence[Object]:
        directory = self._directory(bucket)
        parent = prefix.rpartition("/")[0]
        found = _walk(directory / parent, f"{parent}/" if parent else "")
        return sorted((each for each in found if each.key.startswith(prefix)), key=lambda each: each.key)

    def path(self, bucket: str, key: str) -> Path:
        """The file that an object is. Raises ValueError for a key that is no path below the bucket."""
        if not key or any(part in ("", ".", "..") for part in key.split("/")) or "\0" in key:
            raise ValueError(f"not a usable object name: {key!r}")
        return self._directory(bucket) / key

    def _directory(self, bucket: str) -> Path:
        self.region(bucket)
        directory = self.root / bucket
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def _write(self, bucket: str, key: str, chunks: Sequence[bytes] | Iterator[bytes], *, once: bool) -> bool:
        if once and self.path(bucket, key).exists():
            return False
        self.path(bucket, key)
        target = DirectoryBucket(str(self.root), bucket)
        scratch = target.scratch()
        try:
            with open(scratch, "wb") as file:
                file.writelines(chunks)
            return target.publish(scratch, key, once=once)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
            raise


def _lookup(regions: Mapping[str, str]) -> Callable[[str], str]:
    return lambda bucket: regions.get(bucket, "")


def _chunks(source: BinaryIO, progress: Callable[[int], None] | None) -> Iterator[bytes]:
    sent = 0
    while chunk := source.read(_CHUNK):
        yield chunk
        sent += len(chunk)
        if progress:
            progress(sent)


def _walk(directory: Path, prefix: str) -> Iterator[Object]:
    """Every file below, as an object; one that goes away meanwhile is left out."""
    try:
        entries = list(os.scandir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        key = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{key}/")
            continue
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat()
            yield Object(key=key, size=status.st_size, updated=status.st_mtime, generation=status.st_mtime_ns)
