"""THE conformance suite of the port `Store`: every implementation runs it."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tpufn.adapters.firestore import FirestoreStore
from tpufn.adapters.memory import MemoryStore
from tpufn.adapters.sqlite import SqliteStore
from tpufn.domain.attempt import Attempt, AttemptState, Outcome
from tpufn.domain.capacity import Class, CreateOutcome, Scope
from tpufn.domain.effects import Effect, Kind, Row
from tpufn.domain.errors import Stale
from tpufn.domain.fleet import Fleet, Pool
from tpufn.domain.job import DEMAND, Bundle, Cache, Job, JobSpec, JobState, Priority, Retries
from tpufn.domain.notes import Note
from tpufn.domain.slot import Lease, Slot, SlotState, Worker
from tpufn.ports import Commit
from tpufn.simulation.clock import EPOCH, VirtualClock

Store = SqliteStore | MemoryStore | FirestoreStore
Make = Callable[[Path, VirtualClock], Store]
_EMBEDDED: dict[str, Make] = {
    "sqlite": lambda path, clock: SqliteStore(path / "state.sqlite", clock),
    "memory": lambda path, clock: MemoryStore(clock),
}


@dataclass
class Desk:
    """A store with its clock; `write` commits documents, the stored versions filled in on request."""

    store: Store
    clock: VirtualClock
    commits: int = 0

    def write(self, *documents: Any, deletes: tuple[Any, ...] = (), notes: tuple[Note, ...] = ()) -> Commit:
        self.commits += 1
        commit = Commit(id=f"commit-{self.commits}", writes=documents, deletes=deletes, notes=notes)
        self.store.commit(commit)
        return commit

    def job(self, id: str) -> Job:
        with self.store.cut() as cut:
            job = cut.job(id)
        assert job is not None
        return job

    def wanting(self, *keys: str, states: Any = (JobState.PENDING,), **how: Any) -> list[str]:
        with self.store.cut() as cut:
            return [job.id for job in cut.jobs_wanting(keys, states=states, **how)]


@pytest.fixture(params=[*_EMBEDDED, "firestore"])
def make(request: pytest.FixtureRequest) -> Make:
    """How an empty store is made."""
    if request.param in _EMBEDDED:
        return _EMBEDDED[request.param]
    emulator = request.getfixturevalue("firestore_emulator")
    return lambda path, clock: FirestoreStore(emulator.project, emulator.deployment())


embedded = pytest.mark.parametrize("make", _EMBEDDED, indirect=True)
"""What only the embedded stores have: a clock that is given to them, listeners, a feed of all notes."""


@pytest.fixture
def desk(make: Make, tmp_path: Path) -> Iterator[Desk]:
    clock = VirtualClock()
    store = make(tmp_path, clock)
    yield Desk(store, clock)
    store.close()


def job(id: str, **changes: Any) -> Job:
    return Job(id=id, **({"rank": f"1-{id}", "accepts": ("v6e-16@us-east1",), "submitted_at": EPOCH} | changes))


LEASE = Lease(slot="s-1", generation=3, fence=2, attempt="a.1")
DOCUMENTS = {
    "job": job("a", priority=Priority.HIGH, buckets={"us-east1": "b"}, caches=("pip",), queue_deadline_at=EPOCH + 5),
    "spec": JobSpec(
        id="a",
        command="echo 'ü\n'",
        tpu=("v6e-16",),
        bundle=Bundle(sha256="ab", size=3),
        caches=(Cache(key="pip", path=".cache"),),
        env={"A": "$1"},
        retries=Retries(application=2, application_exit_codes=(3,), infrastructure=None),
        max_runtime=None,
    ),
    "attempt": Attempt(
        job="a",
        number=1,
        lease=LEASE,
        tpu="t",
        pool="p",
        zone="z",
        region="r",
        bucket="b",
        workers=(Worker(address="10.0.0.1", reach="x:22"),),
        state=AttemptState.STOPPING,
        outcome=Outcome.FAILED,
        exit_codes=(0, None, 137),
    ),
    "slot": Slot(name="s-1", pool="p", state=SlotState.BUSY, lease=LEASE, caches=("pip",)),
    "scope": Scope(id="zone:z", until=float("inf"), cls=Class.STRUCTURAL, cause="no", hits=2),
    "outcome": CreateOutcome(id="s-1-g3-granted", pool="p", slot="s-1", at=EPOCH + 0.25, result="granted", waited=1.5),
    "row": Row(
        entity="slot:s-1",
        effect=Effect(kind=Kind.CREATE, entity="slot:s-1", generation=3),
        queued=Effect(kind=Kind.DELETE, entity="slot:s-1", generation=3),
    ),
    "fleet": Fleet(name="lab", pools=(Pool(id="p", type="v6e-16", zone="us-east1-d", count=2),), buckets={"b": "r"}),
}


def read_back(desk: Desk) -> dict[str, Any]:
    with desk.store.cut() as cut:
        return {
            "job": cut.job("a"),
            "spec": cut.spec("a"),
            "attempt": cut.attempt("a.1"),
            "slot": cut.slot("s-1"),
            "scope": next(iter(cut.scopes()), None),
            "outcome": next(iter(cut.outcomes(pool="p")), None),
            "row": cut.row("slot:s-1"),
            "fleet": cut.fleet(),
        }


# Documents


def test_every_kind_of_document_comes_back_as_it_was(desk: Desk) -> None:
    """Nested values, missing numbers, infinity and unicode included."""
    desk.write(*DOCUMENTS.values())
    for name, found in read_back(desk).items():
        assert found.version, name
        assert replace(found, version="") == DOCUMENTS[name]


def test_an_empty_store_has_nothing(desk: Desk) -> None:
    """A missing document is None, a missing listing is empty."""
    assert set(read_back(desk).values()) == {None}
    with desk.store.cut() as cut:
        assert not cut.slots()
        assert not cut.rows()
        assert not cut.attempts("a")
        assert not cut.history("a")
        assert not cut.jobs_in(tuple(JobState), limit=5)


@embedded
def test_the_clock_of_a_cut_is_the_stores(desk: Desk) -> None:
    """`now` is of the cut, and does not move while it is open."""
    with desk.store.cut() as cut:
        desk.clock.advance(5)
        assert cut.now == EPOCH
    with desk.store.cut() as cut:
        assert cut.now == EPOCH + 5


# Versions


def test_a_write_needs_the_version_that_is_stored(desk: Desk) -> None:
    """Compare-and-set: a second writer that read the same version loses."""
    desk.write(job("a"))
    seen = desk.job("a")
    desk.write(replace(seen, cause="first"))
    with pytest.raises(Stale, match="job/a"):
        desk.write(replace(seen, cause="second"))
    assert desk.job("a").cause == "first"


def test_no_version_means_that_it_must_not_exist(desk: Desk) -> None:
    """Create is conditional too."""
    desk.write(job("a"))
    with pytest.raises(Stale):
        desk.write(job("a", cause="again"))


def test_a_version_of_what_is_gone_is_stale(desk: Desk) -> None:
    """A deleted document does not come back by an old writer."""
    desk.write(DOCUMENTS["row"])
    row = read_back(desk)["row"]
    desk.write(deletes=(row,))
    assert read_back(desk)["row"] is None
    with pytest.raises(Stale):
        desk.write(row)
    with pytest.raises(Stale):
        desk.write(deletes=(row,))


def test_a_delete_needs_the_version_that_is_stored(desk: Desk) -> None:
    """Somebody who changed it meanwhile keeps it."""
    desk.write(DOCUMENTS["row"])
    row = read_back(desk)["row"]
    desk.write(replace(row, tries=1))
    with pytest.raises(Stale):
        desk.write(deletes=(row,))
    assert read_back(desk)["row"].tries == 1


def test_a_document_that_comes_again_has_another_version(desk: Desk) -> None:
    """Versions never repeat, also not over a deletion: no old reader takes the new one for his."""
    desk.write(DOCUMENTS["row"])
    first = read_back(desk)["row"]
    desk.write(deletes=(first,))
    desk.write(DOCUMENTS["row"])
    assert read_back(desk)["row"].version != first.version


def test_one_document_twice_in_a_batch_is_stale(desk: Desk) -> None:
    """The second write cannot have read the first."""
    with pytest.raises(Stale):
        desk.write(job("a"), job("a", cause="again"))
    with desk.store.cut() as cut:
        assert cut.job("a") is None


# Atomicity


def test_a_stale_batch_leaves_nothing_behind(desk: Desk) -> None:
    """Not the documents before the stale one, not its notes, not its deletes, no index entry."""
    desk.write(DOCUMENTS["row"], job("old"))
    row = read_back(desk)["row"]
    note = Note(event="e", subject="job:new", job="new", id="n-1")
    with pytest.raises(Stale):
        desk.write(job("new"), replace(desk.job("old"), version="999"), deletes=(row,), notes=(note,))
    with desk.store.cut() as cut:
        assert cut.job("new") is None
        assert cut.row(row.entity) == row
        assert not cut.history("new")
    assert desk.wanting("v6e-16@us-east1") == ["old"]


def test_one_winner_of_many_threads(desk: Desk) -> None:
    """Every thread adds one by compare-and-set; nothing is lost."""
    desk.write(Scope(id="s"))

    def add() -> None:
        for _ in range(20):
            while True:
                with desk.store.cut() as cut:
                    (scope,) = cut.scopes()
                try:
                    desk.store.commit(Commit(id="any", writes=(replace(scope, seq=scope.seq + 1),)))
                    break
                except Stale:
                    continue
        desk.store.close()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with desk.store.cut() as cut:
        assert cut.scopes()[0].seq == 80


# Cuts


def test_a_cut_is_of_one_moment(desk: Desk) -> None:
    """What is committed while it is open is not seen, neither by reads nor by queries."""
    desk.write(job("a"), Slot(name="s-1", pool="p"))
    with desk.store.cut() as cut:
        assert cut.now, "the first read, at the latest, makes the moment"
        elsewhere(desk, lambda: desk.write(replace(desk.job("a"), state=JobState.ACTIVE), job("b"), job("c")))
        before = cut.job("a")
        assert before is not None
        assert before.state is JobState.PENDING
        assert cut.job("b") is None
        assert [j.id for j in cut.jobs_wanting(("v6e-16@us-east1",), states=(JobState.PENDING,))] == ["a"]
        assert [j.id for j in cut.jobs_in((JobState.PENDING,), limit=9)] == ["a"]
    assert desk.wanting("v6e-16@us-east1") == ["b", "c"]


def elsewhere(desk: Desk, work: Callable[[], Any]) -> None:
    """In a thread of its own, to its end."""

    def call() -> None:
        work()
        desk.store.close()

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


# Lost answers


def test_applied_knows_the_commit_that_was_applied(desk: Desk) -> None:
    """By the id that every write is stamped with, until somebody else writes."""
    commit = desk.write(job("a"), DOCUMENTS["slot"])
    assert desk.store.applied(commit)
    assert not desk.store.applied(replace(commit, id="another"))
    desk.write(replace(desk.job("a"), cause="later"))
    assert desk.store.applied(commit), "the slot still carries its stamp"


def test_applied_denies_the_commit_that_was_not(desk: Desk) -> None:
    """Refused, or never sent."""
    desk.write(job("a"))
    refused = Commit(id="refused", writes=(job("a"),))
    with pytest.raises(Stale):
        desk.store.commit(refused)
    assert not desk.store.applied(refused)
    assert not desk.store.applied(Commit(id="never", writes=(job("b"),)))


# Listeners


@embedded
def test_the_listener_hears_every_commit_once_and_no_refused_one(desk: Desk) -> None:
    """The embedded engine's triggers; the commit is readable by then."""
    heard: list[str] = []

    def listen(commit: Commit) -> None:
        assert desk.store.applied(commit)
        heard.append(commit.id)

    desk.store.on_commit(listen)
    desk.write(job("a"))
    with pytest.raises(Stale):
        desk.write(job("a"))
    assert heard == ["commit-1"]


