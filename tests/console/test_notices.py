"""Announcements: what is worth a message, that each is sent once, and that failures disturb nothing."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tpufn.adapters.memory import MemoryStore
from tpufn.adapters.ntfy import Ntfy
from tpufn.announce import Announcer, notify
from tpufn.decide.notify import Message, message
from tpufn.domain.events import Notice, Tick
from tpufn.domain.fleet import Fleet, Mode
from tpufn.domain.job import Job
from tpufn.domain.notes import Note
from tpufn.ports import Commit
from tpufn_cli.console.site import Site
from tpufn_cli.console.watcher import Watcher

SLOT = "spot-v6e8-ue5b-1"


def note(event: str, reason: str = "why", **more: Any) -> Note:
    job = str(more.pop("job", "train-1"))
    return Note(event=event, subject=f"job:{job}", job=job, slot=SLOT, reason=reason, id=f"id-{event}", **more)


@pytest.mark.parametrize(
    ("told", "preemptions", "title"),
    [
        (note("slot.idle", "all 4 workers answer"), 0, f"{SLOT} is usable"),
        (note("slot.idle", "after train-1.1"), 0, None),
        (note("job.succeeded"), 0, "train-1 succeeded"),
        (note("job.failed"), 0, "train-1 failed"),
        (note("job.rejected"), 0, "train-1 failed"),
        (note("job.cancelled"), 0, "train-1 was cancelled"),
        (note("attempt.closed", data={"outcome": "preempted"}), 2, None),
        (note("attempt.closed", data={"outcome": "preempted"}), 3, "train-1 was preempted 3 times"),
        (note("attempt.closed", data={"outcome": "succeeded"}), 3, None),
        (note("slot.refused", "stockout: no more capacity"), 0, None),
        (note("slot.refused", "structural: limit 0"), 0, "spot-v6e8-ue5b is stuck: structural"),
        (note("job.unschedulable"), 0, "train-1 can run nowhere"),
        (note("slot.waiting"), 0, None),
        (note("something.new"), 0, None),
    ],
)
def test_what_is_worth_a_message(told: Note, preemptions: int, title: str | None) -> None:
    """A phone buzzes for a TPU, an end, a streak of bad luck, and for what waiting does not mend."""
    found = message(told, preemptions=preemptions)
    assert (found.title if found else None) == title


class NtfyServer:
    """Records what is posted, or refuses."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, Any], str]] = []
        self.status = 200
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.got.append((body, self.headers.get("Authorization", "")))
                self.send_response(server.status)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever)
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._http.server_port}"

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def ntfy() -> Iterator[NtfyServer]:
    server = NtfyServer()
    yield server
    server.close()


def test_a_message_as_ntfy_takes_it(ntfy: NtfyServer) -> None:
    """Title, text, urgency; the same key is the same sequence, so that a second delivery shows once; an own server's
    token goes in the header alone."""
    told = Message(key="k", title="train-1 failed — ü", text="x" * 9000, urgency=4, tag="x")
    sender = Ntfy("topic", ntfy.address.replace("http://", "tk_secret@http://"))
    assert (sender.send(told), sender.send(told)) == ("", "")
    (first, header), (second, _) = ntfy.got
    assert (first["topic"], first["title"], first["priority"], first["tags"]) == ("topic", told.title, 4, ["x"])
    assert len(first["message"]) == 3000
    assert first["sequence_id"] == second["sequence_id"]
    assert header == "Bearer tk_secret"


def test_a_failure_is_a_sentence(ntfy: NtfyServer) -> None:
    """Refused, unreachable, or no address at all: never an exception, and never the token."""
    ntfy.status = 403
    told = Message(key="k", title="t", text="")
    assert "403" in Ntfy("topic", ntfy.address).send(told)
    assert "did not take a message" in Ntfy("topic", "http://127.0.0.1:1").send(told)
    said = Ntfy("topic", "tk_secret@nonsense").send(told)
    assert "did not take a message" in said
    assert "tk_secret" not in said


