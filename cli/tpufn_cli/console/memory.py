"""What the console remembers between runs: who one is, stars, where the cursor was, what was set up and announced.

Two files below `<home>/console`: one of the person (login, latencies, theme), one of each deployment. Every value is
checked when it is read, so that an older or damaged file means a first run of that value alone.
"""

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from tpufn_cli.console.shelf import Content, Shelf

_KEPT = 500
"""Entries per list of things that went by: TPUs set up, notes announced."""


class Memory:
    """Of one person with one deployment. `key` tells deployments apart: their mode and place."""

    def __init__(self, home: Path, key: str) -> None:
        folder = home / "console"
        self._person = Shelf(folder / "person.json")
        self._here = Shelf(folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', key).strip('-')[-80:] or 'default'}.json")

    @property
    def login(self) -> str:
        """The OS Login name, once it is known."""
        return _text(self._person.read(), "login")

    def set_login(self, name: str) -> None:
        self._person.change(lambda content: content.update(login=name))

    @property
    def theme(self) -> str:
        return _text(self._person.read(), "theme")

    def set_theme(self, name: str) -> None:
        self._person.change(lambda content: content.update(theme=name))

    def latencies(self) -> dict[str, tuple[float, float]]:
        """region -> (milliseconds, when measured); a negative figure means that the region did not answer."""
        found = self._person.read().get("latency")
        pairs = found.items() if isinstance(found, dict) else ()
        return {str(region): (pair[0], pair[1]) for region, pair in pairs if _is_pair(pair)}

    def add_latencies(self, measured: dict[str, tuple[float, float]]) -> None:
        def add(content: Content) -> None:
            there = content.get("latency")
            content["latency"] = {**(there if isinstance(there, dict) else {}), **measured}

        self._person.change(add)

    @property
    def stars(self) -> frozenset[str]:
        return frozenset(_texts(self._here.read(), "stars"))

    def set_stars(self, names: Collection[str]) -> None:
        self._here.change(lambda content: content.update(stars=sorted(names)))

    @property
    def cursor(self) -> str:
        return _text(self._here.read(), "cursor")

    def set_cursor(self, name: str) -> None:
        self._here.change(lambda content: content.update(cursor=name))

    def set_up(self) -> dict[str, str]:
        """TPU -> how its set-up ended. A TPU's name has its generation, so a new one is set up anew."""
        found = self._here.read().get("set_up")
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}

    def note_set_up(self, tpu: str, ending: str) -> None:
        def add(content: Content) -> None:
            there = content.get("set_up")
            known = {**(there if isinstance(there, dict) else {}), tpu: ending}
            content["set_up"] = dict(list(known.items())[-_KEPT:])

        self._here.change(add)

    def claim_announcement(self, id: str) -> bool:
        """Whether this program is the one that announces it: of several at once exactly one hears True."""
        mine: list[bool] = []

        def claim(content: Content) -> None:
            known = _texts(content, "announced")
            mine.append(id not in known)
            content["announced"] = list(dict.fromkeys([*known, id]))[-_KEPT:]

        self._here.change(claim)
        return mine[0]

    @property
    def last_note(self) -> str:
        """The id of the newest note that was looked at for announcements."""
        return _text(self._here.read(), "last_note")

    def set_last_note(self, id: str) -> None:
        self._here.change(lambda content: content.update(last_note=id))


def _text(content: Content, key: str) -> str:
    found = content.get(key)
    return found if isinstance(found, str) else ""


def _texts(content: Content, key: str) -> tuple[str, ...]:
    found = content.get(key)
    items: Iterable[Any] = found if isinstance(found, list) else ()
    return tuple(item for item in items if isinstance(item, str))


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(item, (int, float)) for item in value)
