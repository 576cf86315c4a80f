"""The emulators, once a session, for every suite that talks to Google's real client libraries."""

from collections.abc import Iterator

import pytest

from .emulators import FirestoreEmulator, PubSubEmulator, run_firestore, run_pubsub


@pytest.fixture(scope="session")
def firestore_emulator() -> Iterator[FirestoreEmulator]:
    """The real client finds it by the environment, which child processes inherit."""
    with run_firestore() as emulator, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRESTORE_EMULATOR_HOST", emulator.host)
        yield emulator


@pytest.fixture(scope="session")
def pubsub_emulator() -> Iterator[PubSubEmulator]:
    with run_pubsub() as emulator, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", emulator.host)
        yield emulator
