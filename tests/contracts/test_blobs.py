"""The contract of the port `Blobs`, for each of its implementations."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tpufn.adapters.files import FileBlobs
from tpufn.adapters.gcs import CloudBlobs, connect
from tpufn.domain.errors import NotFound

from .storage_server import drop_bucket, located, make_bucket, storage_server

A, B = "bucket-a", "bucket-b"
REGIONS = {A: "us-central2", B: "us-east1"}


@pytest.fixture
def files(tmp_path):
    return FileBlobs(tmp_path / "blobs", REGIONS)


@pytest.fixture(scope="module")
def storage():
    """A Cloud Storage server of this module."""
    with storage_server() as endpoint:
        yield endpoint


@pytest.fixture
def cloud(storage):
    for name in REGIONS:
        make_bucket(storage, name)
    client = connect("p", storage)
    located(client._http, storage, REGIONS)
    yield CloudBlobs(lambda: client)
    client.close()
    for name in REGIONS:
        drop_bucket(storage, name)


@pytest.fixture(params=["files", "cloud"])
def blobs(request):
    """Buckets A (us-central2) and B (us-east1), both empty."""
    return request.getfixturevalue(request.param)


def keys(objects):
    return [each.key for each in objects]


def test_region(blobs):
    """Placement is by the bucket's region."""
    assert (blobs.region(A), blobs.region(B)) == ("us-central2", "us-east1")


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.region("none"),
        lambda b: b.put("none", "k", b""),
        lambda b: b.get("none", "k"),
        lambda b: b.list("none", ""),
        lambda b: b.get(A, "none"),
        lambda b: b.get(A, "no/such/object"),
    ],
)
def test_missing_bucket_or_object(blobs, call):
    """The person is told what there is not."""
    with pytest.raises(NotFound):
        call(blobs)


def test_put_and_get(blobs):
    """Bytes come back as they were, from any place in them."""
    data = bytes(range(256)) * 1000
    assert blobs.put(A, "dir/key with blank ü", data)
    assert blobs.get(A, "dir/key with blank ü") == data
    assert blobs.get(A, "dir/key with blank ü", start=255_990) == data[255_990:]
    assert blobs.get(A, "dir/key with blank ü", start=len(data)) == b""


def test_get_of_a_prefix(blobs):
    """A prefix is no object."""
    blobs.put(A, "dir/key", b"")
    with pytest.raises(NotFound):
        blobs.get(A, "dir")


def test_put_replaces(blobs):
    """The last one counts, and its generation is another."""
    blobs.put(A, "k", b"one")
    [before] = blobs.list(A, "k")
    assert blobs.put(A, "k", b"three")
    [after] = blobs.list(A, "k")
    assert (blobs.get(A, "k"), after.size) == (b"three", 5)
    assert after.generation != before.generation


def test_put_once(blobs):
    """The first one counts."""
    assert blobs.put(A, "k", b"first", once=True) is True
    assert blobs.put(A, "k", b"second", once=True) is False
    assert blobs.get(A, "k") == b"first"


def test_put_once_has_one_winner(blobs):
    """Results are told apart by who was first, also at the same moment."""
    for number in range(20):
        barrier = threading.Barrier(8)

        def write(writer, number=number, barrier=barrier):
            barrier.wait()
            return blobs.put(A, f"k{number}", b"%d" % writer * 1000, once=True)

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(write, range(8)))
        assert won.count(True) == 1
        assert blobs.get(A, f"k{number}") == b"%d" % won.index(True) * 1000


def test_readers_never_see_half_an_object(blobs):
    """A heartbeat is read while it is rewritten."""
    contents = [b"x" * 200_000, b"y" * 300_000]
    blobs.put(A, "k", contents[0])
    done = threading.Event()

    def rewrite():
        for number in range(200):
            blobs.put(A, "k", contents[number % 2])
        done.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    while not done.is_set():
        assert blobs.get(A, "k") in contents
    writer.join()


def test_list(blobs):
    """Any prefix, by key, one bucket only; update times are the bucket's."""
    begin = time.time()
    for key in ["j/1/a", "j/1/b", "j/10/a", "j/1", "k"]:
        if key != "j/1":
            blobs.put(A, key, b"12")
    assert keys(blobs.list(A, "")) == ["j/1/a", "j/1/b", "j/10/a", "k"]
    assert keys(blobs.list(A, "j/1")) == ["j/1/a", "j/1/b", "j/10/a"]
    assert keys(blobs.list(A, "j/1/")) == ["j/1/a", "j/1/b"]
    assert keys(blobs.list(A, "nothing/here")) == []
    assert keys(blobs.list(B, "")) == []
    [found] = blobs.list(A, "k")
    assert found.size == 2
    assert begin - 5 <= found.updated <= time.time() + 5


def test_upload(blobs, tmp_path):
    """A bundle goes up once; the second time nothing is sent."""
    path = tmp_path / "bundle"
    path.write_bytes(b"z" * 2_500_000)
    sent: list[int] = []
    assert blobs.upload(A, "bundles/x", str(path), progress=sent.append) is True
    assert sent[-1] == 2_500_000
    assert sent == sorted(sent)
    sent.clear()
    assert blobs.upload(A, "bundles/x", str(path), progress=sent.append) is False
    assert sent == []
    assert blobs.get(A, "bundles/x") == path.read_bytes()


def test_failed_upload_leaves_nothing(blobs, tmp_path):
    """A person presses Ctrl-C in the middle."""
    path = tmp_path / "bundle"
    path.write_bytes(b"z" * 2_500_000)

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        blobs.upload(A, "x", str(path), progress=interrupt)
    assert keys(blobs.list(A, "")) == []


@pytest.mark.parametrize("key", ["", "/a", "a//b", "../a", "a/../../b", ".", "a\0b"])
def test_files_keep_to_their_bucket(files, key):
    """A key is a path: it must not leave the directory."""
    with pytest.raises(ValueError, match="object name"):
        files.put(A, key, b"")


def test_files_show_what_jobs_write_by_path(files):
    """In the sandbox a job's checkpoint is a plain file."""
    path = files.path(A, "jobs/j/checkpoints/c")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"1")
    assert files.get(A, "jobs/j/checkpoints/c") == b"1"
    assert keys(files.list(A, "jobs/j/")) == ["jobs/j/checkpoints/c"]


def test_files_without_hard_links(files, monkeypatch):
    """Not every file system has them; still only the first writer wins."""

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    assert files.put(A, "k", b"first", once=True) is True
    assert files.put(A, "k", b"second", once=True) is False
    assert files.get(A, "k") == b"first"


def test_files_regions_by_function(tmp_path):
    """The sandbox's fleet may decide."""
    blobs = FileBlobs(tmp_path, lambda name: "us-east1" if name.startswith("lab") else "")
    assert blobs.region("lab-1") == "us-east1"
    with pytest.raises(NotFound):
        blobs.region("other")
