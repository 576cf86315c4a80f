"""Exit codes and clean ends of the real command line over the real engine: what a script relies on."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .shell import PATIENCE, Shell, until


def test_another_job_under_a_taken_id_is_a_conflict(shell: Shell) -> None:
    """A script must never read the success of a job that it did not submit."""
    with shell.engine():
        assert shell.run("submit", "--sandbox", shell.job("echo GOOD"), "--wait").returncode == 0
        changed = shell.job("exit 9")
        for more in (["--wait"], [], ["--json"], ["--job-id", "fix", "--wait"]):
            refused = shell.run("submit", "--sandbox", changed, *more)
            assert (refused.returncode, refused.stdout) == (4, ""), more
            assert "job id fix is taken by another job" in refused.stderr
    assert shell.run("submit", "--sandbox", changed).returncode == 4, "without an engine too"


def test_the_same_submission_again_is_the_same_job(shell: Shell) -> None:
    """`--job-id` makes a retried CI step harmless."""
    path = shell.job("exit 3", id="named")
    with shell.engine():
        for _ in range(2):
            again = shell.run("submit", "--sandbox", path, "--job-id", "named", "--wait")
            assert again.returncode == 1, again.stderr


def terminate(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)


def hang_up(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGHUP)


def stop_reading(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize(("end", "code"), [(terminate, 143), (hang_up, 129), (stop_reading, 141)])
def test_a_run_that_is_ended_from_outside_leaves_nothing(
    shell: Shell, end: Callable[["subprocess.Popen[str]"], None], code: int
) -> None:
    """A CI time-out, a closed terminal, `| grep -m1`: the job is cancelled, the TPUs are released, and it is said."""
    with shell.start("run", "--sandbox", "--speed", "5", shell.job("while echo tick; do sleep 0.2; done")) as run:
        until(run.stdout, "tick")
        end(run)
        assert run.stderr is not None
        said = run.stderr.read()
    assert run.returncode == code, said
    assert "cancels what still runs, releases the TPUs" in said
    assert shell.running() == []
    status = shell.run("status", "-d", "sandbox-run1").stdout
    assert "cancelled" in status
    assert "active" not in status


def test_output_that_cannot_be_written(shell: Shell) -> None:
    """A full disk behind `>`: said, and the job is not left running for it."""
    with Path("/dev/full").open("w") as full:
        with shell.start("schema", "job", stdout=full) as listing:
            said = listing.communicate(timeout=PATIENCE)[1]
        assert (listing.returncode, said) == (74, "error: the output cannot be written: No space left on device\n")
        with shell.start("run", "--sandbox", "--speed", "5", shell.job("sleep 100"), stdout=full) as run:
            said = run.communicate(timeout=PATIENCE)[1]
    assert run.returncode == 74
    assert "error: the output cannot be written" in said
    assert shell.running() == []


def test_closed_standard_files(shell: Shell) -> None:
    """Their numbers must not be given to the store: what is printed would be written into it."""
    line = f"{sys.executable} -m tpufn_cli run --sandbox --speed 5 {shell.job('echo tick')} <&- >&- 2>&-"
    assert subprocess.run(line, shell=True, env=shell.env, cwd=shell.folder, check=False).returncode == 0
    assert "succeeded" in shell.run("status", "-d", "sandbox-run1").stdout


def test_a_damaged_state_is_named(shell: Shell) -> None:
    state = shell.folder / "state" / "sandbox" / "sandbox" / "state.sqlite"
    state.parent.mkdir(parents=True)
    state.write_bytes(b"no database " * 100)
    for command in (["jobs"], ["status"], ["up"], ["submit", shell.job("true")]):
        refused = shell.run(*command, "--sandbox")
        assert refused.returncode == 74
        assert f"error: {state}: file is not a database; move its folder away" in refused.stderr


def test_what_waits_for_an_engine_is_said(shell: Shell) -> None:
    """A job that nobody has taken yet is in no list: the list must say where it is."""
    assert shell.run("submit", "--sandbox", shell.job("true")).stdout == "fix\n"
    for command in (["jobs"], ["status"], ["job", "fix"]):
        said = shell.run(*command, "--sandbox").stderr
        assert "note: 1 message waits for an engine (submission of fix): `tpufn up` takes them on" in said


def test_the_engine_that_runs_is_the_one_that_is_meant(shell: Shell) -> None:
    """`tpufn up` in one terminal and `tpufn jobs` in another must be of the same deployment."""
    nothing = shell.run("jobs")
    assert nothing.returncode == 2
    assert "nothing says which deployment is meant" in nothing.stderr
    with shell.engine():
        assert shell.run("jobs").returncode == 0


def test_a_job_file_from_standard_input(shell: Shell) -> None:
    path = Path(shell.job("true", id="piped"))
    command = [sys.executable, "-m", "tpufn_cli", "submit", "--sandbox", "-"]
    with path.open() as file:
        done = subprocess.run(
            command, stdin=file, capture_output=True, text=True, env=shell.env, cwd=shell.folder, check=False
        )
    assert (done.returncode, done.stdout) == (0, "piped\n"), done.stderr


@pytest.mark.parametrize("id", ["", "x/y", "x" * 101])
def test_a_bad_job_id_is_refused_before_anything_is_bundled(shell: Shell, id: str) -> None:
    refused = shell.run("submit", "--sandbox", shell.job("true"), "--job-id", id)
    assert refused.returncode == 2
    assert "--job-id" in refused.stderr
    assert "bundle" not in refused.stderr


def test_a_bundle_is_part_of_what_is_validated(shell: Shell) -> None:
    """What `submit` would refuse, `validate-jobs` says; what will be left out, both say."""
    path = shell.job("true")
    os.mkfifo(shell.folder / "src" / "pipe")
    for command in (["validate-jobs", path], ["submit", "--sandbox", path]):
        said = shell.run(*command)
        assert said.returncode == 0
        assert "pipe is left out" in said.stderr
    (shell.folder / "src" / "out").symlink_to("/etc/passwd")
    refused = shell.run("validate-jobs", path)
    assert refused.returncode == 2
    assert "out is a link to the absolute path /etc/passwd" in refused.stderr
