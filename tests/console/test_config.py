"""Configuration: which layer wins, and that wrong keys are said with the nearest right one."""

from pathlib import Path

import pytest

from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet
from tpufn_cli.console.config import KEYS, resolve, template


def test_later_layers_win(tmp_path: Path) -> None:
    """default < deployment file < config.toml < environment < flag, and each value knows where it is from."""
    file = tmp_path / "config.toml"
    file.write_text('[ntfy]\nserver = "https://file"\n[tmux]\nsocket = "file"\n[setup]\ntimeout = 60\n')
    fleet = Fleet(name="lab", settings={"ntfy_server": "https://fleet", "ntfy_topic": "t", "tmux_sync": "true"})
    environment = {"TPUFN_CONFIG": str(file), "TPUFN_TMUX__SOCKET": "env", "TPUFN_HOME": "/unrelated"}
    found = resolve(fleet=fleet, flags=["setup.timeout=90"], environment=environment)
    told = {name: (one.value, one.source) for name, one in found.resolved.items()}
    assert told["ssh.user"] == ("", "default")
    assert told["ntfy.topic"] == ("t", "deployment file")
    assert told["tmux.sync"] == (True, "deployment file")
    assert told["ntfy.server"] == ("https://file", str(file))
    assert told["tmux.socket"] == ("env", "TPUFN_TMUX__SOCKET")
    assert told["setup.timeout"] == (90.0, "--set setup.timeout")


def test_every_problem_is_told(tmp_path: Path) -> None:
    """All at once, each with its place and its fix."""
    file = tmp_path / "config.toml"
    file.write_text("[tui]\nrefresh = -1\n")
    environment = {"TPUFN_CONFIG": str(file), "TPUFN_TMUX__SOKET": "x", "TPUFN_SETUP__AUTO": "maybe"}
    with pytest.raises(InputError) as caught:
        resolve(flags=["ntfy.topic"], environment=environment)
    said = "\n".join(caught.value.problems)
    assert f"{file}: tui.refresh must be a number above 0, not -1" in said
    assert "TPUFN_TMUX__SOKET: there is no key 'tmux.soket'; did you mean tmux.socket?" in said
    assert "TPUFN_SETUP__AUTO: setup.auto must be true or false, not 'maybe'" in said
    assert "write it as --set ntfy.topic=VALUE" in said


def test_the_template_is_valid_and_whole(tmp_path: Path) -> None:
    """Every key, and with the comment signs taken away it resolves to the defaults."""
    text = template()
    assert all(key.help in text for key in KEYS)
    lines = [line.removeprefix("# ") if " = " in line else line for line in text.splitlines()]
    file = tmp_path / "config.toml"
    file.write_text("\n".join(lines))
    found = resolve(environment={"TPUFN_CONFIG": str(file)})
    assert {name: one.value for name, one in found.resolved.items()} == {key.name: key.default for key in KEYS}
