"""The agent must run by itself on whatever Python a TPU image has."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tpufn.worker import archive

SOURCES = archive.modules()


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_grammar_of_python_3_8(name):
    """The oldest TPU images have nothing newer."""
    ast.parse(SOURCES[name], feature_version=(3, 8))


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_imports_only_the_standard_library(name):
    """Nothing can be installed on a worker before the agent runs."""
    for node in ast.walk(ast.parse(SOURCES[name])):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        assert {n.partition(".")[0] for n in names} <= sys.stdlib_module_names | {"__future__", "tpufn_worker"}


def test_archive_is_reproducible():
    """Its hash is its version: the same sources must never look like another agent."""
    archive.archive.cache_clear()
    first = archive.archive()
    archive.archive.cache_clear()
    assert archive.archive() == first
    assert len(archive.version()) == 12


def test_archive_runs_as_one_file(tmp_path: Path):
    """This one file is all that is delivered."""
    file = tmp_path / "agent.pyz"
    file.write_bytes(archive.archive())
    command = [sys.executable, "-I", "-S", "-E", str(file), "status", "--home", str(tmp_path / "host")]
    done = subprocess.run(command, input=b"{}", capture_output=True, check=True)
    assert json.loads(done.stdout)["attempts"] == {}


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        (["launch"], "{}"),
        (["dance", "--home", "x"], "{}"),
        (["launch", "--home", "x"], "{"),
        (["launch", "--home", "x"], '{"attempt": "a.1"}'),
        (["launch", "--home", "x"], '{"attempt": "../a", "lease": {"generation": 1, "fence": 1}, "worker": 0}'),
    ],
)
def test_wrong_input_is_answered(tmp_path: Path, arguments, order):
    """A caller can only read JSON: a traceback would be taken for a lost connection."""
    file = tmp_path / "agent.pyz"
    file.write_bytes(archive.archive())
    command = [sys.executable, "-I", str(file), *arguments]
    done = subprocess.run(command, input=order.encode(), capture_output=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (2, b"")
    assert json.loads(done.stdout)["answer"] == "wrong"
