"""The mirror against a real tmux server: it creates what is missing, and closes nothing by itself."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tpufn.domain.errors import NotFound
from tpufn_cli.console.tmux import NO_TMUX, session_of

from .conftest import FLEET, Server, slot

ONE, TWO = "spot-v6e8-ue5b-1", "spot-v6e8-ue5b-2"


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "never so"
        time.sleep(0.02)


def test_one_window_per_usable_tpu(server: Server) -> None:
    """Named after its slot, in a session of its zone; slots without a TPU get none; a second sync makes nothing."""
    slots = [slot(ONE), slot(TWO), slot("spot-v6e8-ue5b-3", state="free", tpu="", workers=())]
    mirror = server.mirror()
    assert mirror.sync(slots) == (ONE, TWO)
    assert mirror.sync(slots) == ()
    found = [(w.session, w.name, w.tpu) for w in server.tmux.windows()]
    assert sorted(found) == [("tpu-ue5b", name, f"tpufn-lab-{name}-g1") for name in (ONE, TWO)]


def test_the_window_stays_when_its_shell_ends(server: Server) -> None:
    """Even one that ends at once: the last output is what a person needs then."""
    server.mirror(lambda slot: ["sh", "-c", "echo last words; exit 3"]).sync([slot(ONE)])
    until(lambda: server.tmux.windows()[0].dead)
    until(lambda: "last words" in server.run("capture-pane", "-p", "-S", "-", "-t", f"=tpu-ue5b:={ONE}"))


def test_open_starts_a_dead_shell_again(server: Server) -> None:
    """And makes the window current; an open one is left as it is."""
    server.mirror(lambda slot: ["true"]).sync([slot(ONE)])
    until(lambda: server.tmux.windows()[0].dead)
    mirror = server.mirror()
    said = mirror.open(slot(ONE))
    assert said.endswith(f"tmux -L {server.socket} attach -t tpu-ue5b")
    (window,) = server.tmux.windows()
    assert not window.dead
    mirror.open(slot(ONE))
    assert server.tmux.windows() == (window,)


def test_a_gone_tpu_leaves_an_orphan(server: Server) -> None:
    """Reported, never closed; the slot's next TPU uses the window only when a person opens it."""
    mirror = server.mirror()
    mirror.sync([slot(ONE)])
    gone = slot(ONE, state="free", tpu="", workers=())
    mirror.sync([gone])
    assert [w.name for w in mirror.look([gone]).orphaned] == [ONE]
    assert len(server.tmux.windows()) == 1


def test_closing_is_an_explicit_act(server: Server) -> None:
    """Of one slot's windows alone; what is not there is said."""
    mirror = server.mirror()
    slots = [slot(ONE), slot(TWO)]
    mirror.sync(slots)
    assert mirror.close(ONE, slots) == f"closed 1 window of {ONE}"
    assert [w.name for w in server.tmux.windows()] == [TWO]
    with pytest.raises(NotFound, match="has no tmux window"):
        mirror.close(ONE, slots)


def test_a_window_of_the_same_name_is_not_doubled(server: Server) -> None:
    """A person's own window of a slot's name counts as its window; two of one name are reported, not repaired, and
    closing takes only the one that tpufn made."""
    server.run("-f", "/dev/null", "new-session", "-d", "-s", "tpu-ue5b", "-n", ONE, "cat")
    mirror = server.mirror()
    assert mirror.sync([slot(ONE)]) == ()
    mirror.sync([slot(TWO)])
    server.run("new-window", "-d", "-t", "=tpu-ue5b:", "-n", TWO, "cat")
    assert mirror.look([slot(ONE), slot(TWO)]).duplicates == (TWO,)
    mirror.close(TWO, [slot(ONE), slot(TWO)])
    assert [(w.name, w.tpu) for w in server.tmux.windows()] == [(ONE, ""), (TWO, "")]


def test_names_alike_are_told_apart(server: Server) -> None:
    """tmux matches prefixes and patterns unless it is told not to."""
    mirror = server.mirror()
    slots = [slot("spot-v6e8-ue5b-11"), slot(ONE)]
    mirror.sync(slots)
    mirror.close(ONE, slots)
    assert [w.name for w in server.tmux.windows()] == ["spot-v6e8-ue5b-11"]


def test_a_dead_server_is_started_again(server: Server) -> None:
    """Its socket is still there; the next sync makes everything anew."""
    mirror = server.mirror()
    mirror.sync([slot(ONE)])
    server.run("kill-server")
    assert server.tmux.windows() == ()
    assert mirror.look([slot(ONE)]).missing == (ONE,)
    assert mirror.sync([slot(ONE)]) == (ONE,)


def test_without_tmux_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, server: Server) -> None:
    """One sentence, which callers say once."""
    mirror = server.mirror()
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(NotFound) as caught:
            mirror.sync([slot(ONE)])
    assert str(caught.value) == NO_TMUX


def test_sessions_are_named_after_zones() -> None:
    """With the deployment's own short names where it has some."""
    assert session_of("us-central2-b", FLEET) == "tpu-uc2b"
    assert session_of("europe-west4-a", FLEET) == "tpu-eu"
