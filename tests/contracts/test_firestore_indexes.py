"""The shipped index list against what the queries of this session needed. It runs after the other contracts."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tpufn.adapters import firestore, firestore_layout
from tpufn.adapters.firestore import FirestoreStore
from tpufn.domain.job import DEMAND, JobState
from tpufn.domain.notes import Note
from tpufn.ports import Commit

from ..emulators import FirestoreEmulator
from .test_store import DOCUMENTS

SHIPPED = json.loads(Path(firestore.__file__).with_name("firestore_indexes.json").read_text())


@pytest.fixture
def store(firestore_emulator: FirestoreEmulator) -> FirestoreStore:
    return FirestoreStore(firestore_emulator.project, firestore_emulator.deployment())


def ask_everything(store: FirestoreStore) -> None:
    """Every query of the port in every shape, so that this module says the same when it runs alone."""
    with store.cut() as cut:
        cut.slots()
        cut.scopes()
        cut.rows()
        cut.jobs_wanting([f"key-{number}" for number in range(31)], states=DEMAND)
        cut.jobs_wanting(("key",), states=(JobState.PENDING,), after="rank")
        for newest in (False, True):
            cut.jobs_in(tuple(JobState), limit=1, newest=newest)
            cut.jobs_in((JobState.PENDING,), limit=1, newest=newest)
        cut.jobs_due(before=1.0)
        cut.attempts("a")
        cut.history("a")
        cut.feed()
        cut.outcomes()
        cut.outcomes(pool="p")


def shape(index: dict[str, Any], group: str) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """An index without its name's part, which Firestore adds by itself."""
    fields = [(f["fieldPath"], f.get("order") or f["arrayConfig"]) for f in index["fields"]]
    return group, index["queryScope"], tuple(field for field in fields if field[0] != "__name__")


def test_every_index_that_a_query_needs_is_shipped_and_no_other(
    store: FirestoreStore, firestore_emulator: FirestoreEmulator
) -> None:
    """Production refuses a query without its index; an index that no query uses makes every write slower."""
    ask_everything(store)
    used = [
        shape(index, index["name"].split("/collectionGroups/")[1].split("/")[0])
        for name in firestore_emulator.deployments
        for index in firestore_emulator.index_usage(f"tpufn-{name}")
    ]
    shipped = [shape(index, index["collectionGroup"]) for index in SHIPPED["indexes"]]
    assert set(used) == set(shipped)
    assert len(shipped) == len(set(shipped))


def stored(store: FirestoreStore, groups: Iterable[str]) -> set[tuple[str, str]]:
    """(collection, field) of everything that is stored."""
    client = store._database.client
    return {
        (group, name)
        for group in groups
        for found in client.collection_group(group).stream(timeout=10)
        for name in found.to_dict() or ()
    }


def test_every_stored_field_has_its_indexes_declared(store: FirestoreStore) -> None:
    """Firestore indexes by itself whatever is not exempt: long texts, and times that grow with every write."""
    notes = (Note(event="e", subject="", job="a", id="n-1"), Note(event="e", subject="", slot="s-1", id="n-2"))
    store.commit(Commit(id="c", writes=tuple(DOCUMENTS.values()), notes=notes))
    groups = {*firestore_layout.COLLECTIONS.values(), "attempts", "history"}
    declared = {(each["collectionGroup"], each["fieldPath"]) for each in SHIPPED["fieldOverrides"]}
    assert stored(store, groups) == declared
    assert len(declared) == len(SHIPPED["fieldOverrides"])


def test_statistics_expire() -> None:
    """Both TTL fields, and nothing else: a job's own history stays."""
    expiring = [(each["collectionGroup"], each["fieldPath"]) for each in SHIPPED["fieldOverrides"] if each.get("ttl")]
    assert sorted(expiring) == [("history", "expires_at"), ("outcomes", "expires_at")]
