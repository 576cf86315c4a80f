"""`tpufn ssh` and `tpufn slots devices` on a sandbox's workers, which are directories of this machine."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from .shell import Shell, until


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A job with two workers runs, for all tests: they only look."""
    shell = Shell(tmp_path_factory.mktemp("busy"))
    path = shell.job("while echo tick; do sleep 0.2; done", id="long", tpu="v5e-16")
    with shell.engine():
        assert shell.run("submit", path).returncode == 0
        with shell.start("logs", "-f", "long") as logs:
            until(logs.stdout, "tick")
            logs.kill()
        yield shell
        shell.run("cancel", "long")


def test_a_command_on_all_workers_or_on_one(busy: Shell) -> None:
    """Each line with its worker, the words as they are, the worst exit code."""
    ran = busy.run("ssh", "long", "--", "printf", "%s\\n", "a  b", "$HOME")
    assert ran.returncode == 0, ran.stderr
    workers = {line.partition("|")[0] for line in ran.stdout.splitlines()}
    assert len(workers) > 1
    assert sorted(ran.stdout.splitlines()) == sorted(f"{w}| {t}" for w in workers for t in ("a  b", "$HOME"))
    assert busy.run("ssh", "long", "--", "exit 7").returncode == 7
    one = busy.run("ssh", "long", "--worker", "1", "--", "echo one; exit 3")
    assert (one.returncode, one.stdout) == (3, "one\n")


def test_a_shell_is_on_the_worker(busy: Shell) -> None:
    """Of a slot as of its job; it reads what is typed."""
    slot = json.loads(busy.run("job", "long", "--json").stdout)["job"]["slot"]
    for name in ("long", slot):
        typed = subprocess.run(
            [*busy.command("ssh", name, "--worker", "1")],
            input="pwd\nexit 5\n",
            capture_output=True,
            text=True,
            env={**busy.env, "SHELL": "/bin/sh"},
            cwd=busy.folder,
            check=False,
        )
        assert typed.returncode == 5
        assert typed.stdout.strip().endswith(f"-{slot}-g1/w1"), typed


def test_devices(busy: Shell) -> None:
    """A sandbox has none, and says so for every worker."""
    found = json.loads(busy.run("slots", "devices", "long", "--json").stdout)
    assert (found["holders"], found["errors"]) == ([], {})
    assert len(found["workers"]) > 1
    assert "nobody holds a TPU device" in busy.run("slots", "devices", "long").stdout


def test_what_is_not_there(busy: Shell) -> None:
    wrong = {
        ("ssh", "nothing"): (3, "there is no slot and no job nothing"),
        ("ssh", "long", "--worker", "9", "--", "true"): (3, "long has no worker 9"),
        ("ssh", "long", "-L", "1:localhost:1"): (2, "-L is for TPUs"),
        ("ssh", "spot-v6e8-ue5b-1"): (4, "has no workers to reach"),
    }
    for command, (code, words) in wrong.items():
        refused = busy.run(*command)
        assert (refused.returncode, words in refused.stderr) == (code, True), (command, refused.stderr)
