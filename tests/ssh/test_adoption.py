"""TPUs that were there before us, over real sshds: let in through their metadata, prepared once, then used like the
rest."""

import hashlib
import logging
import os
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tpufn.adapters.ssh_adoption import _PREPARE, Adoption
from tpufn.adapters.ssh_hosts import Identity, MemoryHostKeys
from tpufn.adapters.ssh_target import Host, Unreached
from tpufn.domain.cloud import LABEL_NONCE
from tpufn.domain.errors import Refused
from tpufn.worker.archive import version
from tpufn.worker.startup import Startup, startup_script

from .site import NAME, Names, SshTestSite
from .sshd import USER, new_key, until

AT_HOME = ("bash", "-c", 'cd "$HOME" && exec "$@"', "sudo")
"""In place of sudo, which a test has no use for: every host has its own home, and all have one disk."""


@dataclass
class GuestAgent:
    """Implements `Admission`: what the metadata says becomes the account's authorized keys."""

    authorized: Path
    told: list[tuple[str, str, str]] = field(default_factory=list)
    refusal: Exception | None = None

    def admit(self, tpu: str, zone: str, user: str, keys: tuple[str, ...]) -> None:
        self.told.append((tpu, zone, user))
        if self.refusal:
            raise self.refusal
        self.authorized.write_text("".join(f"{key}\n" for key in keys))


class Adopted:
    """A site whose TPU was made by somebody else, and does not know us."""

    def __init__(self, site: SshTestSite) -> None:
        self.site = site
        authorized = site.root / "authorized_keys"
        self.key, self.agent = authorized.read_text().strip(), GuestAgent(authorized)
        authorized.write_text(f"{new_key()[1]}\n")
        for server in site.servers:
            self.root(server.home)
        self.workers = site.again(adoption=self.adoption(), width=32)

    def adoption(self, own: str = "") -> Adoption:
        return Adoption(
            admission=self.agent,
            user=USER,
            keys=lambda: (self.key,),
            script=lambda tpu: 'export TPUFN_ROOT="$HOME/root"\n' + own + startup_script(self.startup(tpu)),
            sudo=AT_HOME,
            own="own",
        )

    def startup(self, tpu: str) -> Startup:
        silent = {"kind": "none"}
        return Startup(slot=tpu, generation=0, tpu=tpu, user=USER, keys=(self.key,), publish=silent, metadata_url="")

    def root(self, home: Path) -> None:
        """A machine's root directory, with the account that the guest agent makes."""
        for path in ("root/etc/ssh", "root/dev"):
            (home / path).mkdir(parents=True)
        (home / "root/dev/accel0").touch(0o600)
        entry = f"{USER}:x:{os.getuid()}:{os.getgid()}::/home/{USER}:/bin/bash\n"
        (home / "root/etc/passwd").write_text(entry)


@pytest.fixture
def adopted(site):
    return Adopted(site)


def test_it_is_let_in_prepared_and_used(adopted):
    """First nobody knows us; then the key is there; then root has done what a boot of our own would have done."""
    site, everybody = adopted.site, frozenset(range(4))
    assert adopted.workers.usable(site.tpu) == frozenset()
    assert adopted.agent.told == [(NAME, "zone-a", USER)]
    assert adopted.workers.usable(site.tpu) == everybody
    for server in site.servers:
        root = server.home / "root"
        assert (root / "dev/accel0").stat().st_mode & 0o666 == 0o666
        own = root / f"home/{USER}/tpufn/.tpufn"
        assert (own / f"agent-{version()}.pyz").exists()
        assert (own / "generation").read_text().strip() == "", "a lease of any generation is taken"
        assert (
            f"{' '.join(adopted.key.split()[:2])} tpufn\n" == (root / f"home/{USER}/.ssh/authorized_keys").read_text()
        )
    order = site.order("echo hello")
    assert adopted.workers.launch(order) == {}
    site.go(order)
    until(lambda: sorted(site.results(order, "exited")) == [0, 1, 2, 3])


