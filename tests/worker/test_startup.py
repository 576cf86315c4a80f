"""The start-up script, run as root would at a boot, below a directory of its own."""

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tpufn.worker.archive import archive, version
from tpufn.worker.ready import describe, worker_number
from tpufn.worker.startup import LIMIT, Startup, startup_script

from ..ssh.google import serve_google

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfTheRunner runner@somewhere"
ME = pwd.getpwuid(os.getuid())


@pytest.fixture
def google():
    with serve_google() as made:
        made.worker = "3"
        yield made


class Machine:
    """A root directory. `boot` runs the script there."""

    def __init__(self, root: Path, google):
        self.root, self.google = root, google
        self.home = root / ME.pw_dir.lstrip("/")
        for path in ("etc/ssh", "dev/vfio"):
            (root / path).mkdir(parents=True)
        (root / "etc/passwd").write_text(f"{ME.pw_name}:x:{ME.pw_uid}:{ME.pw_gid}::{ME.pw_dir}:/bin/bash\n")
        (root / "etc/ssh/ssh_host_ed25519_key.pub").write_text("ssh-ed25519 HOSTKEY root@t1v\n")
        for device in ("dev/accel0", "dev/vfio/0", "dev/vfio/vfio"):
            (root / device).touch(0o600)

    def boot(self, **more):
        publish = {**self.google.identity, "kind": "pubsub", "project": "p"}
        settings = {
            "slot": "s",
            "generation": 4,
            "tpu": "tpufn-lab-s-g4",
            "user": ME.pw_name,
            "keys": (KEY,),
            "publish": publish,
            "metadata_url": self.google.metadata,
            "python": sys.executable,
            **more,
        }
        script = self.root / "script"
        script.write_text(startup_script(Startup(**settings)))
        environment = {"PATH": os.environ["PATH"], "TPUFN_ROOT": str(self.root)}
        return subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=False)

    def files(self):
        """Path -> (mode, content), for comparing two boots."""
        paths = (p for p in self.root.rglob("*") if p.is_file() and p.name not in ("script", "startup.json"))
        return {str(p): (p.stat().st_mode, p.read_bytes()) for p in paths}


@pytest.fixture
def machine(tmp_path, google):
    return Machine(tmp_path.resolve(), google)


def test_boot(machine, google):
    """User's key, directories, generation, agent, devices; then the message, seconds after the boot."""
    done = machine.boot()
    assert (done.returncode, done.stderr) == (0, "")
    assert (machine.home / ".ssh/authorized_keys").read_text() == f"{' '.join(KEY.split()[:2])} tpufn\n"
    own = machine.home / "tpufn/.tpufn"
    assert (own / "generation").read_text() == "4\n"
    assert (own / f"agent-{version()}.pyz").read_bytes() == archive()
    assert {p.stat().st_mode & 0o666 for p in (machine.root / "dev").rglob("*") if p.is_file()} == {0o666}
    assert (machine.root / "etc/sudoers.d/tpufn").stat().st_mode & 0o777 == 0o440
    message = {"slot": "s", "generation": 4, "worker": 3, "tpu": "tpufn-lab-s-g4", "host_key": "ssh-ed25519 HOSTKEY"}
    assert google.published == [("worker-ready", {**message, "startup": {"exit": 0, "tail": ""}})]
    assert json.loads(google.attributes["tpufn/ready"])["worker"] == 3


def test_every_boot_is_the_same(machine):
    """Idempotent: a reboot finds nothing to do, and other people's keys stay."""
    machine.boot()
    keys = machine.home / ".ssh/authorized_keys"
    keys.write_text(f"ssh-rsa OTHER me@home\n{keys.read_text()}")
    before = machine.files()
    assert machine.boot().returncode == 0
    assert machine.files() == before


def test_rotated_key_takes_the_place_of_the_former(machine):
    """Only those that the deployment names are let in."""
    machine.boot()
    machine.boot(keys=("ssh-ed25519 NEW x", "ssh-ed25519 FORMER y"))
    lines = (machine.home / ".ssh/authorized_keys").read_text().splitlines()
    assert lines == ["ssh-ed25519 NEW tpufn", "ssh-ed25519 FORMER tpufn"]