# Listings


def test_listings_are_in_the_order_of_their_keys(desk: Desk) -> None:
    """Slots by name, scopes by id, rows by entity, attempts by number."""
    names = ("s-2", "s-10", "s-1")
    desk.write(*(Slot(name=name, pool="p") for name in names))
    desk.write(*(Scope(id=name) for name in names))
    desk.write(*(Row(entity=name, effect=Effect(kind=Kind.STOP, entity=name)) for name in names))
    attempts = [replace(DOCUMENTS["attempt"], number=n) for n in (10, 2, 1)]
    desk.write(*attempts, replace(DOCUMENTS["attempt"], job="other"))
    with desk.store.cut() as cut:
        assert [s.name for s in cut.slots()] == sorted(names)
        assert [s.id for s in cut.scopes()] == sorted(names)
        assert [r.entity for r in cut.rows()] == sorted(names)
        assert [r.entity for r in cut.rows(limit=2)] == sorted(names)[:2]
        assert [a.number for a in cut.attempts("a")] == [1, 2, 10]


def test_outcomes_are_of_a_pool_newest_first(desk: Desk) -> None:
    """Statistics: a few of the last."""
    for at in (3.0, 1.0, 2.0):
        desk.write(replace(DOCUMENTS["outcome"], id=f"o-{at}", at=EPOCH + at))
    desk.write(replace(DOCUMENTS["outcome"], id="elsewhere", pool="q"))
    with desk.store.cut() as cut:
        assert [o.id for o in cut.outcomes(pool="p")] == ["o-3.0", "o-2.0", "o-1.0"]
        assert [o.id for o in cut.outcomes(pool="p", limit=1)] == ["o-3.0"]


