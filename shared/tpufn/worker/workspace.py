"""A fresh JOB_DIR, and the shared-memory directory of an attempt."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import zlib

from .devices import sudo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .protocol import Order, Place


class SetupError(Exception):
    """The workspace, a cache, the bundle or a secret cannot be made ready."""


def make(place: Place, order: Order) -> None:
    """Everything of previous jobs goes, then the attempt's own directories come."""
    jobs = os.path.dirname(place.job_dir)
    remove(jobs)
    remove_shared_memory(place.home, order.shm)
    try:
        os.makedirs(place.job_dir, mode=0o700)
        os.makedirs(place.cache_root, mode=0o700, exist_ok=True)
        os.makedirs(shared_memory(place, order), mode=0o700)
    except OSError as error:
        raise SetupError(f"no fresh workspace: {error}") from error


def shared_memory(place: Place, order: Order) -> str:
    """JOB_SHM_DIR: on tmpfs where there is one, else below the host's directory."""
    root = order.shm if order.shm and os.path.isdir(order.shm) else os.path.join(place.home, "shm")
    return os.path.join(root, shared_memory_prefix(place.home) + order.attempt)


def shared_memory_prefix(home: str) -> str:
    """What the names of a host's shared-memory directories begin with."""
    return f"tpufn-{zlib.crc32(os.fsencode(home)):08x}-"


def remove_shared_memory(home: str, root: str = "/dev/shm") -> None:
    """Those of every attempt of this host."""
    prefix = shared_memory_prefix(home)
    for directory in (root, os.path.join(home, "shm")):
        with contextlib.suppress(OSError):
            for name in os.listdir(directory):
                if name.startswith(prefix):
                    remove(os.path.join(directory, name))


def remove(path: str) -> None:
    """Remove a file or a whole tree, also read-only and root-owned parts. Raises SetupError if something stays."""
    if os.path.islink(path) or os.path.isfile(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            _open_up(path)
            shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path) and not sudo(["rm", "-rf", "--", path]):
        raise SetupError(f"cannot remove {path}")


def _open_up(path: str) -> None:
    """Let the owner into every directory of the tree."""
    with contextlib.suppress(OSError):
        os.chmod(path, stat.S_IRWXU)
    for parent, directories, _ in os.walk(path):
        for name in directories:
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(parent, name), stat.S_IRWXU)
