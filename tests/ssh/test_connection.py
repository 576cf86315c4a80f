"""One worker, and all the ways not to reach it: each has a cause of its own, within its time."""

import io
import logging
import os
import socket
import subprocess
import time
from dataclasses import replace

import paramiko
import pytest

from tpufn.adapters.ssh_hosts import Identity
from tpufn.adapters.ssh_target import Deadline, Host, Unreached
from tpufn.worker.archive import archive, version

from .gate import gate
from .site import NAME, ONCE, ssh_site, started
from .sshd import new_key, until

CANARY = "canary-7f3a91"


def only(site, reach):
    """The site with one worker, at that address."""
    site.hosts = (replace(site.hosts[0], reach=reach),)
    site.tpu = replace(site.tpu, workers=site.hosts)
    return site


@pytest.fixture
def silent():
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_refused_is_tried_again(site):
    """sshd starts late: three tries, with a pause before the second and the third."""
    pauses = []
    order = only(site, "127.0.0.1:1").order()
    causes = site.again(pause=pauses.append).launch(order)
    assert (pauses, causes) == ([1, 2], {0: "127.0.0.1:1: Connection refused"})


def test_refused_at_first_and_then_there(site):
    """What the pauses are for."""
    good = site.hosts[0].reach
    order = only(site, "127.0.0.1:1").order()
    dialled = []

    class Dialer:
        def dial(self, host, *, timeout):
            dialled.append(host)
            if len(dialled) < 3:
                raise ConnectionRefusedError
            return socket.create_connection(replace(host, reach=good).endpoint)

    assert site.again(dialer=Dialer(), pause=lambda attempt: None).launch(order) == {}


def test_wrong_key_is_permission_denied_and_not_tried_again(site):
    """It does not pass within seconds; ssh's 255 would have said nothing."""
    site.key = paramiko.Ed25519Key.from_private_key(io.StringIO(new_key()[0].decode()))
    pauses = []
    causes = site.again(pause=pauses.append).launch(site.order())
    assert pauses == []
    assert all("Permission denied (publickey)" in cause for cause in causes.values())
    assert set(causes) == {0, 1, 2, 3}


def test_silent_worker_takes_no_longer_than_its_time(site, silent):
    """The handler has an end of its own."""
    begin = time.monotonic()
    workers = only(site, silent).again(connect=0.3)
    assert "in time" in workers.launch(site.order())[0]
    assert workers.usable(site.tpu) == frozenset()
    assert time.monotonic() - begin < 10


def test_whole_call_is_bounded(site, silent):
    """Who is not reached by then is left for the next performer, with that cause."""
    site.hosts = (replace(site.hosts[0], reach=silent), *site.hosts[1:])
    workers = site.again(launch_budget=2.5, width=1)
    causes = workers.launch(site.order())
    assert causes
    assert all("in time" in cause or "not reached within 2.5 s" in cause for cause in causes.values())
    assert set(site.again().launch(replace(site.order(), workers=site.hosts[:0]))) == set()


def test_first_key_is_pinned_and_another_refused(site):
    """Strict from the second time on, for this generation; the next one is another name."""
    assert len(site.workers.usable(site.tpu)) == 4
    assert {index: site.pins.get(NAME, index) for index in range(4)} == {
        index: server.public for index, server in enumerate(site.servers)
    }
    site.pins.keys[NAME, 1] = new_key()[1]
    assert site.workers.usable(site.tpu) == {0, 2, 3}
    cause = site.workers.launch(site.order())[1]
    assert "has changed within one generation" in cause
    assert cause.count("SHA256:") == 2
    assert len(site.workers.usable(replace(site.tpu, name="tpufn-lab-s-g4"))) == 4


def test_known_hosts_of_the_user_is_untouched(site):
    """Our pins are ours."""
    path = os.path.expanduser("~/.ssh/known_hosts")
    before = os.stat(path).st_mtime_ns if os.path.exists(path) else None
    site.workers.usable(site.tpu)
    assert (os.stat(path).st_mtime_ns if os.path.exists(path) else None) == before


def test_agent_that_cannot_run_is_no_exit_code(site):
    """The remote shell's 127 has its words; it is nobody's result."""
    causes = site.again(python="no-such-python").launch(site.order())
    assert all("ended with 127" in cause and "no-such-python" in cause for cause in causes.values())