def test_jobs_in_states_are_in_the_order_of_their_submission(desk: Desk) -> None:
    """Over several states together, oldest or newest first, ties by id."""
    desk.write(
        job("late", submitted_at=EPOCH + 9),
        job("first", submitted_at=EPOCH, state=JobState.ACTIVE),
        job("tie-b", submitted_at=EPOCH + 1),
        job("tie-a", submitted_at=EPOCH + 1, state=JobState.ACTIVE),
        job("other", state=JobState.FAILED),
    )
    states = (JobState.PENDING, JobState.ACTIVE)
    with desk.store.cut() as cut:
        assert [j.id for j in cut.jobs_in(states, limit=9)] == ["first", "tie-a", "tie-b", "late"]
        assert [j.id for j in cut.jobs_in(states, limit=2)] == ["first", "tie-a"]
        assert [j.id for j in cut.jobs_in(states, limit=3, newest=True)] == ["late", "tie-b", "tie-a"]


def test_jobs_due_are_those_with_a_passed_backoff_or_queue_deadline(desk: Desk) -> None:
    """Waiting ones by their backoff; pending ones that never ran by their deadline."""
    desk.write(
        job("backoff", state=JobState.WAITING, due_at=EPOCH + 10),
        job("deadline", queue_deadline_at=EPOCH + 10),
        job("later", state=JobState.WAITING, due_at=EPOCH + 11),
        job("proof", state=JobState.WAITING),
        job("ran-before", queue_deadline_at=EPOCH + 1, attempt=1, region_started=True),
        job("active", state=JobState.ACTIVE, due_at=EPOCH + 1, queue_deadline_at=EPOCH + 1),
    )
    with desk.store.cut() as cut:
        assert [j.id for j in cut.jobs_due(before=EPOCH + 9)] == []
        assert [j.id for j in cut.jobs_due(before=EPOCH + 10)] == ["backoff", "deadline"]
        assert [j.id for j in cut.jobs_due(before=EPOCH + 10, limit=1)] == ["backoff"]


