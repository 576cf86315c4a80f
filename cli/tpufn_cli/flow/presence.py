"""Whether anybody is there to act: said while a command follows what only an engine can bring forward."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpufn.client import Client

EVERY = 1.0
"""Seconds between two looks."""


class Presence:
    """Call it often: it looks now and then, and says when the engine has gone and when one is back. Never the end."""

    def __init__(self, client: Client, say: Callable[[str], None]) -> None:
        self._client, self._say = client, say
        self._there, self._looked = client.serves(), time.monotonic()

    def __call__(self) -> bool:
        if time.monotonic() - self._looked >= EVERY:
            self._looked = time.monotonic()
            self._look()
        return False

    def _look(self) -> None:
        there = self._client.serves()
        if there != self._there:
            self._there = there
            self._say("an engine runs again" if there else "the engine is gone: nothing goes on until `tpufn up` does")
