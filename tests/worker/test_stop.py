"""Cancel means that nothing is left, whatever the job did to stay."""

import os
import signal
import sys

import pytest

DAEMON = (
    "import os,signal,sys,time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "os.fork() and os._exit(0)\nos.setsid()\nos.fork() and os._exit(0)\n"
    "os.chdir('/')\n"
    "os.execve(sys.executable, [sys.executable, '-I', '-c', 'import signal,time\\n"
    'signal.signal(15, signal.SIG_IGN)\\nprint("up", flush=True)\\ntime.sleep(1000)\'], {})\n'
)
STUBBORN = {
    "plain": "echo up; sleep 1000",
    "ignores TERM": "trap '' TERM; echo up; while :; do sleep 0.1; done",
    "setsid": "setsid bash -c \"trap '' TERM; echo up; sleep 1000; sleep 1000\" & wait",
    "nohup": "nohup sleep 1000 & echo up; wait",
    "double fork, other session, other directory, empty environment": f'{sys.executable} -I -c "$CODE"; sleep 1000',
    "survives its parent": "(trap '' TERM; cd /; sleep 1000; sleep 1000) & echo up; exit 0",
}


@pytest.mark.parametrize("kind", sorted(STUBBORN))
def test_stop_leaves_nothing(host, until, kind):
    """Holders of the devices would make the next attempt fail."""
    order = host.order(STUBBORN[kind], env={"CODE": DAEMON}, linger=0.3)
    host.start(order)
    until(lambda: b"up" in host.log(order))
    assert host.stop(order, grace=0.3)["answer"] == "accepted"
    assert host.result(order, "closed")["clean"] is True
    until(lambda: not host.processes(), 5)


@pytest.mark.parametrize("kind", sorted(STUBBORN))
def test_stop_after_the_supervisor_was_killed(host, until, kind):
    """The agent itself may be the victim, of the kernel's memory killer for one."""
    if kind == "double fork, other session, other directory, empty environment":
        pytest.skip("with the adopting parent dead, nothing ties such a process to the attempt")
    order = host.order(STUBBORN[kind], linger=30.0)
    host.start(order)
    until(lambda: b"up" in host.log(order))
    os.kill(host.status()["attempts"]["job.1"]["pid"], signal.SIGKILL)
    until(lambda: not host.status()["attempts"]["job.1"]["alive"])
    assert host.launch(order)["started"] is False
    assert host.stop(order, grace=0.3)["answer"] == "accepted"
    assert host.result(order, "closed")["clean"] is True
    until(lambda: not host.processes(), 5)
    assert host.result(order, "exited")["ours"] is (kind != "survives its parent")
    assert host.play(host.order(number=2))["code"] == 0


def test_zero_after_our_term_is_ours(host, until):
    """A job that catches TERM and exits 0 did not succeed."""
    order = host.order("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    host.start(order)
    until(lambda: b"up" in host.log(order))
    host.stop(order)
    exited = host.result(order, "exited")
    assert (exited["code"], exited["ours"], exited["reason"]) == (0, True, "cancelled")
    host.result(order, "closed")
    assert host.log(order).endswith(b"saved\n")


def test_grace_is_for_the_whole_tree(host, until):
    """The shell dies of TERM at once; its child that saves a checkpoint still has its time."""
    child = "import signal,sys,time\ndef save(*_):\n time.sleep(0.5); print('saved', flush=True); sys.exit()\n"
    child += "signal.signal(15, save)\nprint('up', flush=True)\ntime.sleep(1000)"
    order = host.order(f'{sys.executable} -I -c "$CHILD"; true', env={"CHILD": child})
    host.start(order)
    until(lambda: b"up" in host.log(order))
    host.stop(order)
    exited = host.result(order, "exited")
    assert (exited["tail"].splitlines()[-1], exited["ours"]) == ("saved", True)


def test_grace_ends_with_kill(host, until):
    """A job that ignores TERM holds a TPU no longer than its grace."""
    order = host.order(STUBBORN["ignores TERM"])
    host.start(order)
    until(lambda: b"up" in host.log(order))
    host.stop(order, grace=0.2)
    assert host.result(order, "exited")["code"] == 137


@pytest.mark.parametrize("until_what", ["accepted", "prepared"])
def test_stop_before_the_command(host, until_what):
    """A partial launch is stopped before anything else happens; its command must never run."""
    order = host.order("echo ran")
    host.launch(order)
    host.result(order, until_what)
    host.stop(order)
    host.go(order)
    exited = host.result(order, "exited")
    assert (exited["code"], exited["ours"]) == (None, True)
    assert host.result(order, "closed")["clean"]
    assert host.log(order) == b""


def test_stop_is_idempotent(host):
    """It is sent again until the proof is there, and after."""
    order = host.order("sleep 1000")
    host.start(order)
    for _ in range(3):
        assert host.stop(order)["answer"] == "accepted"
    host.result(order, "closed")
    assert host.stop(order) == {"answer": "accepted", "closed": True, "exit": 0}


def test_stop_of_an_attempt_that_has_ended_by_itself(host):
    """Its own result stands."""
    order = host.order("exit 3")
    host.play(order)
    host.stop(order)
    assert host.result(order, "exited")["ours"] is False


def test_stop_without_launch_or_bucket(host):
    """The tombstone counts even where nobody said where to report."""
    order = host.order()
    assert host.stop(order, bucket=None, prefix="")["answer"] == "accepted"
    assert host.run("launch", order)["answer"] == "refused"


def test_stop_of_a_former_attempt_spares_the_present_one(host, until):
    """A late stop names its attempt."""
    first, second = host.order(), host.order("echo up; sleep 1000", number=2)
    host.play(first)
    host.start(second)
    until(lambda: b"up" in host.log(second))
    host.stop(first)
    assert host.status()["attempts"]["job.2"]["alive"]
    assert not host.has(second, "exited")


def test_leftovers_of_a_command_that_ended(host, until):
    """They are the attempt's: the TPU is handed on without them."""
    order = host.order("setsid bash -c \"trap '' TERM; sleep 1000; sleep 1000\" & echo done", linger=0.2)
    assert host.play(order)["code"] == 0
    assert host.log(order) == b"done\n"
    until(lambda: not host.processes(), 5)
