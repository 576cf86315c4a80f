"""The README: what it promises must be so."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks() -> list[str]:
    return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```", README, re.S | re.M)]


def test_the_first_two_commands_do_all_the_set_up() -> None:
    """A newcomer pastes one line each: the demo, and the tests."""
    first, second = blocks()[:2]
    for line in (first, second):
        assert "\n" not in line
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install")
    assert first.endswith("tpufn demo")
    assert second.endswith("pytest")


def test_every_picture_is_there() -> None:
    """A broken picture is the first thing that a newcomer sees."""
    for path in re.findall(r"!\[[^]]*\]\(([^)]+)\)", README):
        assert (ROOT / path).is_file(), path


def test_every_file_that_is_named_is_there() -> None:
    """Folders and files of the table of contents, benchmarks and links move."""
    named = set(re.findall(r"`((?:shared|cli|tests|terraform|functions)/[\w./-]+)`", README))
    named |= set(re.findall(r"python (tests/benchmarks/\w+\.py)", README))
    named |= set(re.findall(r"\]\(([\w./-]+)\)", README))
    assert named
    for path in sorted(named):
        assert (ROOT / path).exists(), path


def test_the_table_of_reads_and_writes_is_what_is_measured() -> None:
    """What an event costs is a promise; the figures are the same for any length of the queue."""
    measured = benchmark("event_cost").measure("sqlite", 100)
    rows = [f"| {kind} | {cost['reads']} | {cost['writes']} |" for kind, cost in measured.items()]
    table = README.partition("<!-- event-cost -->")[2].partition("<!-- /event-cost -->")[0]
    assert table.strip().splitlines()[2:] == rows


def benchmark(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tests" / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
