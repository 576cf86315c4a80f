"""The client of mode cloud by itself: how ticks stand, large messages, versions, and what mends a refusal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError

from tpufn import __version__, settings
from tpufn.adapters.google_access import LOGIN, mending
from tpufn.adapters.memory import MemoryStore
from tpufn.bootstrap import cloud_client
from tpufn.cloud_client import LARGEST, CloudClient
from tpufn.codec import SCHEMA, decode
from tpufn.declare import apply_fleet, stamp_functions
from tpufn.domain.errors import CloudUnavailable, Conflict, InputError
from tpufn.domain.fleet import Fleet, Mode
from tpufn.domain.job import Job
from tpufn.place import choose
from tpufn.ports import TickState
from tpufn.simulation.clock import VirtualClock

FLEET = Fleet(name="lab", project="my-project", mode=Mode.CLOUD)
FILE = "name: lab\nproject: my-project\ntpus: [{type: v6e-8, zone: us-east1-d, count: 1}]\n"
NOW = VirtualClock().now()


class Outbox:
    """A bus and a bucket that remember."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.objects: dict[str, bytes] = {}

    def publish(self, topic: str, body: Mapping[str, Any]) -> str:
        self.sent.append((topic, body))
        return "1"

    def put(self, bucket: str, key: str, data: bytes, *, once: bool = False) -> bool:
        self.objects[f"{bucket}/{key}"] = data
        return once


class Beats:
    """Ticks in a state of the test's choice; or a refusal to look at them."""

    def __init__(self, *ticks: TickState, refusal: Exception | None = None) -> None:
        self._ticks, self._refusal = ticks, refusal

    def ticks(self) -> Sequence[TickState]:
        if self._refusal:
            raise self._refusal
        return self._ticks


class NoLetters:
    def count(self) -> int:
        return 0


def tick(*, paused: bool = False, last: float = NOW - 30, due: float = NOW + 30) -> TickState:
    return TickState(name="tick", paused=paused, last_run=last, next_run=due)


def client(store: MemoryStore, *, outbox: Outbox | None = None, ticks: Beats | None = None) -> CloudClient:
    """Where nothing else matters."""
    box = outbox or Outbox()
    parts: dict[str, Any] = {"bus": box, "blobs": box, "ticks": ticks or Beats(), "letters": NoLetters()}
    own: dict[str, Any] = {"user": "ada", "scratch": Path("/nowhere"), "new_id": lambda: "id", "clock": VirtualClock()}
    return CloudClient(where="cloud lab", fleet=FLEET, store=store, **parts, **own)


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(VirtualClock())
    apply_fleet(made, FLEET)
    return made


@pytest.mark.parametrize(
    ("ticks", "engine"),
    [
        (Beats(tick(), tick(last=NOW - 500)), "running"),
        (Beats(tick(), tick(paused=True)), "paused"),
        (Beats(tick(last=NOW - 200), tick(last=NOW - 600)), "late"),
        (Beats(tick(last=0.0), tick(last=0.0)), "running"),
        (Beats(tick(last=0.0, due=NOW - 60)), "late"),
        (Beats(refusal=CloudUnavailable("denied")), "unknown"),
    ],
    ids=["on time", "paused", "late", "just made", "made and never started", "not to be seen"],
)
def test_status_says_how_the_ticks_stand(store: MemoryStore, ticks: Beats, engine: str) -> None:
    """The sweep comes every ten minutes only: one that came lately is enough."""
    assert client(store, ticks=ticks).status().engine == engine


def test_a_large_submission_is_written_before_it_is_named(store: MemoryStore) -> None:
    """Once, under its content's name: sent again, it is the same object."""
    box = Outbox()
    big = {"v": 1, "submission_id": "s", "correlation_id": "c", "jobs": [{"command": "x" * LARGEST}]}
    for body in (big, big, {**big, "jobs": []}):
        client(store, outbox=box)._publish("submissions", body)
    (_, first), (_, second), (_, small) = box.sent
    assert first == second == {"v": 1, "submission_id": "s", "correlation_id": "c", "specs": first["specs"]}
    assert [f"gs://{name}" for name in box.objects] == [first["specs"]]
    assert first["specs"].startswith("gs://my-project-tpufn-lab/submissions/")
    assert small["jobs"] == []


