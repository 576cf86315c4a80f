"""What is remembered: atomically, privately, and never fatally."""

import os
import threading
from pathlib import Path

import pytest

from tpufn_cli.console.latency import GOOD_FOR, OFFLINE, measure, shown
from tpufn_cli.console.memory import Memory


def test_it_survives_the_program(tmp_path: Path) -> None:
    """Stars and cursor of one deployment, the person's name for all."""
    first = Memory(tmp_path, "sandbox lab in /x")
    first.set_stars({"b", "a"})
    first.set_cursor("b")
    first.set_login("ada_example_com")
    again, other = Memory(tmp_path, "sandbox lab in /x"), Memory(tmp_path, "cloud prod in y")
    assert (again.stars, again.cursor, again.login) == ({"a", "b"}, "b", "ada_example_com")
    assert (other.stars, other.cursor, other.login) == (frozenset(), "", "ada_example_com")


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"stars": 3, "set_up": [], "latency": "x", "cursor": {}}'])
def test_a_damaged_file_is_a_first_run(tmp_path: Path, damage: str) -> None:
    """And it works again from the next write on."""
    memory = Memory(tmp_path, "lab")
    memory.set_stars({"a"})
    memory.set_login("x")
    for file in (tmp_path / "console").glob("*.json"):
        file.write_text(damage)
    assert (memory.stars, memory.cursor, memory.set_up(), memory.latencies()) == (frozenset(), "", {}, {})
    memory.note_set_up("tpu-1", "ok")
    memory.add_latencies({"us-east1": (9.0, 1.0)})
    assert memory.set_up() == {"tpu-1": "ok"}
    assert memory.latencies() == {"us-east1": (9.0, 1.0)}


def test_files_are_private(tmp_path: Path) -> None:
    """They name machines and people."""
    Memory(tmp_path, "lab").set_stars({"a"})
    modes = {os.stat(path).st_mode & 0o777 for path in (tmp_path / "console").glob("*.json")}
    assert modes == {0o600}


def test_each_announcement_has_one_claimant(tmp_path: Path) -> None:
    """Two consoles open side by side do not both announce; nothing is lost between their writes."""
    won: list[str] = []

    def claim() -> None:
        memory = Memory(tmp_path, "lab")
        won.extend(f"note-{n}" for n in range(20) if memory.claim_announcement(f"note-{n}"))

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(f"note-{n}" for n in range(20))


def test_latency_is_measured_once_a_day(tmp_path: Path) -> None:
    """Offline is tried again sooner, and shows a dash."""
    memory, asked = Memory(tmp_path, "lab"), []

    def connect(address: tuple[str, int]) -> float:
        asked.append(address[0])
        return 42.4 if address[0].startswith("us-east1") else OFFLINE

    regions = ("us-east1", "us-west4")
    first = measure(regions, memory, now=1000.0, connect=connect)
    assert (shown("us-east1-d", first), shown("us-west4-a", first)) == ("~42ms", "-")
    measure(regions, memory, now=2000.0, connect=connect)
    assert asked == ["us-east1-run.googleapis.com", *["us-west4-run.googleapis.com"] * 2]
    measure(("us-east1",), memory, now=1001.0 + GOOD_FOR, connect=connect)
    assert asked[-1] == "us-east1-run.googleapis.com"