def test_the_function(ntfy: NtfyServer) -> None:
    """Off without a topic; with one it tells what is worth it, and asks the store for what the notice does not say."""
    store = MemoryStore(SimpleNamespace(now=lambda: 0.0, sleep=lambda s: None))
    notice = Notice(
        event="attempt.closed", subject="attempt:train-1.3", job="train-1", id="n1", data={"outcome": "preempted"}
    )
    assert notify(store, Tick()) == "none of its business"
    assert notify(store, notice) == "no ntfy topic is set"
    fleet = Fleet(name="lab", settings={"ntfy_topic": "t", "ntfy_server": ntfy.address})
    store.commit(Commit(id="c1", writes=(fleet, Job(id="train-1", preemptions=3))))
    assert notify(store, notice) == "told: train-1 was preempted 3 times"
    assert notify(store, Notice(event="slot.waiting", subject="slot:x")) == "not worth a message"
    assert [body["title"] for body, _ in ntfy.got] == ["train-1 was preempted 3 times"]


class FeedClient:
    """A client with nothing but a feed."""

    def __init__(self, mode: Mode, settings: dict[str, str]) -> None:
        self.mode, self.where, self.notes = mode, f"{mode} lab", list[Note]()
        self._fleet = Fleet(name="lab", settings=settings)

    def fleet(self) -> Fleet:
        return self._fleet

    def feed(self, *, after: str = "", limit: int = 200) -> tuple[Note, ...]:
        ids = [one.id for one in self.notes]
        return tuple(self.notes[ids.index(after) + 1 if after in ids else 0 :])


def watcher(client: FeedClient, home: Path, **environment: str) -> Watcher:
    site = Site(client, home=home, base=home, environment={"TPUFN_CONFIG": "/none", **environment})  # type: ignore[arg-type]
    return Watcher(site, now=lambda: 1000.0)


def test_a_console_announces_each_thing_once(ntfy: NtfyServer, tmp_path: Path) -> None:
    """What is older than the first look is not news; two consoles side by side tell it once."""
    client = FeedClient(Mode.LAPTOP, {"ntfy_topic": "t", "ntfy_server": ntfy.address})
    client.notes = [note("job.failed", job="old", at=990.0)]
    first, second = watcher(client, tmp_path), watcher(client, tmp_path)
    assert (first.announce(), second.announce()) == ((), ())
    client.notes.append(Note(event="job.succeeded", subject="job:train-1", job="train-1", at=995.0, id="n2"))
    first.announce()
    second.announce()
    first.announce()
    assert [body["title"] for body, _ in ntfy.got] == ["train-1 succeeded"]


def test_a_dead_server_is_said_once(tmp_path: Path) -> None:
    """And nothing else stops."""
    client = FeedClient(Mode.LAPTOP, {"ntfy_topic": "t", "ntfy_server": "http://127.0.0.1:1"})
    client.notes = [note("job.failed", at=990.0)]
    console = watcher(client, tmp_path)
    console.announce()
    client.notes += [Note(event="job.failed", subject="", job=f"j{n}", at=995.0, id=f"n{n}") for n in range(3)]
    assert len(console.announce()) == 1
    client.notes.append(Note(event="job.failed", subject="", job="more", at=996.0, id="more"))
    assert console.announce() == ()


def test_in_the_cloud_the_functions_announce(ntfy: NtfyServer, tmp_path: Path) -> None:
    """The deployment's own topic is theirs; a console adds a person's own one."""
    client = FeedClient(Mode.CLOUD, {"ntfy_topic": "t", "ntfy_server": ntfy.address})
    client.notes = [note("job.failed", at=990.0)]
    theirs, mine = watcher(client, tmp_path), watcher(client, tmp_path, TPUFN_NTFY__TOPIC="mine")
    theirs.announce()
    mine.announce()
    client.notes.append(Note(event="job.failed", subject="", job="train-2", at=995.0, id="n2"))
    theirs.announce()
    assert ntfy.got == []
    mine.announce()
    assert [body["topic"] for body, _ in ntfy.got] == ["mine"]


def test_the_announcer_is_not_asked_what_nobody_needs() -> None:
    """A job's preemptions cost a read: only for the note whose message needs them."""
    asked: list[str] = []

    def preemptions(job: str) -> int:
        asked.append(job)
        return 3

    sent: list[urllib.request.Request] = []
    announcer = Announcer(Ntfy("t", post=lambda request, _: sent.append(request)), preemptions=preemptions)
    announcer.tell(note("slot.waiting"))
    announcer.tell(note("job.failed"))
    assert asked == []
    announcer.tell(note("attempt.closed", data={"outcome": "preempted"}))
    assert asked == ["train-1"]
    assert len(sent) == 2