def test_versions_that_do_not_fit_are_said_with_what_mends_them(store: MemoryStore) -> None:
    """Whoever is behind is told to come up."""
    assert client(store).advice() == ()
    stamp_functions(store, __version__)
    assert client(store).advice() == ()
    stamp_functions(store, "0.0.9")
    assert "`tpufn deploy` brings the functions up" in client(store).advice()[0]
    stamp_functions(store, "7.0.0")
    assert "`pip install tpufn==7.0.0`" in client(store).advice()[0]


def test_a_newer_document_is_not_read_wrongly() -> None:
    """During an upgrade the older of two versions gives its event back."""
    with pytest.raises(CloudUnavailable, match="a newer one has written it"):
        decode(Job, {"id": "j", "schema": SCHEMA + 1}, "")
    assert decode(Job, {"id": "j", "schema": SCHEMA, "new": 1}, "v").id == "j"


def test_declaring_the_fleet(store: MemoryStore, tmp_path: Path) -> None:
    """A new revision, and a tick that makes the slots; never another deployment's."""
    path, box = tmp_path / "deployment.yaml", Outbox()
    path.write_text(FILE)
    applied = client(store, outbox=box).apply(str(path))
    assert (applied.revision, [pool.type for pool in applied.pools]) == (2, ["v6e-8"])
    assert applied.nonce == client(store).fleet().nonce
    assert box.sent == [("ticks", {"full": True})]
    assert client(store).apply(str(path)).revision == 3, "the same file again: what the project refused is asked anew"
    path.write_text(FILE.replace("lab", "other"))
    with pytest.raises(Conflict, match="declares other, and this is lab"):
        client(store).apply(str(path))


FORBIDDEN = exceptions.Forbidden("Missing or insufficient permissions.")
DISABLED = exceptions.Forbidden(
    "Cloud Firestore API has not been used in project p before: enable firestore.googleapis.com"
)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (DISABLED, "gcloud services enable firestore.googleapis.com --project p"),
        (FORBIDDEN, "gcloud projects add-iam-policy-binding p --member user:YOU --role roles/x"),
        (exceptions.Unauthenticated("no"), LOGIN),
        (DefaultCredentialsError("no"), LOGIN),
    ],
    ids=["API", "permission", "credentials", "login"],
)
def test_a_refusal_names_the_command_that_mends_it(error: Exception, said: str) -> None:
    """A person copies it."""
    assert said in mending(error, role="roles/x", project="p")


def test_a_file_of_mode_cloud_is_the_cloud(tmp_path: Path) -> None:
    """Unless somebody asks for the sandbox; the place says which it is."""
    path = tmp_path / "deployment.yaml"
    path.write_text(FILE)
    chosen = settings.load(home=str(tmp_path / "home"), deployment=str(path))
    place = choose(chosen, sandbox=False, starts=False)
    assert (place.mode, place.where) == (Mode.CLOUD, "cloud lab in project my-project")
    assert cloud_client.client(place, chosen).mode is Mode.CLOUD
    assert choose(chosen, sandbox=True, starts=False).mode is Mode.SANDBOX
    assert choose(chosen, sandbox=False, starts=True).mode is Mode.SANDBOX


def test_nothing_says_the_project(tmp_path: Path) -> None:
    """A stored sandbox fleet has none."""
    place = choose(settings.load(home=str(tmp_path)), sandbox=True, starts=False)
    with pytest.raises(InputError, match="project"):
        cloud_client.client(place.__class__(mode=Mode.CLOUD, directory=tmp_path, fleet=None), settings.load())
