"""The person's SSH agent: set-up scripts use it on the TPU (private repositories), so it must hold a key."""

from collections.abc import Callable

from tpufn.domain.errors import InputError
from tpufn_cli.console.children import MISSING, answer

NO_AGENT = (
    "no SSH agent answers here, so that set-up scripts cannot use your keys; start one and add your key, in this shell:"
    '\n    eval "$(ssh-agent -s)"\n    ssh-add\nthen run this again from the same shell'
)
NO_KEY = "your SSH agent holds no key; add one:\n    ssh-add"
NO_TOOLS = "there is no ssh-add on this machine; install the OpenSSH client"


def require_agent(ask: Callable[[], tuple[int, str]] = lambda: answer(["ssh-add", "-l"])) -> None:
    """Raises InputError with the lines to type where no agent with a key answers."""
    code, _ = ask()
    if code == MISSING:
        raise InputError(NO_TOOLS)
    if code == 2:
        raise InputError(NO_AGENT)
    if code != 0:
        raise InputError(NO_KEY)
