"""JOB_DIR, bundle and caches."""

import hashlib
import io
import os
import tarfile

import pytest

from tpufn.worker import caches
from tpufn.worker.protocol import Order, Place


def bundle(host, members, *, mode="w:gz"):
    """Puts an archive into the bucket; the order's keys for it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
    path = host.bucket / "bundles" / f"{sha256}.tar.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(buffer.getvalue())
    return {"bundle_key": f"bundles/{sha256}.tar.gz", "bundle_sha256": sha256}


def member(name, *, type=tarfile.REGTYPE, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.uid, info.gid = type, link, mode, 12345, 12345
    return info


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "w:"])
def test_bundle_is_there(host, mode):
    """Any compression; modes and links as they were packed, the owner is us."""
    members = [
        (member("src", type=tarfile.DIRTYPE, mode=0o555), b""),
        (member("src/run.sh", mode=0o755), b'#!/bin/sh\necho "$BUNDLE_SHA256"\n'),
        (member("link", type=tarfile.SYMTYPE, link="src/run.sh"), b""),
    ]
    keys = bundle(host, members, mode=mode)
    order = host.order("./link && test -O link", **keys)
    assert host.play(order)["code"] == 0
    assert host.log(order).decode().strip() == keys["bundle_sha256"]


def test_bundle_from_another_bucket(host):
    """A literal object in a bucket of the user's; its hash is not known before."""
    keys = bundle(host, [(member("a"), b"1")])
    (host.root / "blobs" / "other").mkdir()
    (host.bucket / keys["bundle_key"]).rename(host.root / "blobs" / "other" / "b.tar.gz")
    order = host.order('test -e a && echo "$BUNDLE_SHA256"', bundle_uri="gs://other/b.tar.gz")
    assert host.play(order)["code"] == 0
    assert host.log(order).decode().strip() == keys["bundle_sha256"]


