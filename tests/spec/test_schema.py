"""Schemas and the written reference: they say what the code does."""

from dataclasses import fields
from pathlib import Path

import pytest

import tpufn_cli
from tpufn.domain.errors import InputError
from tpufn.domain.events import Command
from tpufn.domain.notes import Note
from tpufn.spec.messages import CommandMessage, EventMessage
from tpufn.spec.schema import KINDS, json_schema, reference


def properties(node: object) -> list[tuple[str, dict[str, object]]]:
    """Every property of a schema, at any depth."""
    if not isinstance(node, dict):
        return [found for item in node for found in properties(item)] if isinstance(node, list) else []
    own = node.get("properties", {})
    return [*own.items(), *(found for value in node.values() for found in properties(value))]


@pytest.mark.parametrize("kind", KINDS)
def test_every_property_is_described(kind: str) -> None:
    """The schema feeds editors and the reference."""
    found = properties(json_schema(kind))
    assert found
    assert [name for name, value in found if not value.get("description")] == []


def test_five_kinds() -> None:
    """These are the documents that people and services exchange with us."""
    assert KINDS == ("submission", "command", "event", "job", "deployment")
    with pytest.raises(InputError, match='did you mean "job"'):
        json_schema("jobs")


def test_messages_mirror_the_domain() -> None:
    """The schema of a message cannot forget a field."""
    assert list(CommandMessage.model_fields) == [field.name for field in fields(Command)]
    assert list(EventMessage.model_fields) == [field.name for field in fields(Note)]


def test_the_written_reference_is_current() -> None:
    """Write it anew with `python -m tpufn.spec.reference > cli/tpufn_cli/guides/reference.md`."""
    guide = Path(next(iter(tpufn_cli.__path__))) / "guides" / "reference.md"
    assert guide.read_text("utf-8") == reference()
