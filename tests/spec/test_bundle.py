"""Bundles: the same tree is the same archive, and nothing leads out of it."""

import hashlib
import io
import os
import socket
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpufn.domain.errors import InputError
from tpufn.spec import tree
from tpufn.spec.bundle import Built, build


def unpacked(built: Built) -> dict[str, tarfile.TarInfo]:
    assert built.path is not None
    with tarfile.open(built.path, "r:gz") as archive:
        return {info.name: info for info in archive}


def problems(source: Path | str, base: Path) -> str:
    with pytest.raises(InputError) as caught:
        build(source, base=base, into=base / "out")
    assert list((base / "out").glob("*")) == []  # nothing was written, or nothing of it is left
    return "\n".join(caught.value.problems)


@pytest.fixture
def src(tmp_path: Path) -> Path:
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    (tmp_path / "src" / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "src" / "run.sh").chmod(0o700)
    return tmp_path / "src"


def test_members_have_no_owner_no_time_and_plain_modes(src: Path) -> None:
    """A hash that depends on who packed when would be useless."""
    found = unpacked(build("src", base=src.parent, into=src.parent / "out"))
    assert list(found) == ["pkg", "run.sh", "train.py"]
    assert [info.mode for info in found.values()] == [0o755, 0o755, 0o644]
    assert {(i.uid, i.gid, i.uname, i.gname, i.mtime) for i in found.values()} == {(0, 0, "", "", 0)}


TREES = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "é", "c d", "x" * 120]), min_size=1, max_size=3).map("/".join),
    st.binary(max_size=2000),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(files=TREES)
def test_same_tree_same_hash(files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever the order of creation, times and permissions of group and others."""
    hashes = set()
    for turn in (1, -1):
        root = tmp_path_factory.mktemp("tree")
        for path, content in list(files.items())[::turn]:
            file = root / "src" / f"{path}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(0o644 if turn == 1 else 0o600)
            os.utime(file, (turn + 2, turn + 2))
        hashes.add(build("src", base=root, into=root / "out").bundle.sha256)
    assert len(hashes) == 1


def test_the_archive_is_named_by_its_hash(src: Path) -> None:
    """So that it is uploaded once, and a worker can check what it got."""
    built = build("src", base=src.parent, into=src.parent / "out")
    assert built.path is not None
    data = built.path.read_bytes()
    assert built.bundle.sha256 == hashlib.sha256(data).hexdigest() == built.path.name.removesuffix(".tar.gz")
    assert (built.bundle.size, built.bundle.files) == (len(data), 2)
    assert [path.name for path in (src.parent / "out").iterdir()] == [built.path.name]


def test_links_inside_are_kept(src: Path) -> None:
    """Many source trees have them; a link to nothing is the tree's own matter."""
    (src / "pkg" / "up").symlink_to("../train.py")
    (src / "dir").symlink_to("pkg")
    (src / "later").symlink_to("made-by-the-job")
    found = unpacked(build("src", base=src.parent, into=src.parent / "out"))
    links = {name: info.linkname for name, info in found.items() if info.issym()}
    assert links == {"pkg/up": "../train.py", "dir": "pkg", "later": "made-by-the-job"}


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("../outside", "outside of the bundle"),
        ("pkg/../../outside", "outside of the bundle"),
        ("/etc/passwd", "absolute path"),
        ("bad", "in a circle"),
        (".", "in a circle"),
        ("pkg/twin", "in a circle"),
    ],
)
def test_links_that_lead_astray_are_named(target: str, words: str, src: Path) -> None:
    """Before anything is written."""
    (src.parent / "outside").write_text("secret")
    (src / "pkg" / "twin").symlink_to("../bad")
    (src / "bad").symlink_to(target)
    text = problems("src", src.parent)
    assert "bad is a link" in text
    assert words in text


def test_a_link_through_a_link_may_still_escape(src: Path) -> None:
    """By its words it stays inside; in truth it does not."""
    (src / "p" / "q").mkdir(parents=True)
    (src / "p" / "q" / "hop").symlink_to("../../pkg")
    (src / "p" / "q" / "bad").symlink_to("hop/../../x")
    assert "p/q/bad is a link" in problems("src", src.parent)


def test_ignored_links_do_no_harm(src: Path) -> None:
    """The fix that the message offers works."""
    (src / "bad").symlink_to("/etc")
    (src / ".tpufnignore").write_text("bad\n")
    assert "bad" not in unpacked(build("src", base=src.parent, into=src.parent / "out"))


