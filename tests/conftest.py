"""The emulators, once a session, for every suite that talks to Google's real client libraries."""

import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from .emulators import FirestoreEmulator, PubSubEmulator, run_firestore, run_pubsub

with suppress(ValueError):  # not the main thread
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background would hand "ignore" on


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
