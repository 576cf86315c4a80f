"""An attempt's control group, where systemd runs. The groups here are files of the same shape."""

import contextlib
import os
import subprocess
import sys

from tpufn.worker import scope
from tpufn.worker.process import Tree
from tpufn.worker.protocol import Place


def test_without_systemd_there_is_none(tmp_path, monkeypatch):
    """A container, for one: the other signs have to do."""
    monkeypatch.setattr(scope, "SYSTEMD", str(tmp_path / "none"))
    assert scope.enter("job.1") == ""


def test_systemd_that_refuses(tmp_path, monkeypatch):
    """No sudo, no bus: never an error of the attempt."""
    monkeypatch.setattr(scope, "SYSTEMD", str(tmp_path))
    monkeypatch.setattr(scope, "start_command", lambda unit, pid: ["false"])
    assert scope.enter("job.1") == ""
    monkeypatch.setattr(scope, "start_command", lambda unit, pid: ["no-such-program"])
    assert scope.enter("job.1") == ""


def test_scope_that_is_entered(tmp_path, monkeypatch):
    """systemd moves the process: its own entry in /proc says where to."""
    own = tmp_path / "cgroup"
    own.write_text("0::/user.slice\n")
    line = "0::/system.slice/tpufn-job.1.scope"
    monkeypatch.setattr(scope, "SYSTEMD", str(tmp_path))
    monkeypatch.setattr(scope, "OWN", str(own))
    monkeypatch.setattr(scope, "start_command", lambda unit, pid: ["sh", "-c", f"echo '{line}' > {own}"])
    assert scope.enter("job.1") == "/sys/fs/cgroup/system.slice/tpufn-job.1.scope"


def test_what_systemd_is_asked(monkeypatch):
    """With the system's manager, as root, for this very process."""
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    command = scope.start_command(scope.unit_name("a b/c.2"), 77)
    assert command[:4] == ["sudo", "-n", "busctl", "call"]
    assert command[7:] == [
        "StartTransientUnit", "ssa(sv)a(sa(sv))", "tpufn-a_b_c.2.scope", "fail",
        "2", "PIDs", "au", "1", "77", "Delegate", "b", "true", "0",
    ]  # fmt: skip


def test_group_of_version_two_only():
    """Version 1 has a line for each controller, and no one group."""
    assert scope.group_of("1:name=systemd:/x\n0::/a/b\n") == "/sys/fs/cgroup/a/b"
    assert scope.group_of("1:name=systemd:/x\n") == ""


@contextlib.contextmanager
def killed_at_the_end(process):
    """A failed test must not wait for a process that sleeps."""
    try:
        yield
    finally:
        process.kill()


def test_members_are_the_attempts(tmp_path):
    """Also a daemon with an empty environment in another session and directory, of a supervisor that is dead."""
    inner = tmp_path / "group" / "inner"
    inner.mkdir(parents=True)
    code = "print('up', flush=True); import time; time.sleep(1000)"
    stray = subprocess.Popen(
        [sys.executable, "-I", "-c", code], env={}, cwd="/", start_new_session=True, stdout=subprocess.PIPE
    )
    with stray, killed_at_the_end(stray):
        assert stray.stdout.readline() == b"up\n"
        (inner / "cgroup.procs").write_text(f"{stray.pid}\n")
        place = Place(str(tmp_path / "host"), "job.1")
        assert Tree(place, "job.1").find() == set()
        tree = Tree(place, "job.1", scope=str(tmp_path / "group"))
        assert tree.find() == {stray.pid}
        assert tree.kill()
        assert stray.wait(10) == -9
    assert scope.members(str(tmp_path / "gone")) == set()
