"""What is Firestore's own: contention over the network, answers that get lost, deployments beside each other."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tpufn.adapters.firestore import FirestoreStore
from tpufn.adapters.firestore_database import database_id
from tpufn.domain.capacity import CreateOutcome, Scope
from tpufn.domain.effects import Effect, Kind, Row
from tpufn.domain.errors import CloudUnavailable, CommitUnknown, Stale
from tpufn.domain.job import Bundle, Job, JobSpec, JobState
from tpufn.domain.notes import Note
from tpufn.domain.slot import Slot
from tpufn.ports import Commit

from ..emulators import FirestoreEmulator, free_port
from .wiretap import Wiretap


@pytest.fixture
def store(firestore_emulator: FirestoreEmulator) -> FirestoreStore:
    return FirestoreStore(firestore_emulator.project, firestore_emulator.deployment())


@pytest.fixture
def wiretap(firestore_emulator: FirestoreEmulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wiretap]:
    """A line to the emulator that can be disturbed."""
    with Wiretap(firestore_emulator.host) as tap:
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", tap.host)
        yield tap


@pytest.fixture
def far_store(firestore_emulator: FirestoreEmulator, wiretap: Wiretap) -> FirestoreStore:
    """A store over that line, with little patience."""
    return FirestoreStore(firestore_emulator.project, firestore_emulator.deployment(), timeout=0.5)


def scope(store: FirestoreStore, id: str = "s") -> Scope:
    with store.cut() as cut:
        return next(each for each in cut.scopes() if each.id == id)


def job(id: str, **changes: object) -> Job:
    return Job(id=id, **({"rank": f"1-{id}", "accepts": ("k",)} | changes))  # type: ignore[arg-type]


# Contention


def add_one(store: FirestoreStore, commit: str) -> int:
    """One increment by compare-and-set of two documents at once. The number of tries it took."""
    tries = 0
    while True:
        tries += 1
        seen, other = scope(store, "s"), scope(store, "t")
        writes = (replace(seen, seq=seen.seq + 1), replace(other, seq=other.seq + 1))
        try:
            store.commit(Commit(id=f"{commit}-{tries}", writes=writes))
        except Stale:
            continue
        return tries


def test_contended_commits_lose_nothing(store: FirestoreStore) -> None:
    """Four writers, 50 increments each, on the same two documents."""
    store.commit(Commit(id="first", writes=(Scope(id="s"), Scope(id="t"))))
    with ThreadPoolExecutor(4) as pool:
        tries = list(pool.map(lambda n: add_one(store, f"add-{n}"), range(200)))
    assert (scope(store, "s").seq, scope(store, "t").seq) == (200, 200)
    assert sum(tries) >= 200


def test_one_of_many_creators_wins(store: FirestoreStore) -> None:
    """The same submission delivered at the same time."""

    def create(number: int) -> bool:
        try:
            store.commit(Commit(id=f"c-{number}", writes=(job("a", cause=str(number)),)))
        except Stale:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(create, range(8))).count(True) == 1


def test_a_cut_does_not_move_while_others_commit(store: FirestoreStore) -> None:
    """A sweep reads for seconds; what it decides must not be a mix of before and after."""
    store.commit(Commit(id="first", writes=(Scope(id="s"), Scope(id="t"), job("a"))))
    with store.cut() as cut:
        begin = cut.now
        for number in range(1, 11):
            before = scope(store)
            store.commit(Commit(id=f"c-{number}", writes=(replace(before, seq=number), job(f"b-{number}"))))
            assert [s.seq for s in cut.scopes()] == [0, 0]
            assert [j.id for j in cut.jobs_wanting(("k",), states=(JobState.PENDING,))] == ["a"]
            assert cut.job(f"b-{number}") is None
        assert cut.now == begin
    assert scope(store).seq == 10


def test_a_cut_sees_what_was_committed_before_it(store: FirestoreStore) -> None:
    """A handler that goes on from its own commit must find it."""
    for number in range(20):
        store.commit(Commit(id=f"c-{number}", writes=(job(f"j-{number}"),)))
        with store.cut() as cut:
            assert cut.job(f"j-{number}") is not None


def test_now_is_the_time_of_the_read(store: FirestoreStore) -> None:
    """Ages come from the store's clock; here it is this machine's."""
    begin = time.time()
    with store.cut() as cut:
        assert begin - 1 <= cut.now <= time.time() + 1


# Versions


def test_a_version_is_the_update_time_without_loss(store: FirestoreStore) -> None:
    """Two writes within a millisecond are two versions."""
    versions = set()
    store.commit(Commit(id="c", writes=(Scope(id="s"),)))
    for number in range(50):
        versions.add(scope(store).version)
        store.commit(Commit(id=f"c-{number}", writes=(replace(scope(store), seq=number),)))
    assert len(versions) == 50
    assert all(version.endswith("Z") for version in versions)


def test_a_write_that_changes_nothing_is_a_version_of_its_own(store: FirestoreStore) -> None:
    """Firestore keeps the update time of such a write: a claim that is taken twice would look untaken."""
    store.commit(Commit(id="c-1", writes=(Scope(id="s"),)))
    seen = scope(store)
    store.commit(Commit(id="c-2", writes=(seen,)))
    with pytest.raises(Stale):
        store.commit(Commit(id="c-3", writes=(seen,)))


# Lost answers


def test_a_lost_answer_is_told_apart_from_a_refusal(far_store: FirestoreStore, wiretap: Wiretap) -> None:
    """The commit was applied, but nobody heard of it."""
    far_store.commit(Commit(id="warm", writes=(job("warm"),)))
    lost = Commit(id="lost", writes=(job("a"),), notes=(Note(event="e", subject="job:a", job="a", id="lost-00"),))
    with wiretap.deaf(), pytest.raises(CommitUnknown, match="job/a"):
        far_store.commit(lost)
    assert far_store.applied(lost)


def test_a_commit_that_never_arrived_was_not_applied(far_store: FirestoreStore, wiretap: Wiretap) -> None:
    """Its answer is as unknown as the other's."""
    far_store.commit(Commit(id="warm", writes=(job("warm"),)))
    lost = Commit(id="lost", writes=(job("a"),))
    with wiretap.mute(), pytest.raises(CommitUnknown):
        far_store.commit(lost)
    far_store.close()
    assert not far_store.applied(lost)


