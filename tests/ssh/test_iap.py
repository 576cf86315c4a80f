"""The tunnel through a relay as IAP runs one, to a real sshd and to an echo."""

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from tpufn.adapters.iap import IapDialer, IapSocket, Tunnel, explain
from tpufn.adapters.iap_frames import MAX_DATA, Ack, Connected, Data, FrameError, Reconnected, pack, unpack
from tpufn.adapters.iap_proxy import relay as run_filter
from tpufn.adapters.ssh_target import Host, Unreached

from .relay import TOKEN, relay
from .site import Names, machine, ssh_site
from .sshd import until

TUNNEL = Tunnel(project="p", zone="z", instance="echo")


@pytest.fixture
def proxy():
    with relay() as made:
        yield made


@pytest.fixture
def echo(proxy):
    """A backend that gives back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy.backends["echo"] = server.getsockname()
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        yield proxy


def answer(server):
    try:
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)
    except OSError:
        return


def open_socket(proxy, **more):
    return IapSocket(TUNNEL, lambda: TOKEN, relay=proxy.url, **more)


def receive(tunnel, size):
    data = bytearray()
    while len(data) < size and (piece := tunnel.recv(1 << 16)):
        data += piece
    return bytes(data)


@pytest.mark.parametrize("frame", [Connected("sid"), Reconnected(1 << 40), Data(b"x" * MAX_DATA), Ack(7)])
def test_frames(frame):
    """There and back; cut ones are errors, not other frames."""
    assert unpack(pack(frame)) == frame
    assert unpack(pack(frame) + b"extra") == frame
    for end in (0, 1, 5, len(pack(frame)) - 1):
        with pytest.raises(FrameError):
            unpack(pack(frame)[:end])


def test_unknown_tags_are_ignored():
    """A later version of the relay may send them."""
    assert unpack(b"\x00\x09whatever") is None


def test_bytes_pass_both_ways(echo):
    """In frames of at most 16,384 bytes, with the token and the target in the request."""
    tunnel = open_socket(echo)
    data = os.urandom(1_000_000)
    sender = threading.Thread(target=tunnel.sendall, args=(data,))
    sender.start()
    assert receive(tunnel, len(data)) == data
    sender.join()
    tunnel.close()
    assert (echo.largest, echo.tokens) == (MAX_DATA, {f"Bearer {TOKEN}"})
    expected = {"project": "p", "zone": "z", "instance": "echo", "port": "22", "interface": "nic0"}
    assert echo.queries == [{**expected, "newWebsocket": "True"}]


def test_acknowledged_bytes_are_not_kept(echo):
    """Memory stays bounded on both sides, however much passes."""
    tunnel = open_socket(echo)
    data = os.urandom(2_000_000)
    sender = threading.Thread(target=tunnel.sendall, args=(data,))
    sender.start()
    assert receive(tunnel, len(data)) == data
    sender.join()
    [session] = echo.sessions.values()
    until(lambda: len(session.unacked) <= 3 * MAX_DATA)
    until(lambda: look(tunnel) or not tunnel._unconfirmed)
    tunnel.close()


def look(tunnel):
    """Take in what has come; acks are no data."""
    tunnel.settimeout(0.01)
    with suppress(TimeoutError):
        assert tunnel.recv(1) == b"there is no more data"


def test_lost_websocket_is_resumed(echo):
    """The relay restarts in mid-stream, three times: not a byte is lost or doubled."""
    echo.break_after = [5, 7, 3]
    tunnel = open_socket(echo)
    data = os.urandom(600_000)
    sender = threading.Thread(target=tunnel.sendall, args=(data,))
    sender.start()
    assert receive(tunnel, len(data)) == data
    sender.join()
    tunnel.close()
    assert echo.resumed == 3


class Script(IapSocket):
    """Its connections are these, one after the other."""

    def __init__(self, *connections):
        self.connections = list(connections)
        super().__init__(TUNNEL, lambda: "")

    def _open(self, endpoint, query, deadline):
        return self.connections.pop(0)


class Buffered:
    """A connection that has these messages for us; before the first of them the sender finds that it is broken."""

    def __init__(self, *data, breaks=False):
        self.messages, self.breaks = [pack(Data(each)) for each in data], breaks
        self.tunnel = None

    def recv(self, timeout=None):
        if self.breaks:
            self.breaks = False
            assert self.tunnel._resume()
        return self.messages.pop(0)


def test_what_a_broken_connection_still_holds_is_not_doubled():
    """Sender and receiver are two threads: while one resumes, the other is about to read what will be sent again."""
    old, new = Buffered(b"once", breaks=True), Buffered(b"once", b" only")
    tunnel = old.tunnel = Script(old, new)
    assert receive(tunnel, 9) == b"once only"


def test_recv_has_a_time_limit(echo):
    """paramiko looks around ten times a second."""
    tunnel = open_socket(echo)
    tunnel.settimeout(0.01)
    with pytest.raises(TimeoutError):
        tunnel.recv(10)
    tunnel.close()
    assert tunnel.recv(10) == b""


@pytest.mark.parametrize(
    ("code", "again", "words"),
    [
        (4003, True, "firewall-rules create"),
        (4047, True, "not known yet"),
        (4033, False, "roles/iap.tunnelResourceAccessor"),
        (4004, False, "closed the tunnel"),
    ],
)
def test_codes_before_the_tunnel_stands(echo, code, again, words):
    """What to do differs: only the machine that is not up yet is worth another try."""
    echo.codes["echo"] = [code]
    with pytest.raises(Unreached, match=words) as caught:
        open_socket(echo)
    assert (caught.value.again, f"IAP {code}" in caught.value.cause) == (again, True)
    if code == 4033:
        assert "gcloud projects add-iam-policy-binding p " in caught.value.cause


def test_late_4003_is_infrastructure():
    """The worker went away: no try within this call brings it back."""
    failure = explain(4003, "", TUNNEL, early=False)
    assert (failure.again, "went away" in failure.cause) == (False, True)


def test_no_relay_at_all():
    """A dead network has its words."""
    with pytest.raises(Unreached, match="IAP: ConnectionRefusedError"):
        IapSocket(TUNNEL, lambda: TOKEN, relay="ws://127.0.0.1:1/v4")


def test_machine_without_a_name_yet(proxy):
    """The guest attributes come some seconds after READY."""
    dialer = IapDialer("p", Names(1), lambda: TOKEN, relay=proxy.url)
    with pytest.raises(Unreached, match="not in its guest attributes yet") as caught:
        dialer.dial(Host(tpu="t", zone="z", worker=3, reach=""), timeout=5)
    assert caught.value.again


def test_launch_through_a_relay_in_trouble(tmp_path):
    """Early 4003 and 4047 are tried again; 4033 is told with what mends it; a late 4003 is told as such."""
    with ssh_site(tmp_path, 4, through_iap=True) as site:
        site.relay.codes = {machine(0): [4003, 4047], machine(1): [4033]}
        site.relay.late = {machine(2)}
        causes = site.again(pause=lambda attempt: None).launch(site.order())
        assert set(causes) == {1, 2}
        assert "4033" in causes[1]
        assert "4003" in causes[2]
        assert "went away" in causes[2]
        assert set(site.results(site.order(), "accepted")) == {0, 3}


def test_filter_for_openssh(echo):
    """Standard input to the worker, its answers to standard output."""
    (source, write), (read, target) = os.pipe(), os.pipe()
    os.write(write, b"over and back")
    thread = threading.Thread(target=run_filter, args=(open_socket(echo), source, target))
    thread.start()
    assert os.read(read, 100) == b"over and back"
    os.close(write)
    thread.join(10)
    assert not thread.is_alive()
    for each in (source, read, target):
        os.close(each)


def test_filter_tells_what_is_wrong():
    """One line, and an exit code that ssh passes on as its own 255."""
    command = [sys.executable, "-m", "tpufn.adapters.iap", "--project", "p", "--zone", "z"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, "--instance" in done.stdout) == (0, True)
