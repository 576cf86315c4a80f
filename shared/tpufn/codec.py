"""Documents <-> JSON-ready dictionaries. Decoding is tolerant: unknown fields are ignored, missing ones are defaults.

`version` is the store's, not the document's: it is never part of the body.
"""

from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from tpufn.domain.attempt import Attempt
from tpufn.domain.capacity import CreateOutcome, Scope
from tpufn.domain.effects import Row
from tpufn.domain.errors import CloudUnavailable
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job, JobSpec
from tpufn.domain.slot import Slot
from tpufn.ports import Document

T = TypeVar("T")

SCHEMA = 1
"""The version of the documents' shape, stored with each of them."""


def encode(document: Document) -> dict[str, Any]:
    """The body of a document."""
    body: dict[str, Any] = msgspec.to_builtins(document)
    del body["version"]
    return {key: _json_ready(value) for key, value in body.items()} | {"schema": SCHEMA}


def _json_ready(value: Any) -> Any:
    """JSON has no infinity (a cool-down without end); `decode` reads its name as a number again."""
    return "Infinity" if value == float("inf") else value


def decode(type: type[T], body: dict[str, Any], version: str) -> T:
    """The document with the version that the store read. Raises CloudUnavailable for one of a newer tpufn's shape."""
    if body.get("schema", SCHEMA) > SCHEMA:
        shape = f"the {type.__name__.lower()} is of schema {body['schema']}, and this tpufn knows {SCHEMA}"
        raise CloudUnavailable(f"{shape}: a newer one has written it; upgrade this one (pip install -U tpufn)")
    return replace(msgspec.convert(body, type, strict=False), version=version)  # type: ignore[type-var]


def reference(document: Document) -> tuple[str, str]:
    """(kind, id): where a document lives."""
    match document:
        case Job(id=id):
            return "job", id
        case JobSpec(id=id):
            return "spec", id
        case Attempt():
            return "attempt", document.id
        case Slot(name=name):
            return "slot", name
        case Scope(id=id):
            return "scope", id
        case CreateOutcome(id=id):
            return "outcome", id
        case Row(entity=entity):
            return "outbox", entity
        case Fleet():
            return "fleet", "current"
