"""One engine per state directory: an advisory lock that dies with its process."""

import fcntl
import time
from pathlib import Path
from typing import IO

from tpufn.domain.errors import Conflict

_TRIES, _PAUSE = 10, 0.01


class EngineLock:
    """Held while an engine runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Raises Conflict when another process holds it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a")
        for attempt in range(_TRIES):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # another engine; or somebody who only looks, for a moment
                time.sleep(_PAUSE * (attempt + 1 < _TRIES))
                continue
            self._file = file
            return
        file.close()
        raise Conflict(f"another engine runs on {self._path.parent}: stop it, or use its state as it is")

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def is_held(self) -> bool:
        """Whether some process, this one included, holds it."""
        if self._file is not None:
            return True
        if not self._path.exists():
            return False
        with self._path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: who looks is not taken for an engine
            except OSError:
                return True
        return False
