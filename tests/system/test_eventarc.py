"""The stand-in for Eventarc against the real emulator and a function in a process of its own."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import proto
import pytest
from google.cloud.firestore_v1 import types

from tpufn.adapters.firestore import FirestoreStore
from tpufn.adapters.firestore_database import database_id
from tpufn.domain.job import Job
from tpufn.domain.slot import Slot
from tpufn.ports import Commit

from ..emulators import FirestoreEmulator, free_port, run_firestore
from .eventarc import Backoff, Chaos, DocumentEvent, Eventarc, calm

__protobuf__ = proto.module(package="tpufn.tests.eventarc", manifest={"DocumentEventData"})
QUICK = Backoff(first=0.02, most=0.1, tries=5)

_FUNCTION = """
import json, os
import functions_framework
from tpufn.wire import from_cloud_event

FAILED = {}

@functions_framework.cloud_event
def probe(cloud_event):
    event = from_cloud_event(cloud_event)
    failures = int(event.id.partition("-fails-")[2] or 0)
    tries = FAILED[event.id] = FAILED.get(event.id, 0) + 1
    if tries <= failures:
        raise RuntimeError("transient")
    line = json.dumps([event.kind, event.id, cloud_event["source"]]) + "\\n"
    out = os.open(os.environ["PROBE_OUT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, line.encode())
    os.close(out)
"""


class DocumentEventData(proto.Message):
    """The body of a document's event (google.events.cloud.firestore.v1)."""

    value = proto.Field(types.Document, number=1)
    old_value = proto.Field(types.Document, number=2)


@dataclass(frozen=True)
class Function:
    """A running function, and what it has seen."""

    url: str
    out: Path

    def seen(self) -> list[tuple[str, str, str]]:
        text = self.out.read_text() if self.out.exists() else ""
        return [tuple(json.loads(line)) for line in text.splitlines()]

    def counted(self) -> Counter[str]:
        return Counter(f"{kind}:{id}" for kind, id, _ in self.seen())


@contextmanager
def serving(directory: Path) -> Iterator[Function]:
    source, out, port = directory / "main.py", directory / "out", free_port()
    source.write_text(_FUNCTION)
    door = "from functions_framework._cli import _cli; _cli()"
    own = ["--target", "probe", "--source", str(source), "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PROBE_OUT": str(out)}
    process = subprocess.Popen([sys.executable, "-c", door, *own], env=environment, stderr=subprocess.DEVNULL)
    try:
        assert _answers(process, port)
        yield Function(f"http://127.0.0.1:{port}/", out)
    finally:
        process.terminate()
        process.wait(30)


def _answers(process: "subprocess.Popen[bytes]", port: int) -> bool:
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError):
            connection = HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/")
            connection.getresponse()
            connection.close()
            return True
        time.sleep(0.02)
    return False


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Function]:
    with serving(tmp_path_factory.mktemp("function")) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_seen(function: Function) -> None:
    function.out.unlink(missing_ok=True)


class Rig:
    """A deployment whose documents wake the function."""

    def __init__(self, emulator: FirestoreEmulator, eventarc: Eventarc, url: str) -> None:
        name = emulator.deployment()
        self.eventarc, self.store = eventarc, FirestoreStore(emulator.project, name)
        for kind, document in (("job", "jobs/{id}"), ("attempt", "jobs/{id}/attempts/{n}"), ("slot", "slots/{name}")):
            eventarc.connect(kind, url, database=database_id(name), document=document)

    def write(self, *ids: str) -> None:
        for id in ids:
            self.store.commit(Commit(id=f"c-{id}", writes=(Job(id=id),)))

    def arrived(self, number: int) -> None:
        """All of that many events, and everything that follows from them."""
        assert self.eventarc.wait_for(lambda: len(self.eventarc.received) >= number)
        assert self.eventarc.wait_quiet()


@pytest.fixture(scope="module")
def firestore_emulator() -> Iterator[FirestoreEmulator]:
    """One of its own: an emulator's triggers have one listener, and the other tests' cloud has it for the session."""
    with run_firestore() as emulator, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRESTORE_EMULATOR_HOST", emulator.host)
        yield emulator


@pytest.fixture
def make_rig(firestore_emulator: FirestoreEmulator, function: Function) -> Iterator[Callable[..., Rig]]:
    with ExitStack() as stack:

        def make(url: str = function.url, **how: object) -> Rig:
            eventarc = Eventarc(firestore_emulator, **{"backoff": QUICK, **how})  # type: ignore[arg-type]
            return Rig(firestore_emulator, stack.enter_context(eventarc), url)

        yield make


def test_a_write_becomes_an_event_as_production_sends_it(make_rig: Callable[..., Rig], function: Function) -> None:
    """The body holds the document, the attributes its path, the source its database."""
    rig = make_rig()
    rig.write("a")
    rig.arrived(1)
    [event] = rig.eventarc.received
    data = DocumentEventData.deserialize(event.body)
    assert data.value.name.endswith("/documents/jobs/a")
    assert data.value.fields["state"].string_value == "pending"
    assert not data.old_value.name
    database = f"//firestore.googleapis.com/projects/demo-tpufn/databases/{event.headers['ce-database']}"
    assert function.seen() == [("job", "a", database)]


def test_both_values_of_a_change(make_rig: Callable[..., Rig]) -> None:
    """Created, changed, deleted: three events with what was before and what is after."""
    rig = make_rig()
    rig.write("a")
    with rig.store.cut() as cut:
        job = cut.job("a")
    assert job is not None
    rig.store.commit(Commit(id="c-2", deletes=(job,)))
    rig.arrived(2)
    data = [DocumentEventData.deserialize(event.body) for event in rig.eventarc.received]
    assert [(bool(each.old_value.name), bool(each.value.name)) for each in data] == [(False, True), (True, False)]


