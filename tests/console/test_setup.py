"""Set-ups: on all workers, output kept, remembered per TPU; what is missing is said with the lines to type."""

import os
import stat
import sys
from pathlib import Path

import pytest

from tpufn.domain.errors import Conflict, InputError
from tpufn.domain.fleet import Mode
from tpufn_cli.console.agent import NO_AGENT, NO_KEY, NO_TOOLS, require_agent
from tpufn_cli.console.children import MISSING, STOPPED, Children
from tpufn_cli.console.hosts import LocalHost, Way, hosts_of
from tpufn_cli.console.memory import Memory
from tpufn_cli.console.setup import Script, SetUp, scripts, set_up
from tpufn_cli.console.tailscale import KeyStore, join

from .conftest import FLEET, slot


@pytest.fixture
def hosts(tmp_path: Path) -> list[LocalHost]:
    made = [LocalHost(number, tmp_path / f"w{number}") for number in range(3)]
    for host in made:
        (host.directory / "home").mkdir(parents=True)
    return made


def run(hosts: list[LocalHost], tmp_path: Path, *texts: str, timeout: float = 60.0) -> SetUp:
    wanted = [Script(f"{number}.sh", text.encode()) for number, text in enumerate(texts)]
    folder, memory = tmp_path / "logs", Memory(tmp_path, "lab")
    return set_up(slot(), hosts, wanted, folder=folder, memory=memory, children=Children(), timeout=timeout)


def test_scripts_run_on_all_workers(hosts: list[LocalHost], tmp_path: Path) -> None:
    """Each knows where it runs; the output is kept; the TPU counts as set up."""
    done = run(hosts, tmp_path, '#!/bin/sh\necho "at $TPUFN_SLOT $TPUFN_WORKER"\n')
    assert done.ok
    assert [f"at {done.slot} {n}" in log.read_text() for n, log in enumerate(done.logs)] == [True] * 3
    assert Memory(tmp_path, "lab").set_up() == {slot().tpu: "ok"}


def test_a_failure_names_worker_and_script(hosts: list[LocalHost], tmp_path: Path) -> None:
    """Later scripts do not run there; the other workers go on; the failure is remembered, so that it is not repeated
    by itself."""
    done = run(hosts, tmp_path, "#!/bin/sh\n[ $TPUFN_WORKER != 1 ]\n", "#!/bin/sh\ntouch second\n")
    assert done.failed == {1: "0.sh ended with 1"}
    assert "failed on 1 of 3 workers; worker 1: 0.sh ended with 1" in done.words
    assert [(h.directory / "home" / "second").exists() for h in hosts] == [True, False, True]
    assert "failed" in Memory(tmp_path, "lab").set_up()[slot().tpu]


def test_a_script_never_reads_this_programs_input(hosts: list[LocalHost], tmp_path: Path) -> None:
    """It gets an end of file at once: a question in a script must not hang, or eat the terminal's keys."""
    assert run(hosts[:1], tmp_path, "#!/bin/sh\nread answer || echo nobody answers\n").ok
    assert "nobody answers" in (tmp_path / "logs" / slot().tpu / "w0.log").read_text()


def test_a_set_up_that_hangs_is_stopped(hosts: list[LocalHost], tmp_path: Path) -> None:
    """With all that it started."""
    done = run(hosts[:1], tmp_path, "#!/bin/sh\nsleep 600 & wait\n", timeout=0.5)
    assert done.failed == {0: f"0.sh ended with {STOPPED}"}


def test_the_shipped_script_says_what_is_there(hosts: list[LocalHost], tmp_path: Path) -> None:
    """In the sandbox it installs nothing."""
    (script,) = scripts((), tmp_path)
    done = run(hosts[:1], tmp_path, script.text.decode())
    assert done.ok
    assert "a simulated worker: nothing is installed" in done.logs[0].read_text()


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    """With the path that was looked for."""
    with pytest.raises(InputError, match=str(tmp_path / "nope.sh")):
        scripts(["nope.sh"], tmp_path)


