"""Output arrives byte for byte, in bounded memory, and never holds up the job."""

import hashlib
import os
import sys
import threading

import pytest

from tpufn.worker.bucket import BucketError, DirectoryBucket
from tpufn.worker.logs import Spool, Uploader
from tpufn.worker.pump import Pump

WRITE = f"{sys.executable} -I -c "


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("every byte", "w(bytes(range(256)) * 100)"),
        ("nothing", "pass"),
        ("no newline at the end", "w(b'abc')"),
        ("progress bar", "[w(b'\\r%3d%%' % i) for i in range(101)]"),
        ("one line of 20 MB", "[w(b'x' * 1000000) for _ in range(20)]"),
        ("many lines", "w(b'line of output\\n' * 200000)"),
        ("invalid UTF-8 and NUL", "w(b'\\xff\\x00\\xc3(' * 1000)"),
    ],
)
def test_bytes_arrive_exactly(host, name, code):
    """Whatever a job prints is what its owner reads."""
    del name
    body = f"import sys\nw = sys.stdout.buffer.write\n{code}"
    order = host.order(WRITE + '"$BODY"', env={"BODY": body})
    assert host.play(order)["code"] == 0
    written: list[bytes] = []
    exec(code, {"w": written.append})
    assert hashlib.sha256(host.log(order)).digest() == hashlib.sha256(b"".join(written)).digest()


def test_both_streams_keep_their_order(host):
    """A traceback belongs after the line that came before it."""
    order = host.order("for i in 1 2 3; do echo out$i; echo err$i >&2; done")
    host.play(order)
    assert host.log(order).split() == b"out1 err1 out2 err2 out3 err3".split()


def test_output_is_live(host, until):
    """A watcher sees a line, and a progress bar without a newline, while the job runs."""
    order = host.order("printf first; sleep 1000", linger=0.0)
    host.start(order)
    until(lambda: host.log(order) == b"first", 10)
    assert not host.has(order, "exited")
    host.stop(order, grace=0.2)
    host.result(order, "closed")


def test_log_limit(host):
    """A job in a loop must not fill the bucket; the end is what one wants to see."""
    order = host.order("head -c 5000000 /dev/zero | tr '\\0' a; printf END", log_limit=100_000)
    assert host.play(order)["code"] == 0
    log = host.log(order)
    kept = 1 << 20
    dropped = 5_000_003 - 100_000 - kept
    assert log[:100_000] == b"a" * 100_000
    assert f"[tpufn: {dropped} bytes of output dropped here]\n".encode() in log[100_000:100_100]
    assert log.endswith(b"aEND")
    assert len(log) < 100_000 + kept + 100


def test_bucket_that_takes_nothing_changes_no_verdict(host):
    """The results are tried longer than the logs, and the exit code stays the job's."""
    blocker = host.bucket / "jobs/job/attempts/1/logs"
    blocker.parent.mkdir(parents=True)
    blocker.write_text("a file where a directory is needed")
    order = host.order("head -c 3000000 /dev/zero; exit 4", drain_timeout=0.2)
    assert host.play(order)["code"] == 4
    assert host.result(order, "closed")["clean"]


class Flaky(DirectoryBucket):
    """Refuses until it is told to work."""

    def __init__(self, root):
        super().__init__(str(root), "b")
        self.works = threading.Event()

    def put(self, key, data, *, once=False):
        if not self.works.is_set():
            raise BucketError("down")
        return super().put(key, data, once=once)


def make(tmp_path, bucket, **limits):
    spool = Spool(str(tmp_path / "spool"), **{"interval": 0.0, "limit": 1 << 30, "room": 1 << 30, **limits})
    uploader = Uploader(spool, bucket, "logs")
    uploader.start()
    return spool, uploader


def content(tmp_path):
    return b"".join(p.read_bytes() for p in sorted((tmp_path / "b" / "logs").glob("*")))


def test_pieces_wait_on_disk_while_the_bucket_is_down(tmp_path):
    """A dead network costs no output, only time; what waits goes in few large pieces."""
    bucket = Flaky(tmp_path)
    spool, uploader = make(tmp_path, bucket)
    data = [os.urandom(200_000) for _ in range(60)]
    for chunk in data:
        spool.append(chunk)
    bucket.works.set()
    spool.end()
    assert uploader.give_up_after(10)
    assert content(tmp_path) == b"".join(data)
    assert max(p.stat().st_size for p in (tmp_path / "b" / "logs").glob("*")) <= (4 << 20) + 200_000


def test_full_spool_drops_the_middle_and_says_so(tmp_path):
    """The worker's disk is the job's: the spool is bounded."""
    bucket = Flaky(tmp_path)
    spool, uploader = make(tmp_path, bucket, room=1 << 20)
    for number in range(100):
        spool.append(b"%03d" % number * 30_000)
    bucket.works.set()
    spool.end()
    assert uploader.give_up_after(10)
    assert b"bytes of output dropped here" in content(tmp_path)
    assert content(tmp_path).startswith(b"000")
    assert content(tmp_path).endswith(b"099")


def test_a_fast_writer_waits_for_a_bucket_that_works(tmp_path):
    """Output is complete up to the limit, however fast it comes."""
    bucket = Flaky(tmp_path)
    bucket.works.set()
    spool, uploader = make(tmp_path, bucket, room=1 << 20)
    for number in range(100):
        spool.append(b"%03d" % number * 100_000)
    spool.end()
    assert uploader.give_up_after(10)
    assert spool.dropped == 0
    exact = content(tmp_path) == b"".join(b"%03d" % number * 100_000 for number in range(100))
    assert exact, "30 MB that differ are not worth a diff"


def test_end_of_a_hopeless_upload_is_bounded(tmp_path):
    """It must not hold the TPU."""
    spool, uploader = make(tmp_path, Flaky(tmp_path))
    spool.append(b"x")
    spool.end()
    assert not uploader.give_up_after(0.1)
    uploader.join(5)
    assert not uploader.is_alive()


def test_full_disk_drops_but_does_not_fail(tmp_path, monkeypatch):
    """The job goes on even where not one byte can be kept."""

    def full(*_):
        raise OSError(28, "No space left on device")

    bucket = Flaky(tmp_path)
    bucket.works.set()
    spool, uploader = make(tmp_path, bucket)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        spool.append(b"lost" * 1_000_000)
    spool.append(b"kept")
    spool.end()
    assert uploader.give_up_after(10)
    assert b"[tpufn: 2951424 bytes of output dropped here]" in content(tmp_path)
    assert content(tmp_path).endswith(b"lostkept")


def test_pump_catches_up_with_what_was_written(tmp_path):
    """The tail is taken when the command has ended though a leftover still holds the pipe."""
    spool, _ = make(tmp_path, Flaky(tmp_path))
    source, target = os.pipe()
    pump = Pump(source, spool)
    pump.start()
    os.write(target, b"abc\n")
    pump.catch_up(5)
    assert pump.tail() == b"abc\n"
    os.close(target)
    pump.join(5)