def test_a_job_leaves_the_listings_of_its_old_state(desk: Desk) -> None:
    """Indexes follow every write."""
    desk.write(job("a", queue_deadline_at=EPOCH))
    desk.write(replace(desk.job("a"), state=JobState.ACTIVE, accepts=("other",)))
    with desk.store.cut() as cut:
        assert not cut.jobs_in((JobState.PENDING,), limit=9)
        assert not cut.jobs_due(before=EPOCH + 99)
    assert desk.wanting("v6e-16@us-east1", "other") == []
    desk.write(replace(desk.job("a"), state=JobState.WAITING))
    assert desk.wanting("v6e-16@us-east1", states=DEMAND) == []
    assert desk.wanting("other", states=DEMAND) == ["a"]


# The head of the queue


def test_jobs_wanting_are_merged_by_rank_over_keys_and_states(desk: Desk) -> None:
    """One order over everything asked for, each job once, however many of the keys it has."""
    desk.write(
        job("c", rank="3", accepts=("x", "y")),
        job("a", rank="1", accepts=("y",)),
        job("b", rank="2", accepts=("x",), state=JobState.WAITING),
        job("d", rank="4", accepts=("z",)),
        job("e", rank="0", accepts=("x",), state=JobState.ACTIVE),
    )
    assert desk.wanting("x", "y", states=DEMAND) == ["a", "b", "c"]
    assert desk.wanting("x", "y") == ["a", "c"]
    assert desk.wanting("nothing") == []
    assert desk.wanting() == []


