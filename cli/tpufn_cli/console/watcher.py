"""What a console does by itself while it is open, as far as the configuration asks for it: tmux windows for new TPUs,
set-ups of the person's own new TPUs, announcements. Each failure is said once and disturbs nothing else.
"""

import getpass
from collections.abc import Callable, Sequence

from tpufn.domain.errors import TpufnError
from tpufn.domain.slot import SlotState
from tpufn.domain.views import SlotView
from tpufn_cli.console.site import Site


class Watcher:
    """`look` is called with each fresh slot table, by one thread at a time."""

    def __init__(self, site: Site, *, user: str = "") -> None:
        self._site, self._user = site, user
        self._said: set[str] = set()
        self._stopped = False

    def look(self, slots: Sequence[SlotView]) -> tuple[str, ...]:
        """What was done, in words."""
        config = self._site.config
        said: list[str] = []
        if config.flag("tmux.sync"):
            said += self._careful(lambda: self._sync(slots))
        if config.flag("setup.auto"):
            for slot in self._not_set_up(slots):
                said += self._careful(lambda slot=slot: [self._site.set_up(slot).words])  # type: ignore[misc]
        return tuple(said)

    def stop(self) -> None:
        self._stopped = True

    def _sync(self, slots: Sequence[SlotView]) -> list[str]:
        return [f"{name}: opened its tmux window" for name in self._site.mirror.sync(slots)]

    def _not_set_up(self, slots: Sequence[SlotView]) -> list[SlotView]:
        """The person's own TPUs that are ready and were never set up, whatever came of it."""
        known = self._site.memory.set_up()
        user = self._user or getpass.getuser()
        mine = (s for s in slots if s.hold == user and s.state == SlotState.IDLE and s.tpu and s.tpu not in known)
        return [slot for slot in mine if not self._stopped]

    def _careful(self, act: Callable[[], list[str]]) -> list[str]:
        try:
            return act()
        except TpufnError as error:
            text = str(error)
            if text in self._said:
                return []
            self._said.add(text)
            return [text]
