"""The frame around all commands: help, start-up, errors and exit codes."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tpufn.domain.errors import CloudUnavailable, Conflict, InputError, NotFound
from tpufn_cli.catalog import COMMANDS

HEAVY = ("google", "rich", "pydantic", "yaml", "grpc", "paramiko", "sqlite3", "asyncio", "tpufn.client", "tpufn.spec")


def process(*argv: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *argv], capture_output=True, text=True, timeout=60, check=False, **more)


def imported(stderr: str) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in stderr.splitlines() if line.startswith("import time:")}


def test_help_imports_nothing_heavy() -> None:
    """Cold start is what a person feels first: `tpufn --help` costs click and no more."""
    done = process("-X", "importtime", "-m", "tpufn_cli", "--help")
    modules = imported(done.stderr)
    assert done.returncode == 0
    assert not [m for m in modules if any(m == heavy or m.startswith(f"{heavy}.") for heavy in HEAVY)]
    assert not [m for m in modules if m.startswith("tpufn_cli.commands")]


def test_help_of_a_command_imports_nothing_heavy() -> None:
    """`COMMAND --help` must not pay for the client either."""
    done = process("-X", "importtime", "-m", "tpufn_cli", "demo", "--help")
    modules = imported(done.stderr)
    assert done.returncode == 0
    assert not [m for m in modules if any(m == heavy or m.startswith(f"{heavy}.") for heavy in HEAVY)]


def test_help_lists_every_command_and_exit_code(tpufn: Callable[..., Any]) -> None:
    """The catalogue is the help: nothing may be missing from it."""
    ran = tpufn("--help")
    assert ran.code == 0
    assert all(entry.help in ran.out for entry in COMMANDS.values())
    assert "130" in ran.out
    assert "wrong input" in ran.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_its_help_with_an_example(tpufn: Callable[..., Any], name: str) -> None:
    """An example says more than a list of options, and the catalogue's line must not drift from the command's."""
    ran = tpufn(name, "--help")
    last = ran.out.rstrip().splitlines()[-1]
    assert ran.code == 0
    assert f"tpufn {name}" in last or f"{name} " in last
    assert COMMANDS[name].help in ran.out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_catalogue_names_each_command_as_click_does(name: str) -> None:
    """A wrong target would only fail when somebody runs the command."""
    module, _, attribute = COMMANDS[name].target.partition(":")
    assert getattr(import_module(f"tpufn_cli.commands.{module}"), attribute).name == name


def test_version(tpufn: Callable[..., Any]) -> None:
    """Bug reports begin with it."""
    from tpufn import __version__

    assert tpufn("--version").out == f"tpufn {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["jobz"], "there is no command 'jobz'; did you mean job or jobs?"),
        (["frobnicate"], "`tpufn --help` lists them"),
        (["job"], "missing argument 'ID'"),
        (["jobs", "--nope"], "no such option '--nope'"),
        (["set-priority", "demo-1", "urgent"], "'urgent' is not one of"),
        (["jobs", "--state", "sleeping"], "'sleeping' is not a state; the states are pending"),
        (["logs", "demo-1", "--worker", "-1"], "-1"),
        (["schema", "nothing"], "'nothing' is not one of"),
    ],
)
def test_a_wrong_command_line_is_wrong_input(tpufn: Callable[..., Any], argv: list[str], said: str) -> None:
    """Exit 2, one line that says what is wrong, one with the next step, no traceback."""
    ran = tpufn(*argv)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.startswith("error: ")
    assert "\nnext: " in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError(["a.yaml:1: one", "a.yaml:2: two"]), 2),
        (NotFound("there is no job x"), 3),
        (Conflict("x exists"), 4),
        (CloudUnavailable("no login"), 5),
        (RuntimeError("boom"), 70),
        (KeyboardInterrupt(), 130),
    ],
)
@pytest.mark.parametrize("argv", [["jobs"], ["why", "demo-1"], ["submit", "job.yaml"], ["demo"], ["up"]])
def test_every_error_has_its_exit_code(
    tpufn: Callable[..., Any], doors: Any, error: BaseException, code: int, argv: list[str]
) -> None:
    """Scripts rely on the documented codes, whatever command meets the error."""
    doors.refusal = error
    ran = tpufn(*argv)
    assert ran.code == code
    assert "Traceback" not in ran.err


def test_every_problem_has_its_own_line(tpufn: Callable[..., Any], doors: Any) -> None:
    """All problems at once: nobody wants to fix a file one error at a time."""
    doors.refusal = InputError(["a.yaml:1: one", "a.yaml:2: two"])
    assert tpufn("jobs").err == "error: a.yaml:1: one\nerror: a.yaml:2: two\n"


def test_debug_shows_the_traceback(tpufn: Callable[..., Any], doors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """TPUFN_DEBUG=1 is the only way to a traceback."""
    monkeypatch.setenv("TPUFN_DEBUG", "1")
    doors.refusal = RuntimeError("boom")
    assert "Traceback" in tpufn("jobs").err


def test_a_closed_pipe_is_quiet() -> None:
    """`tpufn logs | head` must not end in an error."""
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-m", "tpufn_cli", "schema", "deployment"]
    done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "argv",
    [
        ["-d", "lab.yaml", "--sandbox", "--home", "/state", "jobs"],
        ["jobs", "-d", "lab.yaml", "--sandbox", "--home", "/state"],
        ["-d", "other.yaml", "--sandbox", "jobs", "--deployment", "lab.yaml", "--home", "/state"],
    ],
)
def test_global_options_stand_before_or_after_the_command(
    tpufn: Callable[..., Any], doors: Any, argv: list[str]
) -> None:
    """People write them where they think of them; the nearer one wins."""
    assert tpufn(*argv).code == 0
    (options,) = doors.options
    assert (options.deployment, options.sandbox, options.home) == ("lab.yaml", True, "/state")


@pytest.mark.parametrize("argv", [["jobs"], ["slots"], ["status"], ["why", "demo-1"], ["job", "demo-1"]])
def test_the_first_line_names_the_mode_except_with_json(tpufn: Callable[..., Any], argv: list[str]) -> None:
    """Nobody should take a sandbox for the cloud; a program that reads JSON knows what it asked."""
    assert tpufn(*argv).err.splitlines()[0] == "sandbox demo in /state/demo"
    assert tpufn(*argv, "--json").err == ""


def test_python_m_runs_the_same_command() -> None:
    """`python -m tpufn_cli` is documented."""
    done = process("-m", "tpufn_cli", "jobz")
    assert done.returncode == 2
    assert "did you mean" in done.stderr


@pytest.mark.parametrize("command", ["deploy", "destroy", "doctor"])
def test_a_sandbox_is_never_taken_for_the_cloud(tpufn: Callable[..., Any], command: str) -> None:
    """`destroy --sandbox` must not go for the real project."""
    ran = tpufn(command, "--sandbox")
    assert ran.code == 2
    assert "in the cloud" in ran.err


def test_a_file_of_our_own_state_is_74(
    tpufn: Callable[..., Any], doors: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A home directory that is a file is no wrong input."""
    monkeypatch.setenv("TPUFN_HOME", str(tmp_path))
    doors.refusal = NotADirectoryError(20, "Not a directory", f"{tmp_path}/sandbox")
    assert tpufn("jobs").code == 74
    doors.refusal = FileNotFoundError(2, "No such file or directory", "/elsewhere/job.yaml")
    assert tpufn("jobs").code == 2
