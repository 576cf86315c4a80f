"""Announcements: notes become messages on an ntfy topic. For the function `notify`, and for a person's own console."""

from collections.abc import Callable

from tpufn.adapters.ntfy import Ntfy
from tpufn.decide.notify import asks_for_preemptions, message
from tpufn.domain.events import Event, Notice
from tpufn.domain.notes import Note
from tpufn.ports import Store


class Announcer:
    """`preemptions`: how often a job was preempted. `claim`: whether nobody has told a message of that key yet."""

    def __init__(
        self,
        ntfy: Ntfy,
        *,
        preemptions: Callable[[str], int],
        claim: Callable[[str], bool] = lambda key: True,
    ) -> None:
        self._ntfy, self._preemptions, self._claim = ntfy, preemptions, claim

    def tell(self, note: Note | Notice) -> str:
        """What was done, in words: "" for nothing. A failure is an answer, never an exception."""
        count = self._preemptions(note.job) if asks_for_preemptions(note) else 0
        worth = message(note, preemptions=count)
        if worth is None or not self._claim(worth.key):
            return ""
        return self._ntfy.send(worth) or f"told: {worth.title}"


def open_announcer(
    topic: str, server: str, *, preemptions: Callable[[str], int], claim: Callable[[str], bool]
) -> Announcer:
    """For a console."""
    return Announcer(Ntfy(topic, server), preemptions=preemptions, claim=claim)


def notify(store: Store, event: Event) -> str:
    """The function `notify`: tell one notice where the deployment names a topic. In words what was done."""
    if not isinstance(event, Notice):
        return "none of its business"
    with store.cut() as cut:
        fleet = cut.fleet()
    topic = fleet.settings.get("ntfy_topic", "") if fleet else ""
    if fleet is None or not topic:
        return "no ntfy topic is set"

    def preemptions(job: str) -> int:
        with store.cut() as cut:
            found = cut.job(job)
        return found.preemptions if found else 0

    ntfy = Ntfy(topic, fleet.settings.get("ntfy_server") or "https://ntfy.sh")
    return Announcer(ntfy, preemptions=preemptions).tell(event) or "not worth a message"
