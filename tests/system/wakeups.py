"""What is deployed, read from where it is declared: Terraform's tables, so that tests run what people will get."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TABLES = ROOT / "terraform" / "main.tf"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One function: its size, and what wakes it."""

    concurrency: int
    timeout: int
    topics: tuple[str, ...]
    documents: tuple[str, ...]


def functions() -> Mapping[str, Row]:
    """By name, from the tables `sizes` and `woken_by`."""
    sizes, woken = _table("sizes"), _table("woken_by")
    return {name: _row(sizes[name], woken[name]) for name in sizes}


def topics() -> tuple[str, ...]:
    """The topics' short names, without the dead letters' own."""
    return tuple(_table("topics"))


def tries(topic: str) -> int:
    """Deliveries until a message of the topic goes to the dead letters."""
    return _number(_table("topics")[topic], "attempts")


def environment() -> frozenset[str]:
    """The variables that a function finds."""
    block = _TABLES.read_text().partition("\n  environment = {\n")[2].partition("\n  }\n")[0]
    return frozenset(re.findall(r"^ +(\w+) +=", block, re.M))


def _table(name: str) -> dict[str, str]:
    """Each row's text by its key."""
    block = _TABLES.read_text().partition(f"\n  {name} = {{\n")[2].partition("\n  }\n")[0]
    return dict(re.findall(r"^    ([\w-]+) += (\{.*\})$", block, re.M))


def _row(size: str, woken: str) -> Row:
    return Row(
        concurrency=_number(size, "concurrency"),
        timeout=_number(size, "timeout"),
        topics=_list(woken, "topics"),
        documents=_list(woken, "documents"),
    )


def _number(row: str, key: str) -> int:
    found = re.search(rf"\b{key} = (\d+)", row)
    assert found, f"no {key} in {row}"
    return int(found[1])


def _list(row: str, key: str) -> tuple[str, ...]:
    found = re.search(rf"\b{key} = \[(.*?)\]", row)
    assert found, f"no {key} in {row}"
    return tuple(re.findall(r'"([^"]*)"', found[1]))