@pytest.mark.parametrize("first", ["#!/bin/bash\n", ""])
def test_deployments_own_script(machine, first):
    """Runs as it is written, with or without a first line, quotes and all."""
    script = first + 'printf \'%s\\n\' "$(id -u) it\'s" > "$TPUFN_ROOT/out"\n'
    assert machine.boot(script=script).returncode == 0
    assert (machine.root / "out").read_text() == f"{os.getuid()} it's\n"


def test_failing_script_is_visible_and_the_worker_is_reported(machine, google):
    """In the message, the guest attribute, the machine's log and the agent's status."""
    done = machine.boot(script="echo one; echo 'no such \"package\"' >&2; exit 7")
    assert done.returncode == 1
    assert "tpufn: startup_script failed with 7: one no such" in done.stdout
    expected = {"exit": 7, "tail": 'one\nno such "package"'}
    assert google.published[0][1]["startup"] == expected
    assert json.loads(google.attributes["tpufn/ready"])["startup"] == expected
    home = machine.home / "tpufn"
    command = [sys.executable, "-I", "-S", str(home / f".tpufn/agent-{version()}.pyz"), "status", "--home", str(home)]
    answer = subprocess.run(command, input=b"{}", capture_output=True, check=True).stdout
    assert json.loads(answer)["startup"] == expected


def test_script_that_does_not_end(machine, google):
    """It is ended after its time, and told as timeout tells it."""
    machine.boot(script="sleep 1000", patience=1)
    assert google.published[0][1]["startup"]["exit"] == 124


def test_nobody_to_tell(machine, google):
    """Laptop mode: no Pub/Sub. The machine is ready all the same."""
    done = machine.boot(publish={"kind": "none"})
    assert (done.returncode, google.published) == (0, [])


def test_os_login_account_that_is_not_there_yet(machine, google):
    """The account comes with the first login; the report does not wait for it."""
    (machine.root / "etc/passwd").write_text("")
    done = machine.boot(os_login=True, user="sa_no_such_account", keys=())
    assert "find_user failed" in done.stdout
    assert google.published[0][1]["worker"] == 3
    assert not (machine.root / "etc/sudoers.d").exists()


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("useradd"), reason="only root can make a user")
def test_user_is_made(machine):
    """Where the image has none of that name."""
    for name in ("group", "shadow", "gshadow", "login.defs"):
        source = Path("/etc") / name
        (machine.root / "etc" / name).write_text(source.read_text() if name == "login.defs" else "")
    done = machine.boot(user="tpufn-test")
    assert "tpufn-test:" in (machine.root / "etc/passwd").read_text(), done


def test_values_of_any_kind(machine, google):
    """Nothing of the settings is read by the shell."""
    strange = "a'b\"c $(touch evil) `touch evil` \\"
    machine.boot(tpu=strange)
    assert google.published[0][1]["tpu"] == strange
    assert not list(machine.root.rglob("evil"))


def test_script_fits_into_metadata():
    """With the agent in it, and room for the deployment's own."""
    plain = Startup(slot="s", generation=1, tpu="t", user="u")
    assert len(startup_script(plain)) < LIMIT / 2
    with pytest.raises(ValueError, match="metadata takes"):
        startup_script(Startup(slot="s", generation=1, tpu="t", user="u", script="#" * 200_000))


def test_nothing_is_left_unquoted():
    """By the usual checker, where it is there."""
    program = shutil.which("shellcheck")
    if not program:
        pytest.skip("there is no shellcheck here")
    source = Path(__file__).parents[2] / "shared/tpufn/worker/startup.sh"
    done = subprocess.run([program, "-s", "bash", str(source)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("name", "number"), [("t1v-n-1a2b-w-12", 12), ("t1v-n-1a2b-w-0.c.p.internal", 0), ("x", 0)])
def test_worker_number_without_metadata(name, number):
    """The host's name has it too."""
    assert worker_number("", name) == number


def test_report_of_what_is_missing(tmp_path):
    """No log, no key: the worker is there all the same."""
    told = describe({"slot": "s", "generation": "2", "output": str(tmp_path / "none")})
    assert (told["generation"], told["host_key"], told["startup"]) == (2, "", {"exit": 0, "tail": ""})