def test_agent_is_delivered_once(site):
    """The second call sends the order alone."""
    agent = site.homes[0] / ".tpufn" / f"agent-{version()}.pyz"
    with gate(site.hosts[0].reach) as between:
        only(site, between.reach)
        assert site.workers.launch(site.order()) == {}
        assert agent.read_bytes() == archive()
        assert agent.stat().st_mode & 0o777 == 0o600
        before = agent.stat().st_mtime_ns
        assert site.workers.alive(site.tpu, "job.1") == {0: True}
        assert agent.stat().st_mtime_ns == before
        assert between.connections == 2  # one a call


def test_launches_at_once_start_once(site):
    """Two performers may hold the same effect."""
    from concurrent.futures import ThreadPoolExecutor

    order = site.order(ONCE)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: site.again().launch(order), range(3))) == [{}, {}, {}]
    site.go(order)
    until(lambda: started(site) == [1, 1, 1, 1])


def test_job_survives_the_connection(site):
    """Nothing of it hangs on sshd's session."""
    order = site.order("echo up; read -r line < /dev/null; echo $?; sleep 1000")
    site.workers.launch(order)
    until(lambda: len(site.results(order, "prepared")) == 4)
    assert all("Disconnected from" in server.words or "closed by" in server.words for server in site.servers)
    site.go(order)
    until(lambda: site.log(order, 2) == b"up\n1\n")


def test_umask_of_the_job_is_the_machines(site):
    """The agent's own files are private; what the job writes is its own affair."""
    order = only(site, site.hosts[0].reach).order("umask")
    site.workers.launch(order)
    site.go(order)
    until(lambda: site.results(order, "closed"))
    assert site.log(order).strip() in (b"0022", b"0002")


def test_values_stay_out_of_arguments_files_and_logs(site, caplog, tmp_path):
    """What the order holds is on the worker's disk, for its user alone, until the attempt is closed."""
    ours = logging.getLogger("tpufn.ssh")
    ours.addHandler(caplog.handler)
    order = site.order(f"echo {CANARY}-command >/dev/null; sleep 1000", env={"A": CANARY}, secrets={"B": CANARY})
    seen = []
    with caplog.at_level(logging.DEBUG, logger=ours.name):
        assert site.workers.launch(order) == {}
        seen.append(subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout)
        site.workers.alive(site.tpu, "job.1")
    ours.removeHandler(caplog.handler)
    assert CANARY.encode() not in seen[0]
    assert "userauth is OK" in caplog.text  # paramiko's own words, to the last detail
    assert CANARY not in caplog.text
    assert all(CANARY not in server.words for server in site.servers)
    found = subprocess.run(["grep", "-rl", CANARY, str(tmp_path)], capture_output=True, text=True, check=False).stdout
    assert {os.stat(path).st_mode & 0o777 for path in found.split()} == {0o600}
    until(lambda: len(site.results(order, "prepared")) == 4)
    site.workers.stop(site.stop_order(order))
    until(lambda: len(site.results(order, "closed")) == 4)
    left = subprocess.run(["grep", "-rl", CANARY, str(tmp_path)], capture_output=True, check=False)
    assert left.stdout == b""


def test_causes_hold_no_values(site):
    """Not even those of an agent that failed with the order in its hands."""
    order = site.order(env={"A": CANARY}, secrets={"B": CANARY})
    for settings in ({"lease": None}, {"lease": 5}, {"attempt": "../x"}):
        causes = site.again(settings=settings).launch(order)
        assert CANARY not in str(causes)


@pytest.mark.parametrize(
    ("reach", "endpoint"),
    [
        ("10.0.0.1", ("10.0.0.1", 22)),
        ("10.0.0.1:2222", ("10.0.0.1", 2222)),
        ("fd00::5", ("fd00::5", 22)),
        ("[fd00::5]:2222", ("fd00::5", 2222)),
        ("name.internal", ("name.internal", 22)),
    ],
)
def test_endpoints(reach, endpoint):
    """Addresses as the API gives them, with a port where a test or a tunnel has another."""
    assert Host(tpu="t", zone="z", worker=0, reach=reach).endpoint == endpoint


def test_deadline_that_is_over():
    """It names what was going on."""
    with pytest.raises(Unreached, match="no time left while greeting"):
        Deadline(0.0).check("greeting")


def test_former_key_still_opens(tmp_path):
    """During a rotation the newest key comes first, and TPUs that know only the former one are still reached."""
    with ssh_site(tmp_path, 1) as site:
        new = paramiko.Ed25519Key.from_private_key(io.StringIO(new_key()[0].decode()))
        workers = site.again(keys=[new, site.key])
        assert workers.usable(site.tpu) == {0}
        assert Identity(site.pins).expected(Host(tpu=NAME, zone="z", worker=0, reach="")) == site.servers[0].public
