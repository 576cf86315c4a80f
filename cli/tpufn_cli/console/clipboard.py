"""Text to the clipboard: xclip or wl-copy where a display is, the terminal itself (OSC 52) else.

A terminal does not say whether it took an OSC 52 sequence, so the text is always shown as well.
"""

import base64
import shutil
import subprocess
from collections.abc import Callable, Mapping

_TIMEOUT = 2.0
_TOOLS = (("WAYLAND_DISPLAY", ("wl-copy",)), ("DISPLAY", ("xclip", "-selection", "clipboard")))


def osc52(text: str) -> str:
    """The sequence that asks a terminal to put `text` into the clipboard."""
    return f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"


def copy(text: str, *, environment: Mapping[str, str], terminal: Callable[[str], None] | None) -> str:
    """How it was copied, in words; "" where it could not be: then the caller shows it. `terminal` writes a sequence."""
    for variable, command in _TOOLS:
        if environment.get(variable) and shutil.which(command[0]) and _feed(command, text):
            return f"copied with {command[0]}"
    if terminal is None or environment.get("TERM", "") in ("", "dumb", "linux"):
        return ""
    terminal(osc52(text))
    return "copied through the terminal"


def _feed(command: tuple[str, ...], text: str) -> bool:
    try:
        subprocess.run(
            command,
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True
