"""Ignore files behave as git's do: compared with git itself on random trees."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tpufn.spec.gitignore import is_ignored, read_patterns
from tpufn.spec.tree import scan

NAMES = ["a", "b", "ab", "a.py", "b.txt", "foo", " x", "a ", "é", "[a]", "a-b", "!a", "#a", "-"]
GLOBS = [
    *["a", "b", "ab", "foo", "*", "**", "***", "?", "??", "a*", "*.py", "b.txt", "a**b", "**a", "é", "[^b]*", "[!a]"],
    *["[ab]", "[a-b]", "[b-a]", "[]a]", "[!]a]", "[a", "[a-]", "[-a]*", "[\\a]", "[a\\-b]", "[[:alpha:]]", "[[:no:]]"],
    *["[[:alpha:]-z]", "\\", "\\a", "\\*", "\\!a", "\\#a", "#a", "!a", "\\[a\\]", "[+--]"],
]
ENDS = ["", "", "", "/", " ", "  ", "\\ ", "/ ", "//", "\t", "\r"]

PATHS = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join), min_size=1, max_size=12)
LINES = st.builds(
    lambda bang, slash, parts, end: bang + slash + "/".join(parts) + end,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(st.sampled_from(GLOBS), min_size=1, max_size=3),
    st.sampled_from(ENDS),
)
FILES = st.lists(LINES, max_size=6)


def plant(root: Path, paths: list[str]) -> None:
    for path in paths:
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        except OSError:
            continue  # a file is already where a directory would be


def as_git_sees(root: Path) -> set[str]:
    """Every file that git would add."""
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    command = ["git", "-c", "core.excludesFile=", "ls-files", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
    return {os.fsdecode(path) for path in listed.split(b"\0") if path}


@settings(max_examples=100, deadline=None)
@given(paths=PATHS, top=FILES, inner=FILES)
@example(paths=["a/b/ab", "a/foo"], top=["a/*", "!a/b"], inner=["*"])
@example(paths=["foo/a", "foo/b"], top=["foo/", "!foo/a"], inner=[])
def test_same_files_as_git(paths: list[str], top: list[str], inner: list[str]) -> None:
    """Negation, anchoring, `**`, classes, trailing blanks, nested files: all as git has them."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(os.path.realpath(name))
        plant(root, paths)
        (root / ".gitignore").write_text("\n".join(top) + "\n")
        if (root / "a").is_dir():
            (root / "a" / ".gitignore").write_text("\n".join(inner))
        wanted = as_git_sees(root)
        assert {member.path for member in scan(root).members if not member.is_directory} == wanted


@settings(max_examples=30, deadline=None)
@given(paths=PATHS, lines=FILES)
def test_same_answer_as_check_ignore(paths: list[str], lines: list[str]) -> None:
    """`git check-ignore` says the same of every path whose parents are not ignored."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        plant(root, paths)
        (root / ".gitignore").write_text("\n".join(lines))
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        command = ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin"]
        names = [entry.name for entry in root.iterdir() if entry.name != ".git"]
        asked = "\0".join(f"./{entry}" for entry in names).encode()
        answer = subprocess.run(command, cwd=root, input=asked, capture_output=True, check=False).stdout
        files = [read_patterns(b"", "\n".join(lines).encode())]
        ours = {f"./{n}" for n in names if is_ignored(files, os.fsencode(n), (root / n).is_dir())}
        assert {os.fsdecode(path) for path in answer.split(b"\0") if path} == ours


@pytest.mark.parametrize("first", [".tpufnignore", ".tpu-runnerignore", ".gitignore"])
def test_the_first_of_three_names_counts(first: str, tmp_path: Path) -> None:
    """One file decides, there and below; the others are ordinary files."""
    names = [".tpufnignore", ".tpu-runnerignore", ".gitignore"]
    for name in names[names.index(first) :]:
        (tmp_path / name).write_text(f"not-for{name}\n")
        (tmp_path / f"not-for{name}").touch()
    tree = scan(tmp_path)
    paths = {member.path for member in tree.members}
    assert tree.notes == [
        f"{first} counts, {name} does not: what only {name} lists is sent along (not-for{name}); list it in {first} too"
        for name in names[names.index(first) + 1 :]
    ]
    assert f"not-for{first}" not in paths
    assert all(f"not-for{name}" in paths for name in names[names.index(first) + 1 :])


def test_a_second_ignore_file_that_hides_nothing_more_is_no_news(tmp_path: Path) -> None:
    (tmp_path / ".tpufnignore").write_text("secret*\nlarge\n")
    (tmp_path / ".gitignore").write_text("secret.json\nnot-there\n")
    (tmp_path / "secret.json").touch()
    assert scan(tmp_path).notes == []


def test_the_advice_keeps_the_ignore_file_that_counts(tmp_path: Path) -> None:
    """A new file of another name would stop the old one from counting, and send its secrets along."""
    (tmp_path / "out").symlink_to("/etc")
    assert scan(tmp_path).problems == [
        "out is a link to the absolute path /etc; remove it, or list it in `.tpufnignore`"
    ]
    (tmp_path / ".gitignore").write_text("secret\n")
    assert scan(tmp_path).problems == ["out is a link to the absolute path /etc; remove it, or list it in `.gitignore`"]


def test_caches_of_tools_never_travel(tmp_path: Path) -> None:
    """Whatever the ignore file says."""
    (tmp_path / ".tpufnignore").write_text("!.git\n!__pycache__\n")
    for name in (".git", "src/__pycache__", ".venv", "node_modules"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x").touch()
    files = {member.path for member in scan(tmp_path).members if not member.is_directory}
    assert files == {".tpufnignore", "node_modules/x"}
