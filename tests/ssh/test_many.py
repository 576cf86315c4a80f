"""Sixty-four workers, five of them in trouble of five kinds: launched, continued by the next performer, stopped."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest

from tpufn.domain.cloud import Tpu

from .gate import gate
from .site import NAME, ONCE, ssh_site, started
from .sshd import new_key, until

COUNT = 64
REFUSING, SLOW, CROWDED, DYING, CHANGED = 5, 9, 17, 33, 41


@pytest.fixture
def site(tmp_path):
    with ssh_site(tmp_path, COUNT, more="MaxStartups 2:100:2\nLoginGraceTime 600") as made:
        yield made


class Trouble:
    """What is wrong with whom, and how it ends."""

    def __init__(self, site, stack):
        self.site = site
        self.slow = stack.enter_context(gate(site.servers[SLOW].reach))
        self.slow.opened.clear()
        self.dying = stack.enter_context(gate(site.servers[DYING].reach))
        self.dying.dies = lambda: DYING in site.results(site.order(), "accepted")
        self.crowd = [stack.enter_context(visitor(site.servers[CROWDED])) for _ in range(2)]
        assert all(each.recv(4) == b"SSH-" for each in self.crowd)  # they count from here on
        site.pins.put(NAME, CHANGED, new_key()[1])
        self.reaches = {REFUSING: "127.0.0.1:1", SLOW: self.slow.reach, DYING: self.dying.reach}
        self.good = site.hosts
        site.hosts = tuple(replace(h, reach=self.reaches.get(i, h.reach)) for i, h in enumerate(site.hosts))
        self.disperse = threading.Lock()

    def pause(self, attempt):
        """Between two tries: the crowd before sshd's door goes home."""
        server = self.site.servers[CROWDED]
        if "MaxStartups" not in server.words:
            return
        with self.disperse:
            for each in self.crowd:
                each.close()
            until(lambda: greets(server))


def visitor(server):
    return socket.create_connection((server.address, server.port))


def greets(server):
    with visitor(server) as probe:
        return probe.recv(4) == b"SSH-"


def test_sixty_four_workers(site):
    """One refusing, one slow, one dropping handshakes, one dying mid-launch, one with a changed key: each is told with
    its cause, nobody waits for them, and the next performer does the rest without starting anything twice."""
    order = site.order(ONCE)
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        trouble = Trouble(site, stack)
        order = replace(order, workers=site.hosts)
        launched = pool.submit(site.again(pause=trouble.pause).launch, order)
        reached = set(range(COUNT)) - {REFUSING, SLOW, CHANGED}
        until(lambda: launched.done() or set(site.results(order, "accepted")) == reached, 120)  # the slow one waits
        trouble.slow.opened.set()
        missing = launched.result()
        assert set(missing) == {REFUSING, DYING, CHANGED}
        assert "Connection refused" in missing[REFUSING]
        assert "Connection closed by remote host" in missing[DYING]  # of the last try
        assert "has changed within one generation" in missing[CHANGED]
        assert "MaxStartups" in site.servers[CROWDED].words
        assert started(site) == [0] * COUNT

    site.hosts = trouble.good
    order = replace(order, workers=site.hosts)
    assert set(site.again().launch(order)) == {CHANGED}
    site.pins.keys[NAME, CHANGED] = site.servers[CHANGED].public
    assert site.again().launch(order) == {}
    assert site.again().launch(order) == {}
    tpu = Tpu(name=NAME, zone="zone-a", workers=site.hosts)
    assert site.workers.usable(tpu) == set(range(COUNT))
    assert all(site.workers.alive(tpu, "job.1").values())
    site.go(order)
    until(lambda: started(site) == [1] * COUNT, 120)

    assert site.workers.stop(site.stop_order(order)) == {}
    until(lambda: len(site.results(order, "closed")) == COUNT, 120)
    assert all(each["clean"] for each in site.results(order, "closed").values())
    assert started(site) == [1] * COUNT
