"""The TPU's devices: held ones, lock files, holders that stay."""

import os
import subprocess
import sys

import pytest

HOLD = "import sys; f = open(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def device(tmp_path):
    path = tmp_path / "accel0"
    path.touch()
    return path


@pytest.fixture
def holder(device):
    """A process of somebody else that has the device open until its input ends."""
    command = [sys.executable, "-I", "-c", HOLD, str(device)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_busy_device_ends_the_attempt(host, device, holder):
    """After the wait the TPU is to be replaced: the result names the holder."""
    order = host.order("echo ran", devices=[f"{device.parent}/accel*"], device_timeout=0.3)
    host.start(order)
    exited = host.result(order, "exited")
    assert (exited["phase"], exited["code"], exited["signature"]) == ("device", None, "device-busy")
    assert f"{device} is held by process {holder.pid}" in exited["reason"]
    assert host.status(devices=[str(device)])["holders"][0]["pid"] == holder.pid
    assert host.result(order, "closed")["clean"] is False


def test_device_that_is_freed_in_time(host, device, holder):
    """The previous tenant's end may take its while."""
    order = host.order("echo ran", devices=[str(device)], device_timeout=30.0)
    host.launch(order)
    assert not host.has(order, "prepared")
    holder.kill()
    host.go(order)
    assert host.result(order, "exited")["code"] == 0


def test_stale_lock_file_is_removed(host, tmp_path):
    """Nobody holds it: its owner died."""
    lock = tmp_path / "lockfile"
    lock.touch()
    assert host.play(host.order(lock_files=[str(lock)]))["code"] == 0
    assert not os.path.exists(lock)


def test_held_lock_file_stays(host, device, holder):
    """Somebody works behind it."""
    del holder
    host.play(host.order(lock_files=[str(device)]))
    assert device.exists()


def test_no_devices_at_all(host):
    """A machine without TPU has nothing to wait for."""
    assert host.play(host.order(devices=["/dev/no-such-accel*"]))["code"] == 0