def test_sockets_and_pipes_are_left_out_with_a_note(src: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They mean nothing elsewhere, and reading a pipe would never end."""
    monkeypatch.chdir(src)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        built = build("src", base=src.parent, into=src.parent / "out")
    assert [note.split()[0] for note in built.notes] == ["pipe", "socket"]
    assert "pipe" not in unpacked(built)


def test_a_large_bundle_is_told_of(src: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a gigabyte of virtual environment is sent silently only once."""
    monkeypatch.setattr(tree, "LARGE", 1 << 20)
    assert build("src", base=src.parent, into=src.parent / "out").notes == ()
    (src / "data").write_bytes(b"x" * (3 << 20))
    (note,) = build("src", base=src.parent, into=src.parent / "out").notes
    assert note.startswith("it holds 3 MiB; list what is not needed in `.tpufnignore`. The largest: data (3.0 MiB), ")


def test_limits_name_the_largest_paths(src: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever packs a data set by mistake sees which files those are; nothing is written."""
    monkeypatch.setattr(tree, "MAX_BYTES", 1000)
    monkeypatch.setattr(tree, "MAX_FILES", 12)
    for number in range(15):
        (src / f"data-{number:02}").write_bytes(b"x" * (100 + number))
    text = problems("src", src.parent)
    assert "over 12;" in text
    assert "data-14" in text
    assert "data-05" in text
    assert "data-04" not in text


def test_a_sparse_giant_is_refused_before_it_is_read(src: Path) -> None:
    """Three GiB of nothing are refused in no time."""
    with (src / "giant").open("wb") as file:
        file.truncate(3 << 30)
    assert "holds 3.0 GiB, over 2 GiB" in problems("src", src.parent)


def test_gs_address_is_kept() -> None:
    """Somebody else has put the archive there."""
    assert build("gs://data/b.tar.gz", base=Path(), into=Path()).bundle.uri == "gs://data/b.tar.gz"


def test_missing_source(tmp_path: Path) -> None:
    """It may have gone since the file was checked."""
    assert "there is no" in problems("nowhere", tmp_path)


def archive(path: Path, *members: tarfile.TarInfo, mode: str = "w:gz", content: bytes = b"") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for member in members:
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return path


def info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mtime, made.uid, made.uname = kind, link, 12345, 501, "me"
    return made


@pytest.mark.parametrize(
    ("name", "mode"), [("a.tar", "w"), ("a.tar.gz", "w:gz"), ("a.tbz", "w:bz2"), ("a.txz", "w:xz")]
)
def test_archives_of_any_compression(name: str, mode: str, tmp_path: Path) -> None:
    """They are packed anew, so that owners and times are gone and workers need one format only."""
    archive(tmp_path / name, info("./d", tarfile.DIRTYPE), info("./d/x"), mode=mode, content=b"hello")
    built = build(name, base=tmp_path, into=tmp_path / "out")
    assert [(i.name, i.uid, i.mtime) for i in unpacked(built).values()] == [("d", 0, 0), ("d/x", 0, 0)]
    assert built.bundle.files == 1


def test_hard_links_become_files_and_the_last_of_equal_names_counts(tmp_path: Path) -> None:
    """As unpacking would have it."""
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, content in (("x", b"old"), ("x", b"new!")):
            member = info(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        tar.addfile(info("y", tarfile.LNKTYPE, "x"))
    built = build("a.tar", base=tmp_path, into=tmp_path / "out")
    assert built.path is not None
    with tarfile.open(built.path) as packed:
        assert {i.name: packed.extractfile(i).read() for i in packed} == {"x": b"new!", "y": b"new!"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([info("../x")], "lies outside"),
        ([info("/x")], "lies outside"),
        ([info("a/../../x")], "lies outside"),
        ([info("l", tarfile.SYMTYPE, "../x")], "outside of the archive"),
        ([info("l", tarfile.SYMTYPE, "/etc")], "outside of the archive"),
        ([info("l", tarfile.LNKTYPE, "../x")], "hard link"),
        ([info("l", tarfile.LNKTYPE, "nothing")], "hard link to nothing"),
        ([info("l", tarfile.SYMTYPE, "d"), info("l/x")], "below the link"),
        ([info("n", tarfile.CHRTYPE)], "neither a file"),
        ([info("p", tarfile.FIFOTYPE)], "neither a file"),
    ],
)
def test_archives_that_reach_outside_are_refused(members: list[tarfile.TarInfo], words: str, tmp_path: Path) -> None:
    """Unpacking one must never write elsewhere."""
    archive(tmp_path / "a.tar.gz", *members)
    assert words in problems("a.tar.gz", tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a tar", b"\x28\xb5\x2f\xfd and more", b"\x1f\x8b\x08\x00broken"])
def test_other_files_are_no_archives(content: bytes, tmp_path: Path) -> None:
    """The message says how to make one."""
    (tmp_path / "a.tar").write_bytes(content)
    assert "tar -czf" in problems("a.tar", tmp_path)


def test_a_cut_off_archive_is_refused(tmp_path: Path) -> None:
    """Half a download is not a bundle."""
    path = archive(tmp_path / "a.tar.gz", info("x"), content=os.urandom(200_000))
    path.write_bytes(path.read_bytes()[:100_000])
    assert "a.tar.gz: " in problems("a.tar.gz", tmp_path)


def test_progress_ends_at_the_total(src: Path) -> None:
    """A person sees how much is left."""
    seen: list[tuple[int, int]] = []
    build("src", base=src.parent, into=src.parent / "out", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (19, 19)
