"""Caches: directories that outlive a job on this host once they hold `.ready`.

A declared one is linked into JOB_DIR. One that no job declares now stays while there is room; then the one whose last
use is the longest ago goes first (a use touches `.ready`). One without `.ready` is half-written: it goes.
"""

from __future__ import annotations

import contextlib
import os
import time

from .protocol import read_json, write_json
from .workspace import SetupError, remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .protocol import Order, Place


def link(place: Place, order: Order) -> None:
    """Drop what is half-written or in the way of space, then link every declared cache into JOB_DIR."""
    drop_unready(place)
    declared = {str(cache["key"]): str(cache["path"]) for cache in order.caches}
    _evict(place, set(declared), order.cache_reserve)
    for key, path in declared.items():
        target = os.path.join(place.cache_root, file_name(key))
        os.makedirs(target, mode=0o700, exist_ok=True)
        with contextlib.suppress(OSError):
            os.utime(os.path.join(target, ".ready"))
        _link(place, target, path)


def ready(place: Place) -> list[str]:
    """The keys of the caches that are ready, by name."""
    return [each["key"] for each in listing(place) if each["ready"]]


def update_index(place: Place) -> dict[str, dict[str, float]]:
    """Key -> {"size": bytes, "used": Unix seconds} of every ready cache, kept in a file of the agent's. Only those that
    were used since are measured anew: they may be large."""
    path = os.path.join(place.home, ".tpufn", "caches.json")
    known, index = read_json(path), {}
    for each in listing(place):
        if each["ready"]:
            former = known.get(each["key"], {})
            is_same = former.get("used") == each["used"]
            index[each["key"]] = former if is_same else {"size": _size(each["path"]), "used": each["used"]}
    with contextlib.suppress(OSError):
        write_json(path, index)
    return index


def described(place: Place) -> list[dict[str, Any]]:
    """{"key", "ready", "age", "size"}, for people; the size as of the last attempt's end, -1 if it is not known."""
    known = read_json(os.path.join(place.home, ".tpufn", "caches.json"))
    return [
        {"key": c["key"], "ready": c["ready"], "age": c["age"], "size": known.get(c["key"], {}).get("size", -1)}
        for c in listing(place)
    ]


def drop_unready(place: Place) -> None:
    for each in listing(place):
        if not each["ready"]:
            remove(each["path"])


def listing(place: Place) -> list[dict[str, Any]]:
    """{"key", "path", "ready", "used", "age"}: Unix seconds of its last use, and seconds since."""
    try:
        names = sorted(os.listdir(place.cache_root))
    except OSError:
        return []
    return [_describe(place, name) for name in names]


def file_name(key: str) -> str:
    """A key as a directory's name: anything but letters, digits, `-`, `_` and inner dots is percent-encoded."""
    kept = b"-_."
    data = key.encode("utf-8", "surrogateescape")
    name = "".join(chr(c) if (chr(c).isalnum() and c < 128) or c in kept else f"%{c:02X}" for c in data)
    return name.replace(".", "%2E", 1) if name.startswith(".") else name


def key_of(name: str) -> str:
    """The opposite of `file_name`; a name that it did not make stays as it is."""
    first, *rest = os.fsencode(name).split(b"%")
    try:
        data = first + b"".join(bytes([int(part[:2], 16)]) + part[2:] for part in rest)
    except ValueError:
        return name
    return data.decode("utf-8", "surrogateescape")


def _describe(place: Place, name: str) -> dict[str, Any]:
    path = os.path.join(place.cache_root, name)
    try:
        used = os.stat(os.path.join(path, ".ready")).st_mtime
    except OSError:
        return {"key": name, "path": path, "ready": False, "used": 0.0, "age": 0.0}
    age = round(max(0.0, time.time() - used), 1)
    return {"key": key_of(name), "path": path, "ready": True, "used": used, "age": age}


def _size(path: str) -> int:
    """Bytes on the disk, links not followed; a file that goes meanwhile counts nothing."""
    total = 0
    for parent, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return total


def _evict(place: Place, declared: set[str], reserve: int) -> None:
    spare = sorted((c for c in listing(place) if c["key"] not in declared), key=_age, reverse=True)
    for cache in spare:
        disk = os.statvfs(place.cache_root)
        if disk.f_bavail * disk.f_frsize >= reserve:
            return
        remove(cache["path"])


def _age(cache: dict[str, Any]) -> float:
    return float(cache["age"])


def _link(place: Place, target: str, path: str) -> None:
    """The bundle may hold a copy of the directory, made by a run elsewhere: the cache takes its place."""
    point = os.path.normpath(os.path.join(place.job_dir, path))
    if not point.startswith(place.job_dir + os.sep):
        raise SetupError(f"cache path {path!r} leaves JOB_DIR")
    parent = os.path.realpath(os.path.dirname(point))
    if parent != place.job_dir and not parent.startswith(place.job_dir + os.sep):
        raise SetupError(f"cache path {path!r} leaves JOB_DIR through a symbolic link")
    try:
        os.makedirs(parent, exist_ok=True)
        if os.path.lexists(point):
            remove(point)
        os.symlink(target, point)
    except OSError as error:
        raise SetupError(f"cache path {path!r}: {error}") from error
