"""The execution contract: command, environment, end."""

import json
import os
import sys

import pytest

DUMP = f"exec {sys.executable} -I -c 'import os,json;print(json.dumps(dict(os.environ)))'"
NASTY = {
    "QUOTES": "a'b\"c'''",
    "NEWLINES": "\nline\r\n\n",
    "DOLLAR": "$HOME ${X} $(id) `id` \\ \\n !!",
    "EQUALS": "=a=b=",
    "UNICODE": "grüße 漢字 \U0001f600",
    "DASH": "-n -e --",
    "EMPTY": "",
    "BLANKS": "  \t  ",
    "CONTROL": "".join(map(chr, range(1, 32))) + "\x7f",
    "LARGE": "x'y" * 34_000,
}


def environment(host, order):
    assert host.play(order)["code"] == 0
    return json.loads(host.log(order))


def test_environment_values_arrive_byte_for_byte(host):
    """No shell may stand between the job file and the job."""
    found = environment(host, host.order(DUMP, env=NASTY, secrets={"SECRET": NASTY["QUOTES"]}))
    assert {name: found[name] for name in NASTY} == NASTY
    assert found["SECRET"] == NASTY["QUOTES"]


@pytest.mark.parametrize("value", sorted(NASTY))
def test_command_arrives_byte_for_byte(host, value):
    """The whole text is one argument: what follows the first line comes back as it was written."""
    text = f'printf %s "$BASH_EXECUTION_STRING"; exit\n\'{NASTY[value]}'
    order = host.order(text)
    host.play(order)
    assert host.log(order).decode() == text


@pytest.mark.parametrize("command", ["-x", "--version", "- ", "-c 'echo'"])
def test_command_with_leading_dash(host, command):
    """It is a command, however odd, and never an option of the shell."""
    order = host.order(command)
    assert host.play(order)["code"] == 127
    assert b"command not found" in host.log(order)


def test_jobs_environment_wins_over_profile(host):
    """Profile files reset variables such as PATH; what the job asked for must hold."""
    profile = "export PATH=/profile:$PATH CHOSEN=profile FROM_PROFILE=yes JOB_ID=profile; greet() { echo hi; }\n"
    host.login_home.joinpath(".bash_profile").write_text(profile)
    order = host.order('greet; echo "$PATH $CHOSEN $FROM_PROFILE $JOB_ID"', env={"PATH": "/bin", "CHOSEN": "job"})
    host.play(order)
    assert host.log(order) == b"hi\n/bin job yes job\n"


def test_jobs_own_bash_env_is_honoured(host, tmp_path):
    """The variable that carries the environment is given back to the job."""
    file = tmp_path / "rc"
    file.write_text("FROM_RC=1\n")
    order = host.order('echo "$FROM_RC $BASH_ENV"; bash -c \'echo "$FROM_RC"\'', env={"BASH_ENV": str(file)})
    host.play(order)
    assert host.log(order).decode() == f"1 {file}\n1\n"
    assert "BASH_ENV" not in environment(host, host.order(DUMP, number=2))


def test_home_may_be_the_jobs(host, tmp_path):
    """Even then the profile read is that of the login."""
    host.login_home.joinpath(".bash_profile").write_text("export SEEN=$HOME\n")
    found = environment(host, host.order(DUMP, env={"HOME": str(tmp_path)}))
    assert (found["HOME"], found["SEEN"]) == (str(tmp_path), str(host.login_home))