def test_only_what_a_trigger_matches(make_rig: Callable[..., Rig], function: Function) -> None:
    """A job's attempts and history are not the job."""
    from ..contracts.test_store import DOCUMENTS

    rig = make_rig()
    rig.store.commit(Commit(id="c", writes=tuple(DOCUMENTS.values())))
    rig.arrived(3)
    assert function.counted() == {"job:a": 1, "attempt:a.1": 1, "slot:s-1": 1}


def test_many_writes_are_all_delivered(make_rig: Callable[..., Rig], function: Function) -> None:
    """None is lost on the way, none comes twice."""
    rig = make_rig()
    rig.write(*(f"j{n}" for n in range(40)))
    rig.arrived(40)
    assert function.counted() == {f"job:j{n}": 1 for n in range(40)}


def test_what_fails_is_delivered_again(make_rig: Callable[..., Rig], function: Function) -> None:
    """Until it succeeds; the others do not wait for it."""
    rig = make_rig()
    rig.write("x-fails-2", "y")
    rig.arrived(2)
    assert function.counted() == {"job:x-fails-2": 1, "job:y": 1}
    assert rig.eventarc.statuses() == {500: 2, 200: 2}
    assert [d.attempt for d in rig.eventarc.deliveries if d.event.document.endswith("x-fails-2")] == [1, 2, 3]


def test_after_the_last_try_it_is_lost(make_rig: Callable[..., Rig]) -> None:
    """As after a day in production: the ticks have to find what it meant."""
    rig = make_rig(url=f"http://127.0.0.1:{free_port()}/")
    rig.write("a")
    rig.arrived(1)
    assert [(lost.event.document, lost.attempt, lost.status) for lost in rig.eventarc.lost] == [("jobs/a", 5, 0)]


def test_an_event_can_be_dropped(make_rig: Callable[..., Rig], function: Function) -> None:
    """A plan without a time."""
    rig = make_rig(plan=lambda event: () if event.document == "jobs/b" else (0.0,))
    rig.write("a", "b", "c")
    rig.arrived(3)
    assert function.counted() == {"job:a": 1, "job:c": 1}


def test_an_event_can_be_doubled(make_rig: Callable[..., Rig], function: Function) -> None:
    """With the same id, as production does."""
    rig = make_rig(plan=lambda event: (0.0, 0.01))
    rig.write("a")
    rig.arrived(1)
    assert function.counted() == {"job:a": 2}
    assert len({delivery.event.id for delivery in rig.eventarc.deliveries}) == 1


def test_an_event_can_be_overtaken(make_rig: Callable[..., Rig], function: Function) -> None:
    """Late by more than the others need."""
    rig = make_rig(plan=lambda event: (1.0,) if event.document == "jobs/a" else (0.0,))
    rig.write("a", "b", "c")
    rig.arrived(3)
    assert [id for _, id, _ in function.seen()][-1] == "a"


def test_the_plan_can_change(make_rig: Callable[..., Rig], function: Function) -> None:
    """All triggers off, and on again."""
    rig = make_rig(plan=lambda event: ())
    rig.write("a")
    rig.arrived(1)
    rig.eventarc.plan = calm
    rig.write("b")
    rig.arrived(2)
    assert function.counted() == {"job:b": 1}


def an_event(number: int) -> DocumentEvent:
    return DocumentEvent(trigger="t", headers={"ce-id": str(number), "ce-document": f"jobs/{number}"}, body=b"")


def test_chaos_keeps_to_its_chances() -> None:
    """Over many events about as many as said, the same ones for one seed."""
    plans = [Chaos(7, drop=0.2, duplicate=0.3, late=0.5, window=2.0) for _ in range(2)]
    first, second = ([plan(an_event(n)) for n in range(2000)] for plan in plans)
    assert first == second
    copies = Counter(len(times) for times in first)
    late = sum(time > 0 for times in first for time in times) / sum(map(len, first))
    assert 0.15 < copies[0] / 2000 < 0.25
    assert 0.25 < copies[2] / (2000 - copies[0]) < 0.35
    assert 0.45 < late < 0.55
    assert max(time for times in first for time in times) <= 2.0


def test_chaos_reaches_the_function(make_rig: Callable[..., Rig], function: Function) -> None:
    """Doubles and late ones, none lost: at least once each."""
    rig = make_rig(plan=Chaos(3, duplicate=0.5, late=0.5, window=0.3))
    rig.write(*(f"j{n}" for n in range(20)))
    rig.arrived(20)
    counted = function.counted()
    assert counted.keys() == {f"job:j{n}" for n in range(20)}
    assert counted.total() > 20


def test_a_slow_function_holds_up_nobody(make_rig: Callable[..., Rig], function: Function) -> None:
    """The emulator itself waits for each answer before it makes the next call."""
    rig = make_rig(plan=lambda event: (2.0,) if event.document.startswith("slots/") else (0.0,))
    rig.store.commit(Commit(id="c", writes=(Slot(name="s", pool="p"),)))
    rig.write("a")
    assert rig.eventarc.wait_for(lambda: bool(rig.eventarc.deliveries))
    assert function.counted() == {"job:a": 1}


def test_the_pause_doubles_up_to_its_most() -> None:
    """0.1 s to 5 s here, 10 s to 10 min in production."""
    assert [Backoff(first=1.0, most=5.0).pause(n) for n in range(1, 6)] == [1.0, 2.0, 4.0, 5.0, 5.0]
