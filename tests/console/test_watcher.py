"""What an open console does by itself: only what is configured, only the person's own, each once."""

from pathlib import Path
from typing import Any

import pytest

from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet, Mode
from tpufn_cli.console.setup import SetUp
from tpufn_cli.console.site import Site
from tpufn_cli.console.watcher import Watcher

from .conftest import Server, slot


class Client:
    mode, where = Mode.LAPTOP, "laptop lab"

    def fleet(self) -> Fleet:
        return Fleet(name="lab", settings={"tmux_sync": "false", "auto_setup": "false"})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Site(Client(), home=tmp_path, base=tmp_path, environment={"TPUFN_CONFIG": "/none"})  # type: ignore[arg-type]
    made.done = []  # type: ignore[attr-defined]

    def set_up(one: Any, **more: Any) -> SetUp:
        made.done.append(one.name)  # type: ignore[attr-defined]
        made.memory.note_set_up(one.tpu, "ok")
        return SetUp(one.name, one.tpu, {}, ())

    monkeypatch.setattr(made, "set_up", set_up)
    return made


MINE = slot("mine", hold="ada")
OTHERS = (slot("jobs"), slot("graces", hold="grace"), slot("coming", hold="ada", state="booting"))


def test_nothing_without_configuration(site: Any) -> None:
    """Off by default."""
    assert [act() for act in Watcher(site, user="ada").duties((MINE, *OTHERS)).values()] == [(), (), ()]
    assert site.done == []


def test_own_tpus_are_set_up_once(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that one holds and that are ready; a new generation again; not while the console is closing."""
    site.environment["TPUFN_SETUP__AUTO"] = "true"
    watcher = Watcher(site, user="ada")
    assert watcher.set_up((MINE, *OTHERS)) == ("mine: set up on 0 workers",)
    assert watcher.set_up((MINE, *OTHERS)) == ()
    watcher.set_up((slot("mine", hold="ada", tpu="tpufn-lab-mine-g2"),))
    assert site.done == ["mine", "mine"]
    watcher.stop()
    watcher.set_up((slot("mine", hold="ada", tpu="tpufn-lab-mine-g3"),))
    assert len(site.done) == 2


def test_a_missing_agent_is_said_once(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And tried again quietly: the person may add a key meanwhile."""
    site.environment["TPUFN_SETUP__AUTO"] = "true"
    monkeypatch.setattr(site, "set_up", lambda one, **more: (_ for _ in ()).throw(InputError("no key; ssh-add")))
    watcher = Watcher(site, user="ada")
    assert watcher.set_up((MINE,)) == ("no key; ssh-add",)
    assert watcher.set_up((MINE,)) == ()


def test_windows_follow_the_tpus(site: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tmux.sync each usable TPU gets its window while a console is open; without tmux that is said once."""
    site.environment |= {"TPUFN_TMUX__SYNC": "1", "TPUFN_TMUX__SOCKET": server.socket}
    monkeypatch.setattr(site, "shell", lambda one: ["cat"])
    watcher = Watcher(site, user="ada")
    assert watcher.mirror((MINE,)) == ("mine: opened its tmux window",)
    assert watcher.mirror((MINE,)) == ()
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nonexistent")
        assert "tmux is not installed" in watcher.mirror((MINE,))[0]
        assert watcher.mirror((MINE,)) == ()