def test_reserved_names(host):
    """This is the contract with the job; its own env cannot forge them."""
    found = environment(host, host.order(DUMP, env={"JOB_ID": "forged", "MINE": "1"}, number=3))
    root = str(host.bucket)
    expected = {
        "JOB_ID": "job",
        "JOB_NAME": "a name",
        "ATTEMPT_ID": "job.3",
        "ATTEMPT_NUMBER": "3",
        "JOB_DIR": f"{host.home}/jobs/job.3",
        "CACHE_ROOT": f"{host.home}/caches",
        "JOB_BUCKET": root,
        "JOB_GCS_DIR": f"{root}/jobs/job",
        "ATTEMPT_GCS_DIR": f"{root}/jobs/job/attempts/3",
        "CHECKPOINT_GCS_DIR": f"{root}/jobs/job/checkpoints",
        "RUNNER_PROJECT": "project",
        "TPU_NAME": "tpufn-lab-s-g1",
        "TPU_ZONE": "zone-a",
        "TPU_TYPE": "v4-8",
        "TPU_WORKER_HOST": "10.0.0.1",
        "TPU_WORKER_COUNT": "2",
        "JOB_WORKER_ID": "0",
        "JOB_WORKER_ADDRESSES": "10.0.0.1,10.0.0.2",
        "BUNDLE_SHA256": "",
        "MINE": "1",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert "TPU_WORKER_ID" not in found
    assert "TPU_WORKER_HOSTNAMES" not in found


def test_shared_memory_directory_lives_as_long_as_the_attempt(host):
    """Data loaders fill it: a leak would eat the host's memory."""
    order = host.order('touch "$JOB_SHM_DIR/x" && echo "$JOB_SHM_DIR"')
    assert host.play(order)["code"] == 0
    assert not os.path.exists(host.log(order).decode().strip())


@pytest.mark.parametrize(
    ("platforms", "env", "expected"),
    [("tpu,cpu", {}, "tpu,cpu"), ("tpu,cpu", {"JAX_PLATFORMS": "cpu"}, "cpu"), ("", {}, "unset")],
)
def test_jax_platforms(host, platforms, env, expected):
    """Without it a TPU that fails to start is a silent fall-back to the CPU; the job's own choice counts."""
    order = host.order("echo ${JAX_PLATFORMS-unset}", jax_platforms=platforms, env=env)
    host.play(order)
    assert host.log(order).decode().strip() == expected


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("no-such-program", 127),
        ("kill -9 $$", 137),
        ("kill -SEGV $$", 139),
        ("bash -c 'kill -ABRT $$'; exit $?", 134),
        ("sleep 1000 & kill $!; wait $!", 143),
    ],
)
def test_exit_codes(host, command, code):
    """As a shell reports them: the verdict depends on 134 and 139."""
    exited = host.play(host.order(command))
    assert (exited["code"], exited["ours"], exited["phase"]) == (code, False, "command")


def test_impossible_environment_is_a_setup_failure(host):
    """No exec takes a NUL: say so instead of dying."""
    exited = host.play(host.order(env={"BAD": "a\0b"}))
    assert (exited["phase"], exited["code"]) == ("setup", None)
    assert "BAD" in exited["reason"]


def test_command_that_no_system_takes(host):
    """Beyond the system's limit for one argument the reason must name it."""
    exited = host.play(host.order("true #" + "x" * 200_000))
    assert (exited["phase"], exited["code"]) == ("setup", None)
    assert "cannot be started" in exited["reason"]


def test_job_starts_with_plain_signals_and_no_input(host):
    """The supervisor's own handlers must not be the job's."""
    code = "import signal as s,sys;print([s.getsignal(n)==s.SIG_DFL for n in (1,15)], sys.stdin.read())"
    order = host.order(f"{sys.executable} -I -c '{code}'")
    host.play(order)
    assert host.log(order) == b"[True, True] \n"


def test_failure_keeps_tail_signature_and_diagnostics(host):
    """People see the last lines; the verdict sees what they resemble."""
    order = host.order("seq 30; printf 'bad \\377 byte\\n'; echo 'open(/dev/vfio/0): Device or resource busy'; exit 1")
    exited = host.play(order)
    lines = exited["tail"].splitlines()
    assert (len(lines), lines[-2], exited["signature"]) == (20, "bad \ufffd byte", "device-busy")
    diagnostics = host.path(order, "diagnostics/worker-0.txt").read_text()
    assert all(f"== {name}" in diagnostics for name in ("memory", "disk", "processes", "devices", "kernel messages"))


def test_success_needs_no_diagnostics(host):
    """They are evidence of failures only."""
    order = host.order()
    host.play(order)
    assert not host.path(order, "diagnostics").exists()
