"""What goes on beside the command: the heartbeat, and the look-out for a preemption notice."""

from __future__ import annotations

import os
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_FILE_POLL = 0.05


class Heartbeat(threading.Thread):
    """Writes the worker's status every `interval` seconds until it is stopped, the first at once. News go out sooner,
    though never within `least` seconds of the last beat: the object is always the same one."""

    def __init__(
        self,
        write: Callable[[Mapping[str, Any]], None],
        status: Callable[[], dict[str, Any]],
        *,
        interval: float,
        least: float,
    ) -> None:
        super().__init__(daemon=True)
        self.interval, self.least = max(interval, least), least
        self._write, self._status = write, status
        self._stopped, self._news = threading.Event(), threading.Event()

    def run(self) -> None:
        beats = 0
        while not self._stopped.is_set():
            self._news.clear()
            self._write({**self._status(), "beats": beats})
            beats += 1
            if not self._stopped.wait(self.least):
                self._news.wait(self.interval - self.least)

    def hurry(self) -> None:
        """There are news."""
        self._news.set()

    def stop(self) -> None:
        self._stopped.set()
        self._news.set()


def watch_notice(source: Mapping[str, Any], found: Callable[[], None]) -> None:
    """In a thread: call `found` once the machine is told that it will be taken away.

    {"kind": "file", "path"}: a file appears. {"kind": "server", "url"?}: the metadata server says TRUE. Or none.
    """
    watchers = {"file": _watch_file, "server": _watch_server}
    watcher = watchers.get(source.get("kind", "none"))
    if watcher is _watch_file and os.path.exists(source["path"]):
        found()  # before anything starts on a machine that is going away
    elif watcher:
        threading.Thread(target=watcher, args=(source, found), daemon=True).start()


def _watch_file(source: Mapping[str, Any], found: Callable[[], None]) -> None:
    while not os.path.exists(source["path"]):
        time.sleep(_FILE_POLL)
    found()


def _watch_server(source: Mapping[str, Any], found: Callable[[], None]) -> None:
    """Long polls: the server answers when the value is another than that of the tag, or after a minute."""
    from .google import METADATA

    url = str(source.get("url", METADATA + "/instance/preempted"))
    value, tag = "", "0"
    while value != "TRUE":
        try:
            value, tag = _read(f"{url}?wait_for_change=true&timeout_sec=60&last_etag={tag}")
        except (OSError, ValueError):
            time.sleep(1.0)
    found()


def _read(url: str) -> tuple[str, str]:
    import urllib.request

    from .google import FLAVOR

    with urllib.request.urlopen(urllib.request.Request(url, headers=FLAVOR), timeout=90) as answer:
        return answer.read().decode("ascii", "replace").strip().upper(), answer.headers.get("ETag", "0")
