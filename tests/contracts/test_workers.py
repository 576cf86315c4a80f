"""The contract of the port `Workers`, for each of its implementations: the sandbox's hosts, and real sshds, reached
directly and through a relay as IAP runs one."""

import pytest

from tpufn.domain.orders import LaunchOrder
from tpufn.domain.slot import Lease

from ..ssh.site import local_site, ssh_site
from ..ssh.sshd import require, until


@pytest.fixture(params=["local", "ssh", "ssh through iap"])
def site(request, tmp_path):
    if request.param == "local":
        with local_site(tmp_path) as made:
            yield made
        return
    require()
    with ssh_site(tmp_path, through_iap=request.param.endswith("iap")) as made:
        yield made


def all_of(site, order, what):
    return len(site.results(order, what)) == len(site.hosts)


def test_whole_attempt(site):
    """Launch, go, output and results of every worker, each with its own number."""
    order = site.order('echo "$JOB_WORKER_ID of $TPU_WORKER_COUNT at $TPU_WORKER_HOST"')
    assert site.workers.usable(site.tpu) == {0, 1, 2, 3}
    assert site.workers.launch(order) == {}
    until(lambda: all_of(site, order, "prepared"))
    assert site.workers.alive(site.tpu, "job.1") == dict.fromkeys(range(4), True)
    site.go(order)
    until(lambda: all_of(site, order, "closed"))
    for worker, host in enumerate(site.hosts):
        assert site.log(order, worker).decode() == f"{worker} of 4 at {host.address}\n"
    assert site.workers.alive(site.tpu, "job.1") == dict.fromkeys(range(4), False)


def test_launch_is_idempotent(site):
    """The next performer launches again what its predecessor may have launched."""
    order = site.order("echo once")
    assert site.workers.launch(order) == {}
    assert site.again().launch(order) == {}
    site.go(order)
    until(lambda: all_of(site, order, "closed"))
    assert site.workers.launch(order) == {}
    assert [site.log(order, worker) for worker in range(4)] == [b"once\n"] * 4


def test_unreached_worker_is_told_with_its_cause(site):
    """N-1 of N: the others are launched, and told to stop, all the same."""
    site.lose(2)
    order = site.order()
    missing = site.workers.launch(order)
    assert set(missing) == {2}
    assert missing[2]
    assert set(site.results(order, "accepted")) == {0, 1, 3}
    assert set(site.workers.stop(site.stop_order(order))) == {2}
    until(lambda: set(site.results(order, "closed")) == {0, 1, 3})


def test_stop_ends_the_attempt(site):
    """On every worker, with the proof in the bucket."""
    order = site.order("echo up; sleep 1000")
    site.workers.launch(order)
    site.go(order)
    until(lambda: all(site.log(order, worker) == b"up\n" for worker in range(4)))
    assert site.workers.stop(site.stop_order(order)) == {}
    until(lambda: all_of(site, order, "closed"))
    assert all(each["ours"] for each in site.results(order, "exited").values())
    assert all(each["clean"] for each in site.results(order, "closed").values())
    assert site.workers.stop(site.stop_order(order)) == {}


def test_stop_before_any_launch(site):
    """The tombstone refuses the launch that comes late, and says so."""
    order = site.order()
    assert site.workers.stop(site.stop_order(order)) == {}
    until(lambda: all_of(site, order, "closed"))
    missing = site.workers.launch(order)
    assert set(missing) == {0, 1, 2, 3}
    assert all("tombstone" in cause for cause in missing.values())
    assert site.results(order, "accepted") == {}


def test_other_generation_is_refused(site):
    """An order for a former TPU at a recycled address."""
    order = site.order(lease=Lease(slot="s", generation=2, fence=1, attempt="job.1"))
    assert all("generation" in cause for cause in site.workers.launch(order).values())
    assert set(site.workers.launch(order)) == {0, 1, 2, 3}


def test_other_attempt_is_refused_while_one_is_open(site):
    """Two attempts never share a TPU."""
    first, second = site.order(), site.order(number=2)
    assert site.workers.launch(first) == {}
    assert all("not closed" in cause for cause in site.workers.launch(second).values())
    site.workers.stop(site.stop_order(first))
    until(lambda: all_of(site, first, "closed"))
    assert site.workers.launch(second) == {}


VALUES = {
    "QUOTES": "a 'b' \"c\" `d` $(e) $F \\ = %",
    "LINES": "one\ntwo\r\n\tthree\n",
    "UNICODE": "grüße \N{GRINNING FACE}",
    "DASH": "-rf /",
    "LARGE": "x" * 100_000,
    "EMPTY": "",
}


def test_values_arrive_as_they_are(site):
    """Values never pass through a shell's reading."""
    names = " ".join(VALUES)
    order: LaunchOrder = site.order(f'for n in {names}; do printf "%s\\0" "${{!n}}"; done', env=VALUES)
    site.workers.launch(order)
    site.go(order)
    until(lambda: all_of(site, order, "closed"))
    assert site.log(order, 3).decode().split("\0")[:-1] == list(VALUES.values())
