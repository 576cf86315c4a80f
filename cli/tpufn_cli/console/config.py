"""The person's own configuration: defaults, the deployment file, config.toml, TPUFN_... variables, flags; later wins.

    ~/.config/tpufn/config.toml          [tmux]
                                         socket = "work"
    environment, nested with __          TPUFN_TMUX__SOCKET=work
    flag of the commands that use it     --set tmux.socket=work

`tpufn config --show` prints every key with where its value is from. This is the only reader of these variables.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet

Value = str | float | bool
FROM_FLEET = "deployment file"


@dataclass(frozen=True)
class Key:
    """One key: its default, and what it is for. `fleet` names the deployment file's key that it follows."""

    name: str
    default: Value
    help: str
    fleet: str = ""


KEYS: tuple[Key, ...] = (
    Key("ssh.user", "", "Your name on the TPUs; the OS Login name by default, which gcloud tells."),
    Key("ssh.options", "", "More options for ssh, as on its command line."),
    Key("tmux.socket", "", "The tmux server's socket name (tmux -L); your usual server by default."),
    Key("tmux.sync", False, "Open a window for each usable TPU while a console is open.", fleet="tmux_sync"),
    Key("setup.auto", False, "Run the set-up scripts on each new TPU of yours while one is open.", fleet="auto_setup"),
    Key("setup.timeout", 1800.0, "Seconds until a set-up that does not end is stopped."),
    Key("ntfy.topic", "", "Announce to this ntfy topic; off when empty.", fleet="ntfy_topic"),
    Key("ntfy.server", "https://ntfy.sh", "The ntfy server.", fleet="ntfy_server"),
    Key("tailscale.secret", "", "The Secret Manager secret with the auth key, instead of a key saved here."),
    Key("tui.theme", "", "tpufn-dark, tpufn-light, or another theme of Textual; the last one used by default."),
    Key("tui.refresh", 1.0, "Seconds between two looks of the terminal UI."),
)
_BY_NAME = {key.name: key for key in KEYS}


@dataclass(frozen=True)
class Resolved:
    """A key's value and where it is from, in words."""

    value: Value
    source: str


class Config:
    """Every key resolved."""

    def __init__(self, resolved: Mapping[str, Resolved]) -> None:
        self.resolved = resolved

    def text(self, name: str) -> str:
        return str(self.resolved[name].value)

    def flag(self, name: str) -> bool:
        return bool(self.resolved[name].value)

    def number(self, name: str) -> float:
        return float(self.resolved[name].value)


def config_path(environment: Mapping[str, str] = os.environ) -> Path:
    """$TPUFN_CONFIG, else config.toml in the platform's directory for configuration."""
    if given := environment.get("TPUFN_CONFIG"):
        return Path(given).expanduser()
    import platformdirs

    return platformdirs.user_config_path("tpufn", appauthor=False) / "config.toml"


def resolve(
    *,
    fleet: Fleet | None = None,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> Config:
    """All layers, one over the other. Raises InputError with every wrong key and value."""
    problems: list[str] = []
    path = config_path(environment)
    layers = (
        _of_fleet(fleet),
        _of_file(path, problems),
        _of_environment(environment),
        _of_flags(flags, problems),
    )
    resolved = {key.name: Resolved(key.default, "default") for key in KEYS}
    for source, name, value in (entry for layer in layers for entry in layer):
        if name not in _BY_NAME:
            problems.append(f"{source}: there is no key {name!r}{_nearest(name)}")
            continue
        try:
            resolved[name] = Resolved(_typed(_BY_NAME[name], value), source)
        except ValueError as error:
            problems.append(f"{source}: {name} {error}")
    if problems:
        raise InputError(problems)
    return Config(resolved)


def _nearest(name: str) -> str:
    near = get_close_matches(name, _BY_NAME, n=1)
    return f"; did you mean {near[0]}?" if near else "; `tpufn config --show` lists them"


Entries = Iterator[tuple[str, str, Any]]


def _of_fleet(fleet: Fleet | None) -> Entries:
    for key in KEYS if fleet else ():
        value = fleet.settings.get(key.fleet, "") if fleet and key.fleet else ""
        if value not in ("", "false") and value != key.default:
            yield FROM_FLEET, key.name, value


def _of_file(path: Path, problems: list[str]) -> Entries:
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        problems.append(f"{path}: {error}")
        return
    for section, entries in content.items():
        for name, value in entries.items() if isinstance(entries, dict) else ((None, entries),):
            yield str(path), f"{section}.{name}" if name else section, value


def _of_environment(environment: Mapping[str, str]) -> Entries:
    for name, value in sorted(environment.items()):
        section, separator, key = name.removeprefix("TPUFN_").partition("__")
        if name.startswith("TPUFN_") and separator:
            yield name, f"{section.lower()}.{key.lower()}", value


def _of_flags(flags: Sequence[str], problems: list[str]) -> Entries:
    for flag in flags:
        name, equals, value = flag.partition("=")
        if not equals:
            problems.append(f"--set {flag}: write it as --set {flag}=VALUE")
            continue
        yield f"--set {name}", name, value


def _typed(key: Key, value: Any) -> Value:
    if isinstance(key.default, bool):
        return _bool(value)
    if isinstance(key.default, float):
        return _positive(value)
    if isinstance(value, (dict, list)):
        raise ValueError(f"must be text, not {type(value).__name__}")
    return str(value)


def _bool(value: Any) -> bool:
    found = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    word = str(value).lower()
    if word not in found:
        raise ValueError(f"must be true or false, not {value!r}")
    return found[word]


def _positive(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < 1e9:
        raise ValueError(f"must be a number above 0, not {value!r}")
    return number


def template() -> str:
    """A config.toml with every key, commented out, its default and what it is for."""
    lines = ["# The person's own configuration of tpufn. `tpufn config --show` says what is in force, and from where."]
    section = ""
    for key in KEYS:
        head, _, name = key.name.partition(".")
        if head != section:
            section = head
            lines += ["", f"[{section}]"]
        lines += [f"# {key.help}", f"# {name} = {_toml(key.default)}"]
    return "\n".join(lines) + "\n"


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
