"""Slots for people from the command line: what is asked of the client, and what a person reads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpufn.domain.errors import Conflict

SLOT = "spot-v6e16-ue5b-1"


@pytest.fixture(autouse=True)
def own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine that runs the tests."""
    monkeypatch.setenv("TPUFN_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("TPUFN_HOME", str(tmp_path))


@pytest.mark.parametrize("verb", ["queue", "hold", "release", "delete"])
def test_each_verb_asks_and_answers(
    tpufn: Callable[..., Any], client: Any, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The slot's name with what will happen; as JSON one document; refusals are exit 4."""
    asked: list[tuple[str, ...]] = []

    def answer(names: Any) -> dict[str, str]:
        asked.append(tuple(names))
        return dict.fromkeys(names, "will happen")

    monkeypatch.setattr(client, verb, answer, raising=False)
    monkeypatch.setattr(client, "serves", lambda: True, raising=False)
    assert tpufn("slots", verb, SLOT, "--set", "tmux.socket=none").code == 2 or verb == "setup"
    assert tpufn("slots", verb, SLOT).out == f"{SLOT}: will happen\n"
    assert json.loads(tpufn("slots", verb, SLOT, "--json").out) == {SLOT: "will happen"}
    assert asked == [(SLOT,)] * 2

    def refuse(names: Any) -> dict[str, str]:
        raise Conflict(f"{SLOT} is busy")

    monkeypatch.setattr(client, verb, refuse, raising=False)
    ran = tpufn("slots", verb, SLOT)
    assert ran.code == 4
    assert f"{SLOT} is busy" in ran.err


def test_race(tpufn: Callable[..., Any], client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All names in one request: the engine keeps the first that is granted."""
    monkeypatch.setattr(client, "race", lambda names: f"asked for {len(names)} at once", raising=False)
    assert tpufn("race", "a", "b").out == "asked for 2 at once\n"


def test_names_are_needed(tpufn: Callable[..., Any]) -> None:
    """A change of nothing is wrong input, not everything."""
    assert tpufn("slots", "delete").code == 2
    assert tpufn("race").code == 2


def test_config_says_where_from(tpufn: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--init` writes a file once; `--show` names each value's source."""
    ran = tpufn("config", "--init")
    assert ran.out == f"wrote {tmp_path}/config.toml\n"
    assert tpufn("config", "--init").code == 4
    monkeypatch.setenv("TPUFN_TMUX__SOCKET", "work")
    found = json.loads(tpufn("config", "--show", "--json").out)
    assert found["tmux.socket"] == {"value": "work", "from": "TPUFN_TMUX__SOCKET"}
    assert found["ssh.user"] == {"value": "", "from": "default"}
    assert "tmux.socket" in tpufn("config").out


def test_the_terminal_ui_needs_a_terminal(tpufn: Callable[..., Any]) -> None:
    """Wrong input, with what prints instead."""
    ran = tpufn("tui")
    assert ran.code == 2
    assert "this is not a terminal" in ran.err
