"""Exit codes and clean ends of the real command line over the real engine: what a script relies on."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tpufn.client import open_engine

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
        assert "note: 1 message waits for an engine (submission of fix): `tpufn --sandbox up` takes them on" in said


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


def test_without_an_engine_nothing_is_said_to_be_done(shell: Shell) -> None:
    """What has only been sent must not read as done: the TPU that was `deleted` would cost all night."""
    slot = "spot-v6e16-ue5a-1"
    with shell.engine():
        assert shell.run("submit", "--sandbox", shell.job("sleep 100")).returncode == 0
        shell.until_running("fix")
    busy = json.loads(shell.run("job", "--sandbox", "fix", "--json").stdout)["job"]["slot"]
    for command in (["cancel", "fix"], ["interrupt", busy], ["slots", "queue", slot], ["set-priority", "fix", "high"]):
        said = shell.run(*command, "--sandbox")
        assert said.returncode == 0, said.stderr
        assert "will be " in said.stdout, command
        assert "once an engine runs (`tpufn up`)" in said.stdout, command
    listed = shell.run("jobs", "--sandbox").stderr
    assert f"4 messages wait for an engine (cancel of fix, interrupt of {busy}, queue of {slot}, set-priority" in listed
    with shell.engine():
        assert shell.run("watch", "fix").returncode == 1
        assert "fix cancelled" in shell.run("watch", "fix").stdout


def test_a_job_that_no_engine_has_taken_can_be_named(shell: Shell) -> None:
    """It is what `submit` has just handed over."""
    assert shell.run("submit", "--sandbox", shell.job("true")).returncode == 0
    why = shell.run("why", "fix", "--sandbox")
    assert why.returncode == 0
    assert " ".join(why.stdout.split()).startswith("fix is submitted: waits for an engine to take it on: `tpufn up`")
    for command in (["job", "fix"], ["logs", "fix"], ["logs", "fix", "--worker", "9"]):
        named = shell.run(*command, "--sandbox")
        assert named.returncode == 3, command
        assert "error: fix is submitted, and no engine has taken it on yet: `tpufn up` does" in named.stderr
    assert shell.run("submit", "--sandbox", shell.job("false")).returncode == 4, "another job under its id"
    assert shell.run("cancel", "fix", "--sandbox").stdout == "fix: will be cancelled once an engine runs (`tpufn up`)\n"
    with shell.engine():
        assert "fix cancelled" in shell.run("watch", "fix").stdout


def test_who_waits_hears_that_the_engine_is_gone(shell: Shell) -> None:
    with shell.start("submit", "--sandbox", shell.job("sleep 100"), "--wait") as waiting:
        until(waiting.stderr, "no engine runs here")
        with shell.engine():
            until(waiting.stdout, "attempt.running")
        until(waiting.stderr, "the engine is gone: nothing goes on until `tpufn up` does")
        assert "note: no engine runs here" in shell.run("why", "fix", "--sandbox").stderr
        with shell.engine():
            until(waiting.stderr, "an engine runs again")
            waiting.send_signal(signal.SIGINT)
            said = waiting.communicate(timeout=PATIENCE)[1]
            assert said == "not watched any more, nothing was cancelled; next: tpufn --sandbox watch fix\n\n"
            assert shell.run("cancel", "fix").stdout == "fix: is being cancelled: it stops on every worker\n"
    assert waiting.returncode == 130


def test_a_run_that_is_left_in_a_hurry_says_what_runs_on(shell: Shell) -> None:
    """And the next one does, and a killed one's: nothing else on this machine knows of them."""
    stubborn = 'trap "" TERM; while sleep 1; do true; done'
    with shell.start("run", "--sandbox", "--speed", "5", shell.job(stubborn)) as run:
        until(run.stdout, "attempt.running")
        run.send_signal(signal.SIGINT)
        until(run.stderr, "stopping")
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=PATIENCE)[1]
    assert run.returncode == 130
    up = "`tpufn -d sandbox-run1 up`"
    assert re.search(f"stopped; 1 job unfinished, . TPUs? requested or held .*; {up} goes on from here", said), said
    told = shell.run("status", "--sandbox").stderr
    assert re.search(f"note: sandbox-run1 was left unfinished .*: {up} goes on with it", told), told
    with shell.start("up", "-d", "sandbox-run1") as up_again:
        until(up_again.stdout, "job.cancelled")
        up_again.send_signal(signal.SIGINT)
    shell.until_quiet()


def test_up_whose_reader_goes_away_says_what_is_left(shell: Shell) -> None:
    """`tpufn up | head -1`."""
    assert shell.run("submit", "--sandbox", shell.job("true")).returncode == 0
    with shell.start("up", "--sandbox") as up:
        until(up.stdout, "job.submitted")
        assert up.stdout is not None
        up.stdout.close()
        said = up.stderr.read() if up.stderr else ""
    assert up.returncode == 141
    assert "`tpufn --sandbox up` goes on from here" in said


