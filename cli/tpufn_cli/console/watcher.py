"""What a console does by itself while it is open, as far as the configuration asks for it: tmux windows for new TPUs,
set-ups of the person's own new TPUs, announcements. Each failure is said once and disturbs nothing else.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from tpufn import settings
from tpufn.announce import Announcer, open_announcer
from tpufn.domain.errors import TpufnError
from tpufn.domain.fleet import Mode
from tpufn.domain.slot import SlotState
from tpufn.domain.views import SlotView
from tpufn_cli.console.config import FROM_FLEET
from tpufn_cli.console.site import Site

_NOTES = 200
_NEWS = 3600.0


class Watcher:
    """Its duties are called with each fresh slot table, each by one thread at a time."""

    def __init__(self, site: Site, *, user: str = "", now: Callable[[], float] = time.time) -> None:
        self._site, self._user, self._now = site, user or settings.load().user, now
        self._said: set[str] = set()
        self._stopped = False

    def duties(self, slots: Sequence[SlotView]) -> dict[str, Callable[[], tuple[str, ...]]]:
        """What may be due, by name: each looks at the configuration first, and tells in words what it did. One that
        takes long, as a set-up does, must not keep the others from theirs."""
        return {
            "announce": self.announce,
            "mirror": lambda: self.mirror(slots),
            "set up": lambda: self.set_up(slots),
        }

    def announce(self) -> tuple[str, ...]:
        return self._careful(self._announce) if self._topic() else ()

    def mirror(self, slots: Sequence[SlotView]) -> tuple[str, ...]:
        return self._careful(lambda: self._sync(slots)) if self._site.config.flag("tmux.sync") else ()

    def set_up(self, slots: Sequence[SlotView]) -> tuple[str, ...]:
        """The person's own new TPUs, one after the other."""
        if not self._site.config.flag("setup.auto"):
            return ()
        said: list[str] = []
        for slot in self._not_set_up(slots):
            said += self._careful(partial(self._set_up, slot))
        return tuple(said)

    def _set_up(self, slot: SlotView) -> list[str]:
        return [self._site.set_up(slot).words]

    def stop(self) -> None:
        self._stopped = True

    def _topic(self) -> str:
        """The topic to announce to. In the cloud the deployment's own topic is its functions' affair."""
        found = self._site.config.resolved["ntfy.topic"]
        functions = self._site.client.mode is Mode.CLOUD and found.source == FROM_FLEET
        return "" if functions else str(found.value)

    def _announce(self) -> list[str]:
        """Announce what happened since the last look, each thing once however many consoles are open. A first run
        begins with now, and what is older than an hour is not news."""
        memory, client = self._site.memory, self._site.client
        before = memory.last_note
        notes = client.feed(after=before, limit=_NOTES)
        fresh = [note for note in notes if note.id != before]
        if fresh:
            memory.set_last_note(fresh[-1].id)
        announcer = self._announcer()
        recent = [note for note in fresh if note.at > self._now() - _NEWS] if before else []
        failures = [said for note in recent if (said := announcer.tell(note)) and not said.startswith("told: ")]
        return [line for line in dict.fromkeys(failures) if self._is_new(line)]

    def _is_new(self, text: str) -> bool:
        """Whether it was not said before."""
        new = text not in self._said
        self._said.add(text)
        return new

    def _announcer(self) -> Announcer:
        config = self._site.config
        return open_announcer(
            self._topic(),
            config.text("ntfy.server"),
            preemptions=lambda job: self._site.client.job(job).job.preemptions,
            claim=self._site.memory.claim_announcement,
        )

    def _sync(self, slots: Sequence[SlotView]) -> list[str]:
        return [f"{name}: opened its tmux window" for name in self._site.mirror.sync(slots)]

    def _not_set_up(self, slots: Sequence[SlotView]) -> list[SlotView]:
        """The person's own TPUs that are ready and were never set up, whatever came of it."""
        known = self._site.memory.set_up()
        mine = (s for s in slots if s.hold == self._user and s.state == SlotState.IDLE and s.tpu and s.tpu not in known)
        return [slot for slot in mine if not self._stopped]

    def _careful(self, act: Callable[[], list[str]]) -> tuple[str, ...]:
        try:
            return tuple(act())
        except TpufnError as error:
            return (str(error),) if self._is_new(str(error)) else ()