def test_it_is_prepared_once_for_each_script(adopted):
    """A tick asks every time; another key or agent is another script."""
    site = adopted.site
    count = 'echo >> "$HOME/runs"\n'
    workers = site.again(adoption=adopted.adoption(own=count))
    for _ in range(3):
        workers.usable(site.tpu)
    assert [(server.home / "runs").read_text() for server in site.servers] == ["\n"] * 4
    site.again(adoption=adopted.adoption(own=count + "# newer\n")).usable(site.tpu)
    assert [(server.home / "runs").read_text() for server in site.servers] == ["\n\n"] * 4


def test_a_preparation_that_fails_is_told_and_tried_again(adopted, caplog):
    """Its owner may have to mend something: sudo, a full disk."""
    site = adopted.site
    adopted.agent.admit(NAME, "zone-a", USER, (adopted.key,))
    broken = site.again(adoption=adopted.adoption(own="echo no space left; exit 5\n"), tries=1)
    with caplog.at_level(logging.WARNING, "tpufn.adoption"):
        assert broken.usable(site.tpu) == frozenset()
    assert f"{NAME} cannot be used yet: worker 0 of {NAME} was not prepared (5): no space left" in caplog.text
    assert adopted.workers.usable(site.tpu) == frozenset(range(4))


def test_a_door_that_does_not_open_is_told(adopted, caplog):
    """Who has no right to change the node's metadata learns what is missing, and the tick goes on."""
    adopted.agent.refusal = Refused(7, "Permission 'tpu.nodes.update' denied")
    with caplog.at_level(logging.WARNING, "tpufn.adoption"):
        assert adopted.workers.usable(adopted.site.tpu) == frozenset()
    assert "Permission denied (publickey); 1 of our keys were tried" in caplog.text
    assert "Permission 'tpu.nodes.update' denied" in caplog.text


def test_our_own_are_not_prepared_again(adopted):
    """Their start-up script has done it; and nobody's metadata is changed for a TPU that is ours to replace."""
    ours = replace(adopted.site.tpu, labels={LABEL_NONCE: "x"})
    assert adopted.workers.usable(ours) == frozenset()
    assert adopted.agent.told == []


def test_a_tpu_made_again_under_its_name_is_a_new_machine(tmp_path):
    """The API is believed: it hands out the key of the machine that has the name now, to nobody in between."""
    first, second, third = (new_key()[1] for _ in range(3))
    names = Names(1, {0: first})
    identity, host = Identity(MemoryHostKeys(), names), Host(tpu="mine", zone="z", worker=0, reach="10.0.0.1")
    identity.check(host, first)
    with pytest.raises(Unreached, match="has changed"):
        identity.check(host, second)
    names.keys = {0: second}
    identity.check(host, second)
    with pytest.raises(Unreached, match="has changed"):
        identity.check(host, third)


def test_a_script_that_does_not_arrive_whole_is_not_run(adopted):
    """The connection may break in the middle of it: half a script must neither run nor count."""
    command = [*AT_HOME[:2], _PREPARE, "tpufn", str(adopted.site.root / "mark"), "0" * 64]
    done = subprocess.run(command, input=b"echo > ran\n", capture_output=True, cwd=adopted.site.root, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (65, b"need\n", b"the script did not arrive whole\n")
    assert not (adopted.site.root / "ran").exists()
    assert not (adopted.site.root / "mark").exists()


def test_two_do_not_prepare_at_once(adopted):
    """A tick may begin while the one before is still at it."""
    mark = adopted.site.root / "mark"
    command = [*AT_HOME[:2], _PREPARE, "tpufn", str(mark), hashlib.sha256(b"true\n").hexdigest()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as first:
        assert first.stdout.readline() == b"need\n"
        second = subprocess.run(command, input=b"true\n", capture_output=True, check=False)
        assert (second.returncode, second.stderr) == (75, b"somebody else prepares it\n")
        first.communicate(b"true\n")
    assert (first.returncode, mark.exists()) == (0, True)
    assert subprocess.run(command, input=b"", capture_output=True, check=True).stdout == b""