def test_a_read_survives_a_connection_that_broke(far_store: FirestoreStore, wiretap: Wiretap) -> None:
    """An instance that was frozen between two events finds its connection gone."""
    far_store.commit(Commit(id="c", writes=(Scope(id="s"),)))
    wiretap.cut_connections()
    assert scope(far_store).id == "s"


def test_the_evidence_outlives_the_next_writer(store: FirestoreStore) -> None:
    """Documents lose their stamp, notes keep it."""
    note = Note(event="e", subject="job:a", job="a", id="c-00")
    commit = Commit(id="c", writes=(job("a"),), notes=(note,))
    store.commit(commit)
    with store.cut() as cut:
        there = cut.job("a")
    assert there is not None
    store.commit(Commit(id="d", writes=(replace(there, cause="later"),)))
    assert store.applied(commit)
    assert not store.applied(replace(commit, id="other"))


def test_no_server_is_said_in_time(firestore_emulator: FirestoreEmulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library's own patience of minutes."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{free_port()}")
    store = FirestoreStore(firestore_emulator.project, "lab", timeout=0.5)
    begin = time.monotonic()
    with pytest.raises(CloudUnavailable, match="tpufn-lab"), store.cut() as cut:
        cut.fleet()
    with pytest.raises(CommitUnknown):
        store.commit(Commit(id="c", writes=(job("a"),)))
    assert time.monotonic() - begin < 8


# What is stored


def test_deployments_do_not_see_each_other(firestore_emulator: FirestoreEmulator) -> None:
    """Two of them in one project have a database each."""
    names = [firestore_emulator.deployment() for _ in range(2)]
    assert len({database_id(name) for name in names}) == 2
    mine, other = (FirestoreStore(firestore_emulator.project, name) for name in names)
    mine.commit(Commit(id="c", writes=(job("a"), Slot(name="s", pool="p"))))
    with other.cut() as cut:
        assert cut.job("a") is None
        assert not cut.slots()


def test_what_firestore_would_refuse_as_fields_or_names(store: FirestoreStore) -> None:
    """Environment variables with reserved or empty names, values of any length, an entity with a slash."""
    spec = JobSpec(id="a", command="x" * 500_000, env={"__X__": "1", "": "2", "a.b/c": "3"}, bundle=Bundle(size=1))
    entity = "tpu:us-east1-d/t%2Fx"
    row = Row(entity=entity, effect=Effect(kind=Kind.SWEEP, entity=entity))
    store.commit(Commit(id="c", writes=(spec, row)))
    with store.cut() as cut:
        found, (other,) = cut.spec("a"), cut.rows()
        assert found is not None
        assert replace(found, version="") == spec
        assert cut.row(entity) == other
        assert other.entity == entity


def test_a_queue_of_more_keys_than_one_query_takes(store: FirestoreStore) -> None:
    """Every slot of a big fleet by name: the pages of several queries are one order."""
    keys = [f"slot:s-{number:03d}" for number in range(75)]
    writes = tuple(job(f"j{n:03d}", accepts=(key, keys[74 - n])) for n, key in enumerate(keys))
    store.commit(Commit(id="c", writes=writes))
    with store.cut() as cut:
        found = [j.id for j in cut.jobs_wanting(keys, states=(JobState.PENDING,), limit=60)]
        rest = [j.id for j in cut.jobs_wanting(keys, states=(JobState.PENDING,), after="1-j059")]
    assert found + rest == [f"j{n:03d}" for n in range(75)]


def test_outcomes_of_all_pools(store: FirestoreStore) -> None:
    """Newest first."""
    made = [CreateOutcome(id=str(n), pool=f"p{n % 2}", slot="s", at=n, result="granted", waited=1.0) for n in range(4)]
    store.commit(Commit(id="c", writes=tuple(made)))
    with store.cut() as cut:
        assert [o.id for o in cut.outcomes()] == ["3", "2", "1", "0"]
        assert [o.id for o in cut.outcomes(pool="p1")] == ["3", "1"]


def test_nothing_to_look_for_costs_nothing(store: FirestoreStore) -> None:
    """Ids that are no ids are missing documents, as in the other stores."""
    store.commit(Commit(id="nothing"))
    assert not store.applied(Commit(id="nothing"))
    with store.cut() as cut:
        assert (cut.job(""), cut.spec(""), cut.slot(""), cut.row(""), cut.attempt("none")) == (None,) * 5
        assert not cut.jobs_in((), limit=1)
        assert not cut.jobs_wanting((), states=(JobState.PENDING,))


# Cold start

_EXTRA = """
import sys
{first}
before = set(sys.modules)
import {module}
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}} - set(sys.stdlib_module_names)))
"""


@pytest.mark.parametrize(
    ("module", "first"),
    [("tpufn.adapters.firestore", "import google.cloud.firestore"), ("tpufn.adapters.pubsub", ""), ("tpufn.wire", "")],
)
def test_an_import_loads_nothing_beyond_its_client(module: str, first: str) -> None:
    """Cold start is each function's cost: the bus's client is loaded by those that publish."""
    code = _EXTRA.format(first=first, module=module)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(ran.stdout.split()) <= {"tpufn", "msgspec", "typing_extensions"}
