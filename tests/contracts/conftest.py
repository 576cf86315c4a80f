"""Order: what is said about the queries of a whole suite comes after it."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name == "test_firestore_indexes.py")