def test_output_appears_before_its_line_has_an_end(shell: Shell) -> None:
    """A progress bar is one line of an hour; the last words of a dying worker often have no end at all."""
    bar = r'for i in 1 2 3 4 5 6 7 8 9; do printf "\r%d0 percent" $i; sleep 0.4; done; printf "\rdone"; sleep 100'
    with shell.engine():
        assert shell.run("submit", "--sandbox", shell.job(bar.replace("'", '"'))).returncode == 0
        with shell.start("logs", "fix", "-f") as logs:
            until(logs.stdout, "0 percent")
            until(logs.stdout, "1.0 | done")
            logs.kill()
        missing = shell.run("logs", "fix", "--worker", "9")
        assert missing.returncode == 3
        assert "fix has no worker 9: they are numbered from 0 to" in missing.stderr


def test_a_bucket_without_a_region_is_given_one_aloud(shell: Shell) -> None:
    """Where a job may run follows from it."""
    path = Path(shell.job("true"))
    path.write_text(path.read_text().replace("gs://bkt-us-east5", "gs://mine"))
    said = shell.run("submit", "--sandbox", str(path)).stderr
    assert "warning: gs://mine is taken to be in us-" in " ".join(said.split())
    assert "bkt-us-central1 is taken" not in said


def test_a_job_can_be_cancelled_the_moment_it_is_submitted(shell: Shell) -> None:
    """Nobody waits for its acceptance in between: the command comes after the submission, and is waited for."""
    engine = open_engine(home=shell.env["TPUFN_HOME"], sandbox=True)
    engine.start()
    try:
        for number in range(5):
            (id,) = engine.client.submit(shell.job("sleep 100", id=f"j{number}")).jobs
            assert engine.client.cancel([id]) == {id: "cancelled"}
    finally:
        engine.stop()


def test_hints_are_about_the_state_that_is_meant(shell: Shell) -> None:
    """A hint without --home or --sandbox would start another deployment's engine: the job would never be taken on."""
    home = str(shell.folder / "else where")
    said = shell.run("submit", "--home", home, "--sandbox", shell.job("true")).stderr
    up = f"tpufn --sandbox --home '{home}' up"
    assert f"no engine runs here: `{up}` in another terminal takes the job on" in said
    assert f"`{up}` takes them on" in shell.run("jobs", "--home", home, "--sandbox").stderr


def test_several_are_cancelled_though_one_has_ended(shell: Shell) -> None:
    """A job that ends in between is a race in any script: the others must not run on for it."""
    with shell.engine():
        assert shell.run("submit", "--sandbox", shell.job("true", id="ended"), "--wait").returncode == 0
        for id in ("a", "b"):
            assert shell.run("submit", "--sandbox", shell.job("sleep 100", id=id)).returncode == 0
        some = shell.run("cancel", "a", "ended", "nope", "b")
        assert some.returncode == 4
        assert [line.partition(":")[0] for line in some.stdout.splitlines()] == ["a", "b"]
        assert "error: ended has ended already (succeeded)" in some.stderr
        assert "error: there is no job nope" in some.stderr
        assert shell.run("watch", "a", "b").returncode == 1
        assert shell.run("cancel", "nope").returncode == 3


def test_a_job_that_can_never_run_takes_the_file_along_aloud(shell: Shell) -> None:
    """All or nothing, in a run of one's own: that the others are cancelled for it is said."""
    path = Path(shell.job("true"))
    (shell.folder / "deployment.yaml").write_text(
        "name: tiny\nproject: my-project\ntpus: [{type: v6e-8, zone: us-east5-a, count: 1, runtime: v2-alpha-tpuv6e}]\n"
    )
    never = path.read_text().replace("jobs:\n", "").replace("v6e-8", "v4-8").replace("id: fix", "id: never")
    path.write_text(path.read_text() + never)
    refused = shell.run("run", "--sandbox", str(path))
    assert refused.returncode == 2
    assert "error: never: " in refused.stderr
    assert "; the other jobs of the file are cancelled" in refused.stderr


def test_two_files_of_one_name_are_told_of(shell: Shell) -> None:
    """They share a state: the pools of the one would leave with the other, and with them its TPUs."""
    file = "name: {}\nproject: my-project\ntpus: [{{type: {}, zone: us-east5-a, count: 1, runtime: v2-alpha-tpuv6e}}]\n"
    paths = [shell.folder / name for name in ("one.yaml", "two.yaml")]
    for path, type in zip(paths, ("v6e-8", "v6e-4"), strict=True):
        path.write_text(file.format("same", type))
    with shell.start("up", "--sandbox", "-d", str(paths[0])) as up:
        until(up.stderr, "the engine runs")
        up.send_signal(signal.SIGINT)
    assert "declared by" not in shell.run("jobs", "--sandbox", "-d", str(paths[0])).stderr
    told = " ".join(shell.run("jobs", "--sandbox", "-d", str(paths[1])).stderr.split())
    assert f"note: this state was declared by {paths[0]}: two files of one `name` share one state" in told
