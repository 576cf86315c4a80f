"""Who may start, and that it starts once."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest


def test_whole_attempt(host):
    """The plain case: every result is in the bucket and the order of events is the protocol's."""
    order = host.order("echo hello; pwd")
    host.launch(order)
    assert host.result(order, "accepted") == {"attempt": "job.1", "worker": 0}
    assert host.result(order, "prepared")["caches"] == []
    assert not host.has(order, "exited")
    host.go(order)
    exited = host.result(order, "exited")
    assert (exited["code"], exited["phase"], exited["ours"], exited["preempted"]) == (0, "command", False, False)
    assert host.result(order, "closed")["clean"] is True
    assert host.log(order).decode() == f"hello\n{host.home}/jobs/job.1\n"


def test_nothing_starts_before_go(host, until):
    """All workers start together or none does: a heartbeat later the command still has not begun."""
    order = host.order("echo started")
    host.launch(order)
    host.result(order, "prepared")
    beat = host.path(order, "status/worker-0.heartbeat.json")
    until(lambda: beat.exists() and b'"beats": 2' in beat.read_bytes())
    assert host.log(order) == b""
    assert host.status()["attempts"]["job.1"]["alive"]


def test_launched_many_times_at_once(host):
    """A launch is retried whenever its answer was lost."""
    order = host.order("echo once")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(host.launch, [order] * 8))
    assert [a["started"] for a in answers].count(True) == 1
    host.go(order)
    host.result(order, "closed")
    assert host.launch(order)["started"] is False
    assert host.log(order) == b"once\n"


def test_other_attempt_while_one_is_open(host):
    """Two attempts never share a TPU."""
    first, second = host.order("sleep 1000"), host.order(number=2)
    host.start(first)
    answer = host.run("launch", second)
    assert (answer["answer"], answer["exit"]) == ("refused", 3)
    assert "job.1 is not closed" in answer["cause"]
    assert not host.has(second, "accepted")
    host.stop(first)
    host.result(first, "closed")
    assert host.play(second)["code"] == 0


def test_next_attempt_right_after_closed(host):
    """`closed` in the bucket means that the next launch is taken at once."""
    for number in range(1, 6):
        assert host.play(host.order(number=number))["code"] == 0


def test_tombstone_refuses_late_launch(host):
    """A launch that was delayed past its own cancellation must not start."""
    order = host.order()
    assert host.stop(order)["answer"] == "accepted"
    answer = host.run("launch", order)
    assert answer["answer"] == "refused"
    assert "tombstone 1" in answer["cause"]
    assert host.result(order, "closed")["clean"] is True
    assert not host.has(order, "exited")


def test_older_fence_is_refused(host):
    """The lease of a slot has moved on."""
    host.play(host.order(number=5))
    answer = host.run("launch", host.order(number=4))
    assert "fence 4 is older than fence 5" in answer["cause"]


@pytest.mark.parametrize("verb", ["launch", "stop"])
def test_other_generation_is_refused(host, verb):
    """Addresses are recycled: an order for a former TPU may arrive at the present one."""
    host.home.joinpath(".tpufn").mkdir()
    host.home.joinpath(".tpufn", "generation").write_text("2\n")
    answer = host.run(verb, host.order())
    assert answer["answer"] == "refused"
    assert "generation 2" in answer["cause"]


def test_new_generation_forgets_old_fences(host):
    """Fences grow within a generation only."""
    host.play(host.order(number=5))
    order = host.order(number=6)
    order["lease"] |= {"generation": 2, "fence": 1}
    assert host.play(order)["code"] == 0
    assert "generation 1 is older" in host.run("launch", host.order(number=7))["cause"]


def test_supervisor_outlives_its_caller(host):
    """The connection, and whole session, of the caller may end at once."""
    order = host.order("echo survived")
    host.launch(order)
    host.result(order, "prepared")
    state = host.status()["attempts"]["job.1"]
    line = subprocess.run(["ps", "-o", "ppid=,tty=", str(state["pid"])], capture_output=True, check=True).stdout.split()
    assert (line[0] != str(state["pid"]).encode(), line[1]) == (True, b"?")
    host.go(order)
    assert host.result(order, "exited")["tail"] == "survived"


def test_go_that_never_comes(host):
    """A control plane that died must not hold the worker for ever."""
    order = host.order(go_timeout=0.2)
    host.launch(order)
    exited = host.result(order, "exited")
    assert (exited["code"], exited["phase"], exited["ours"]) == (None, "setup", False)
    assert "no go" in exited["reason"]
    assert host.result(order, "closed")["clean"]


def test_files_are_private(host):
    """Orders hold secrets while the attempt lives, and none afterwards."""
    order = host.order("true", secrets={"TOKEN": "canary-value"})
    host.launch(order)
    host.result(order, "prepared")
    own = host.home / ".tpufn" / "attempts" / "job.1"
    assert {p.name: p.stat().st_mode & 0o077 for p in own.iterdir() if p.is_file()}.items() <= {
        (p.name, 0) for p in own.iterdir()
    }
    host.go(order)
    host.result(order, "closed")
    found = subprocess.run(["grep", "-rl", "canary-value", str(host.root)], capture_output=True, check=False)
    assert found.stdout == b""