def test_jobs_wanting_go_on_after_a_rank(desk: Desk) -> None:
    """Paging by the last rank sees every job once."""
    desk.write(*(job(f"j{i:03d}", rank=f"{i:03d}", accepts=("x", "y") if i % 3 else ("x",)) for i in range(25)))
    seen: list[str] = []
    while page := desk.wanting("y", "x", after=f"{len(seen) - 1:03d}" if seen else "", limit=7):
        seen += page
    assert seen == [f"j{i:03d}" for i in range(25)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_jobs_wanting_is_what_a_scan_over_everything_finds(
    make: Make, tmp_path_factory: Any, data: st.DataObject
) -> None:
    """Every store against the definition, over random queues and changes."""
    keys = st.sampled_from(["k1", "k2", "k3", "k4"])
    states = st.sampled_from([JobState.PENDING, JobState.WAITING, JobState.ACTIVE])
    fields = st.tuples(st.lists(keys, unique=True).map(tuple), states, st.integers(0, 99))
    first = data.draw(st.lists(fields, max_size=12))
    second = data.draw(st.lists(fields, min_size=len(first), max_size=len(first)))
    wanted, cursor, limit = data.draw(st.sets(keys)), data.draw(st.integers(0, 99)), data.draw(st.integers(1, 8))
    clock = VirtualClock()
    store = make(tmp_path_factory.mktemp("store"), clock)
    desk = Desk(store, clock)
    for changes in (first, second):
        for i, (accepts, state, rank) in enumerate(changes):
            version = "" if changes is first else desk.job(f"j{i}").version
            fresh = job(f"j{i}", accepts=accepts, state=state, rank=f"{rank:02d}-{i}", version=version)
            desk.write(fresh)
    expected = sorted(
        (f"{rank:02d}-{i}", f"j{i}")
        for i, (accepts, state, rank) in enumerate(second)
        if state in DEMAND and wanted & set(accepts) and f"{rank:02d}-{i}" > f"{cursor:02d}"
    )
    found = desk.wanting(*wanted, states=DEMAND, after=f"{cursor:02d}", limit=limit)
    assert found == [id for _, id in expected[:limit]]
    store.close()


# Notes


def note(number: int, job: str = "a", **changes: Any) -> Note:
    return Note(**({"event": "e", "subject": f"job:{job}", "job": job, "id": f"n-{number}"} | changes))


def test_history_is_in_the_order_of_the_commits(desk: Desk) -> None:
    """Whatever the notes' ids and times; other jobs' notes are not in it."""
    desk.write(job("a"), notes=(note(9, data={"n": 1, "x": None, "ok": True}), note(8)))
    desk.write(job("b"), notes=(note(7, "b"), note(1, at=1.0)))
    with desk.store.cut() as cut:
        assert [n.id for n in cut.history("a")] == ["n-9", "n-8", "n-1"]
        assert cut.history("a")[0].data == {"n": 1, "x": None, "ok": True}
        assert [n.id for n in cut.history("a", after="n-9")] == ["n-8", "n-1"]
        assert [n.id for n in cut.history("a", after="n-9", limit=1)] == ["n-8"]
        assert [n.id for n in cut.history("a", after="n-1")] == []
        assert [n.id for n in cut.history("a", after="unknown")] == ["n-9", "n-8", "n-1"]


def test_a_note_is_told_once(desk: Desk) -> None:
    """A commit that is repeated after a lost answer does not tell its notes twice."""
    desk.write(notes=(note(1, reason="first"),))
    desk.write(notes=(note(1, reason="second"), note(2)))
    with desk.store.cut() as cut:
        assert [(n.id, n.reason) for n in cut.history("a")] == [("n-1", "first"), ("n-2", "")]


def test_the_feed_of_all_notes_can_be_resumed(desk: Desk) -> None:
    """People and assistants follow everything that happens, over all jobs and slots, from where they left off."""
    for number, job in ((1, "a"), (2, "b"), (3, "")):
        desk.write(notes=(note(number, job),))
    with desk.store.cut() as cut:
        assert [n.id for n in cut.feed()] == ["n-1", "n-2", "n-3"]
        assert [n.id for n in cut.feed(after="n-1")] == ["n-2", "n-3"]
        assert [n.id for n in cut.feed(limit=2)] == ["n-2", "n-3"]
        assert [n.id for n in cut.feed(after="n-3")] == []


def test_the_embedded_store_is_there_again_in_another_process(tmp_path: Path) -> None:
    """What was committed survives; a second handle on the same file sees it at once."""
    clock = VirtualClock()
    first, second = (SqliteStore(tmp_path / "state.sqlite", clock) for _ in range(2))
    Desk(first, clock).write(*DOCUMENTS.values())
    assert {name: replace(d, version="") for name, d in read_back(Desk(second, clock)).items()} == DOCUMENTS
    first.close()
    second.close()
