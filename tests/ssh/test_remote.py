"""People's way in: OpenSSH's own client, their key, our known_hosts, one worker or all."""

import io
import os
import shlex
import shutil
import subprocess
from dataclasses import replace

import pytest

from tpufn.remote import (
    Remote,
    Way,
    choose,
    command_arguments,
    devices_command,
    merged_known_hosts,
    proxy_command,
    read_holders,
    remotes,
    shell_arguments,
    with_public_key,
)
from tpufn.remote_run import devices, ended, pin, run_all, worst

from .site import NAME
from .sshd import USER, new_key

REMOTE = Remote(tpu=NAME, zone="zone-a", worker=2, reach="10.0.0.1", instance="t1v-n-1-w-2")


@pytest.fixture
def way(site, tmp_path):
    if not shutil.which("ssh"):
        pytest.fail("there is no ssh client here")
    identity = tmp_path / "id"
    identity.touch(0o600)
    identity.write_bytes(site.private)
    return Way(known_hosts=str(tmp_path / "known_hosts"), user=USER, identity=str(identity))


@pytest.fixture
def workers(site):
    keys = {i: server.public for i, server in enumerate(site.servers)}
    return remotes(NAME, "zone-a", [server.reach for server in site.servers], keys=keys)


def calls(workers, way, command):
    return {each.worker: command_arguments(each, way, command) for each in workers}


def test_all_workers_at_once_with_their_number_in_front(workers, way, tmp_path):
    """Whole lines, both streams, an exit code for each."""
    pin(tmp_path / "known_hosts", workers)
    output, errors = io.BytesIO(), io.BytesIO()
    command = ["bash", "-c", 'echo "at ${HOME##*/}"; printf half; echo oops >&2; exit 3']
    codes = run_all(calls(workers, way, command), output=output, errors=errors)
    assert codes == dict.fromkeys(range(4), 3)
    assert sorted(output.getvalue().splitlines()) == sorted(
        line for i in range(4) for line in (b"%d| at home" % i, b"%d| half" % i)
    )
    assert sorted(errors.getvalue().splitlines()) == [b"%d| oops" % i for i in range(4)]
    assert worst(codes) == 3


def test_words_of_a_command_arrive_as_they_are(workers, way, tmp_path):
    """Quotes, dollars and blanks are the person's, not the shell's."""
    pin(tmp_path / "known_hosts", workers)
    words = ["a b", "$HOME", "it's", '"', "", "-x"]
    output = io.BytesIO()
    run_all(calls(workers[:1], way, ["printf", "<%s>", *words]), output=output, errors=io.BytesIO())
    assert output.getvalue().decode() == "0| " + "".join(f"<{w}>" for w in words) + "\n"


def test_changed_host_key_is_refused(workers, way, tmp_path):
    """Their known_hosts is not asked; ours says another key."""
    pin(tmp_path / "known_hosts", [replace(workers[0], key=new_key()[1])])
    errors = io.BytesIO()
    changed = [replace(workers[0], key=new_key()[1])]
    codes = run_all(calls(changed, way, ["true"]), output=io.BytesIO(), errors=errors)
    assert (codes, ended(codes[0])) == ({0: 255}, "ssh could not connect")
    assert b"Host key verification failed" in errors.getvalue()


def test_unpinned_worker_is_trusted_once(workers, way, tmp_path):
    """Under the generation's name, in our file."""
    plain = replace(workers[0], key="")
    assert subprocess.run(command_arguments(plain, way, ["true"]), check=False).returncode == 0
    assert (tmp_path / "known_hosts").read_text().split()[0] == f"{NAME}-w0"


def test_devices_and_their_holders(workers, way, tmp_path):
    """Who to ask to let go of the TPU."""
    pin(tmp_path / "known_hosts", workers)
    device = tmp_path / "accel0"
    device.touch()
    with device.open():
        command, source = devices_command([str(device)])
        done = subprocess.run(
            command_arguments(workers[1], way, [command]), input=source, capture_output=True, check=True
        )
    [holder] = read_holders(1, done.stdout)
    assert (holder.worker, holder.pid, holder.device) == (1, os.getpid(), str(device))
    command, _ = devices_command()
    found, causes = devices(calls([*workers, replace(workers[0], worker=9, reach="127.0.0.1:1")], way, [command]))
    assert (set(found), set(causes)) == ({0, 1, 2, 3}, {9})
    assert "Connection refused" in causes[9] or "could not connect" in causes[9]


def test_arguments_of_a_shell():
    """Their own key, forwards, a terminal; nothing of the runner's."""
    way = Way(known_hosts="/k", user="me", identity="/id", forwards=("8888:localhost:8888", "6006:localhost:6006"))
    arguments = shell_arguments(replace(REMOTE, key="ssh-ed25519 K"), way)
    assert arguments[:2] == ["ssh", "-t"]
    assert arguments[-3:] == ["-p", "22", "me@10.0.0.1"]
    assert [arguments[i + 1] for i, word in enumerate(arguments) if word == "-L"] == list(way.forwards)
    options = {arguments[i + 1] for i, word in enumerate(arguments) if word == "-o"}
    assert options >= {
        "UserKnownHostsFile=/k",
        "GlobalKnownHostsFile=/dev/null",
        f"HostKeyAlias={NAME}-w2",
        "StrictHostKeyChecking=yes",
        "HostKeyAlgorithms=ssh-ed25519",
        "IdentitiesOnly=yes",
    }


def test_through_iap():
    """ssh runs the tunnel itself; its own percent signs are doubled."""
    words = shlex.split(proxy_command(REMOTE, "a%b").replace("%%", "%"))
    assert words[1:4] == ["-m", "tpufn.adapters.iap", "--project"]
    assert words[4:] == ["a%b", "--zone", "zone-a", "--instance", "t1v-n-1-w-2", "--port", "22"]
    arguments = shell_arguments(REMOTE, Way(known_hosts="/k", iap_project="p"))
    assert any(word.startswith("ProxyCommand=") for word in arguments)


def test_one_worker_or_all():
    """A number that is not there is told with those that are."""
    all = remotes(NAME, "z", ["a", "b"])
    assert choose(all, None) == all
    assert choose(all, 1) == all[1:]
    with pytest.raises(LookupError, match="workers 0 to 1"):
        choose(all, 2)


def test_known_hosts_file_is_merged():
    """Other TPUs' lines stay; a generation's own are replaced."""
    first = merged_known_hosts("", [replace(REMOTE, key="ssh-ed25519 A")])
    both = merged_known_hosts(first, [replace(REMOTE, tpu="other", key="ssh-ed25519 B"), REMOTE])
    assert both == f"{NAME}-w2 ssh-ed25519 A\nother-w2 ssh-ed25519 B\n"
    assert merged_known_hosts(both, [replace(REMOTE, key="ssh-ed25519 C")]).count(f"{NAME}-w2") == 1


def test_a_persons_key_in_the_metadata():
    """As gcloud adds it; a second time changes nothing."""
    once = with_public_key("tpufn:ssh-ed25519 R tpufn", "me", "ssh-ed25519 K me@laptop")
    assert once == "tpufn:ssh-ed25519 R tpufn\nme:ssh-ed25519 K me"
    assert with_public_key(once, "me", "ssh-ed25519 K again") == once


def test_exit_codes_of_many():
    """A command's own failure counts before ssh's."""
    assert [worst({0: 0, 1: 0}), worst({0: 0, 1: 255}), worst({0: 255, 1: 2})] == [0, 255, 2]
