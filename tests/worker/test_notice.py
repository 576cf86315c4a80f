"""The preemption notice, and the messages that wake the control plane."""

import json
import os
import socket

import pytest


@pytest.fixture
def inbox(tmp_path):
    """A datagram socket with a path longer than a socket's address may be."""
    directory = tmp_path / ("long" * 40)
    directory.mkdir()
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    descriptor = os.open(directory, os.O_RDONLY)
    receiver.bind(f"/proc/self/fd/{descriptor}/s")
    os.close(descriptor)
    receiver.settimeout(20)
    with receiver:
        yield receiver, {"kind": "datagram", "path": str(directory / "s")}


def test_notice_gives_term_and_grace(host, until):
    """About 30 s are left: enough for a checkpoint, if the job hears of it."""
    order = host.order("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    host.start(order)
    until(lambda: b"up" in host.log(order))
    host.notice.write_text("TRUE\n")
    exited = host.result(order, "exited")
    assert (exited["code"], exited["ours"], exited["preempted"]) == (0, True, True)
    assert host.result(order, "closed")["clean"]
    assert host.log(order).endswith(b"saved\n")


def test_notice_before_the_command(host):
    """It never starts on a machine that is going away."""
    host.notice.write_text("TRUE\n")
    order = host.order("echo ran")
    exited = host.play(order)
    assert (exited["code"], exited["preempted"], host.log(order)) == (None, True, b"")


def test_messages(host, until, inbox):
    """Each follows its object, and the notice's names slot and generation."""
    receiver, publish = inbox
    order = host.order("echo up; sleep 1000", publish=publish)
    host.start(order)
    until(lambda: b"up" in host.log(order))
    host.notice.write_text("TRUE\n")
    host.result(order, "closed")
    messages = [json.loads(receiver.recv(10_000)) for _ in range(5)]
    events = [m["body"]["what"] for m in messages if m["topic"] == "worker-events"]
    assert events == ["accepted", "prepared", "exited", "closed"]
    notices = [m["body"] for m in messages if m["topic"] == "preemptions"]
    assert notices == [{"slot": "s", "generation": 1, "attempt": "job.1", "found": "notice"}]
    assert messages[0] == {"topic": "worker-events", "body": {"attempt": "job.1", "worker": 0, "what": "accepted"}}


def test_nobody_listens(host, tmp_path):
    """A message may be lost; the bucket is enough."""
    order = host.order(publish={"kind": "datagram", "path": str(tmp_path / "nobody")})
    assert host.play(order)["code"] == 0


def test_notice_is_in_the_next_heartbeat_which_comes_at_once(host, until):
    """Without Pub/Sub the bucket alone tells, long before the grace is over."""
    order = host.order("trap '' TERM; echo up; while :; do sleep 0.05; done", heartbeat=600.0, notice_grace=60.0)
    host.start(order)
    until(lambda: host.log(order) == b"up\n")
    beat = host.path(order, "status/worker-0.heartbeat.json")
    assert json.loads(beat.read_bytes())["notice"] is False
    host.notice.write_text("TRUE")
    until(lambda: json.loads(beat.read_bytes())["notice"], 10)
    assert not host.has(order, "exited")
    host.stop(order, grace=0.1)
    host.result(order, "closed")