@pytest.mark.parametrize("damage", ["hash", "missing", "no archive", "cut"])
def test_wrong_bundle(host, damage):
    """Never run what is not what was submitted: a set-up failure that names the bundle."""
    keys = bundle(host, [(member("a"), os.urandom(100_000))])
    path = host.bucket / keys["bundle_key"]
    if damage == "missing":
        path.unlink()
    elif damage == "hash":
        keys["bundle_sha256"] = "0" * 64
    else:
        path.write_bytes(b"junk" if damage == "no archive" else path.read_bytes()[:50_000])
        keys["bundle_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    exited = host.play(host.order("echo ran", **keys))
    assert (exited["phase"], exited["code"]) == ("setup", None)
    assert "bundle" in exited["reason"]


@pytest.mark.parametrize(
    "members",
    [
        [(member("../evil"), b"x")],
        [(member("/tmp/evil"), b"x")],
        [(member("a", type=tarfile.SYMTYPE, link="/etc"), b"")],
        [(member("a", type=tarfile.SYMTYPE, link="../.."), b"")],
        [(member("a", type=tarfile.LNKTYPE, link="../../evil"), b"")],
        [(member("a", type=tarfile.SYMTYPE, link="b"), b""), (member("a"), b"x")],
        [(member("a", type=tarfile.FIFOTYPE), b"")],
        [(member("a", type=tarfile.CHRTYPE), b"")],
    ],
)
def test_hostile_bundle(host, members):
    """Nothing lands outside of JOB_DIR."""
    exited = host.play(host.order("echo ran", **bundle(host, members)))
    assert (exited["phase"], exited["code"]) == ("setup", None)


def test_workspace_is_fresh(host):
    """Neither files nor read-only directories of a previous job remain."""
    host.play(host.order("mkdir -p a/b && touch a/b/c && chmod 500 a/b a && touch x"))
    order = host.order("ls -A; ls ..", number=2)
    host.play(order)
    assert host.log(order).decode().split() == ["job.2"]


PIP = {"key": "pip", "path": ".cache/pip"}


def test_cache_is_kept_once_it_is_ready(host):
    """The second job finds what the first one left, under the same path."""
    fill = 'test ! -e .cache/pip/data && echo 1 > .cache/pip/data && touch .cache/pip/.ready && test -d "$CACHE_ROOT"'
    assert host.play(host.order(fill, caches=[PIP]))["code"] == 0
    assert host.play(host.order("test -e .cache/pip/data", number=2, caches=[PIP]))["code"] == 0
    assert host.result(host.order(number=2), "closed")["caches"] == ["pip"]


def test_cache_without_ready_goes(host):
    """The job died, or ended, while writing: half a cache is worse than none."""
    assert host.play(host.order("touch .cache/pip/half; exit 1", caches=[PIP]))["code"] == 1
    assert host.result(host.order(), "closed")["caches"] == []
    assert not (host.home / "caches" / "pip").exists()
    assert host.play(host.order('test -z "$(ls -A .cache/pip)"', number=2, caches=[PIP]))["code"] == 0


def test_undeclared_cache_stays_unlinked(host):
    """Another job may want it again; this one must not see it in its directory."""
    host.play(host.order("touch .cache/pip/.ready", caches=[PIP]))
    assert host.play(host.order("test ! -e .cache", number=2))["code"] == 0
    assert host.result(host.order(number=2), "closed")["caches"] == ["pip"]


def test_undeclared_caches_go_oldest_first_when_space_is_short(tmp_path, monkeypatch):
    """A long unused cache is the cheapest to lose; a declared one is never taken."""
    place = Place(str(tmp_path), "a.1")
    os.makedirs(place.job_dir)
    for age, key in enumerate(["new", "middle", "old", "declared"]):
        path = tmp_path / "caches" / key
        path.mkdir(parents=True)
        (path / ".ready").touch()
        os.utime(path / ".ready", (1e9 - age, 1e9 - age))
    free = iter([0, 0, 100])
    monkeypatch.setattr(os, "statvfs", lambda _: type("Disk", (), {"f_bavail": next(free), "f_frsize": 1}))
    body = {
        "attempt": "a.1",
        "lease": {},
        "worker": 0,
        "caches": [{"key": "declared", "path": "d"}],
        "cache_reserve": 50,
    }
    caches.link(place, Order(body))
    assert caches.ready(place) == ["declared", "new"]


def test_bundle_with_a_copy_of_the_cache(host):
    """A run on the author's machine made the same directory there: the cache takes its place."""
    keys = bundle(host, [(member(".cache/pip/stale"), b"1")])
    order = host.order("test -L .cache/pip && test ! -e .cache/pip/stale", caches=[PIP], **keys)
    assert host.play(order)["code"] == 0


@pytest.mark.parametrize("path", ["../x", "/etc/x", ".", "link/x"])
def test_cache_path_cannot_leave(host, path):
    """Nothing is linked outside of JOB_DIR, not through the bundle's own links either."""
    keys = bundle(host, [(member("x"), b"")])
    if path == "link/x":
        path = "x/y"  # below a file
    exited = host.play(host.order("true", caches=[{"key": "k", "path": path}], **keys))
    assert (exited["phase"], exited["code"]) == ("setup", None)


@pytest.mark.parametrize("key", ["pip", "a/b", "..", ".x", "grüße %41", "a" * 50])
def test_cache_keys_as_names(key):
    """Any key is one directory and is told again as it was."""
    name = caches.file_name(key)
    assert "/" not in name
    assert not name.startswith(".")
    assert caches.key_of(name) == key


def test_caches_are_indexed_with_size_and_age(host):
    """What is there, how large, and how long unused: in `closed`, and for people in `status`."""
    fill = "head -c 100000 /dev/zero > .cache/pip/data; touch .cache/pip/.ready"
    host.play(host.order(fill, caches=[PIP]))
    index = host.result(host.order(), "closed")["cache_index"]
    assert set(index) == {"pip"}
    assert 100_000 <= index["pip"]["size"] < 200_000
    [told] = host.status()["caches"]
    assert (told["key"], told["ready"], told["size"]) == ("pip", True, index["pip"]["size"])
    assert 0 <= told["age"] < 600


def test_only_used_caches_are_measured_anew(tmp_path):
    """Walking a large tree after each job would hold the TPU."""
    place = Place(str(tmp_path), "a.1")
    os.makedirs(os.path.join(tmp_path, ".tpufn"))
    cache = tmp_path / "caches" / "k"
    cache.mkdir(parents=True)
    (cache / ".ready").touch()
    first = caches.update_index(place)
    (cache / "more").write_bytes(b"x" * 50_000)
    assert caches.update_index(place) == first
    os.utime(cache / ".ready", (1e9, 1e9))
    again = caches.update_index(place)
    assert again["k"]["size"] >= first["k"]["size"] + 50_000
    assert again["k"]["used"] == 1e9
