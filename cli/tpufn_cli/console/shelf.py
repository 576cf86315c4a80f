"""A small JSON file that several programs of one person change: read whole, written whole, never seen half-written.

A file that cannot be read or is not a JSON object counts as empty: what is remembered is a convenience, and losing it
must never stop a program.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Content = dict[str, Any]


class Shelf:
    """One file. Readable by its owner alone: it names machines and people."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Content:
        """What is there; empty for a first run and for a damaged file."""
        try:
            found = json.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def change(self, how: Callable[[Content], None]) -> Content:
        """Read, change in place, write, with the other programs kept out meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._alone():
            content = self.read()
            how(content)
            self._write(json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True))
        return content

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with open(self.path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, text: str) -> None:
        write_private(self.path, text)


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, mode 0600 from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