@pytest.mark.parametrize(("code", "said"), [(2, NO_AGENT), (1, NO_KEY), (MISSING, NO_TOOLS)])
def test_a_missing_agent_is_said_with_the_lines_to_type(code: int, said: str) -> None:
    """Before anything runs: half a set-up is worse than none."""
    with pytest.raises(InputError) as caught:
        require_agent(lambda: (code, ""))
    assert str(caught.value) == said
    require_agent(lambda: (0, "256 SHA256:... ada"))


def test_how_workers_are_reached(tmp_path: Path) -> None:
    """Plain ssh with the agent forwarded and host keys per TPU; gcloud's tunnel behind IAP; nothing without a TPU."""
    way = Way(fleet=FLEET, mode=Mode.CLOUD, where="cloud lab", home=tmp_path, user="ada")
    first, second = hosts_of(slot(), way)
    command = second.shell()
    assert command[:2] == ["ssh", "-A"]
    assert command[-1] == "ada@34.1.2.4"
    assert f"UserKnownHostsFile={tmp_path}/console/known_hosts/{slot().tpu}" in command
    assert first.run("true")[-3:] == ["ada@34.1.2.3", "--", "true"]
    tunnelled = Way(
        fleet=FLEET.__class__(name="lab", project="p", settings={"ssh_transport": "iap"}),
        mode=Mode.CLOUD,
        where="",
        home=tmp_path,
        user="ada",
    )
    command = hosts_of(slot(), tunnelled)[1].shell()
    assert command[:7] == ["gcloud", "alpha", "compute", "tpus", "tpu-vm", "ssh", f"ada@{slot().tpu}"]
    assert {"--worker=1", "--tunnel-through-iap", "--ssh-flag=-A"} <= set(command)
    with pytest.raises(Conflict, match="no workers to reach"):
        hosts_of(slot(state="free", tpu="", workers=()), way)


class Elsewhere(LocalHost):
    """A worker that counts as remote, whose programs are this test's."""

    def run(self, script: str) -> list[str]:
        path = f"{self.directory.parent}/bin:{os.environ['PATH']}"
        return ["env", f"PATH={path}", f"TMPDIR={self.directory}", "sh", "-c", script]


def test_the_tailscale_key_stays_secret(tmp_path: Path) -> None:
    """It reaches the worker through standard input and a file that is gone afterwards; arguments, output and logs do
    not have it, even where the tool prints it."""
    tools = tmp_path / "bin"
    tools.mkdir()
    seen = tmp_path / "seen"
    (tools / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tools / "tailscale").write_text(
        f'#!/bin/sh\necho "$@" >> {seen}\n[ "$1" = up ] && echo "key $(cat ${{2#--auth-key=file:}})"\necho 1\n'
    )
    for tool in tools.iterdir():
        tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
    keys = KeyStore(tmp_path)
    with pytest.raises(InputError, match="no Tailscale auth key is kept here"):
        keys.read()
    with pytest.raises(InputError, match="start with tskey-"):
        keys.save("hunter2")
    assert "readable by you alone" in keys.save(" tskey-auth-secret\n")
    host = Elsewhere(0, tmp_path / "w0", is_remote=True)
    host.directory.mkdir()
    lines: list[str] = []
    failed = join(slot(), [host], keys.read(), children=Children(), tell=lambda _, line: lines.append(line))
    assert failed == {}
    assert "key tskey-…" in lines
    assert "tskey-auth-secret" not in seen.read_text() + "".join(lines)
    assert f"--hostname={slot().name}-w0" in seen.read_text()
    assert list(host.directory.iterdir()) == []


def test_simulated_workers_join_no_tailnet(hosts: list[LocalHost]) -> None:
    """They are this machine."""
    with pytest.raises(InputError, match="simulated"):
        join(slot(), hosts, "tskey-x", children=Children())


def test_children_end_with_the_program() -> None:
    """`close` ends what runs, and a tool that is not there is a line and a code."""
    children, lines = Children(), list[str]()
    assert children.run(["/nonexistent/tool"], line=lines.append) == MISSING
    assert "No such file" in lines[0]

    def close(line: str) -> None:
        children.close()

    assert children.run([sys.executable, "-c", "print(1, flush=True); import time; time.sleep(600)"], line=close) < 0
