"""Joining workers to a tailnet. The auth key is kept in a file of mode 0600 or in Secret Manager, and goes to a worker
through standard input into a file that is removed at once: it is never in an argument, a log or an answer.
"""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from tpufn.domain.errors import InputError
from tpufn.domain.views import SlotView
from tpufn_cli.console.children import Children, answer
from tpufn_cli.console.hosts import Host
from tpufn_cli.console.shelf import write_private

_TIMEOUT = 600.0
_JOIN = """set -eu; umask 077; key=$(mktemp); trap 'rm -f "$key"' EXIT; cat > "$key"
command -v tailscale >/dev/null || curl -fsSL https://tailscale.com/install.sh | sh >&2
sudo tailscale up --auth-key="file:$key" --hostname={name}
tailscale ip -4"""


class KeyStore:
    """Where the auth key is: `secret` in Secret Manager where one is configured, else a file of the person's."""

    def __init__(self, home: Path, secret: str = "", project: str = "") -> None:
        self.path, self._secret, self._project = home / "console" / "tailscale.key", secret, project

    def save(self, key: str) -> str:
        """Keep a key in the file. Raises InputError for what is none."""
        key = key.strip()
        if not key.startswith("tskey-") or any(c.isspace() for c in key):
            raise InputError("that is not a Tailscale auth key: they start with tskey-; make one in the admin console")
        write_private(self.path, key)
        return f"kept in {self.path}, readable by you alone"

    def read(self) -> str:
        """The key. Raises InputError with the way to give one."""
        if self._secret:
            return self._from_secret_manager()
        try:
            return self.path.read_text("utf-8").strip()
        except OSError:
            raise InputError(
                "no Tailscale auth key is kept here: press t in `tpufn tui`, or name a secret with tailscale.secret"
            ) from None

    def _from_secret_manager(self) -> str:
        wanted = [f"--secret={self._secret}", *([f"--project={self._project}"] if self._project else [])]
        code, text = answer(["gcloud", "secrets", "versions", "access", "latest", *wanted])
        if code:
            raise InputError(f"the secret {self._secret} cannot be read; try `gcloud secrets versions list` on it")
        return text


def join(
    slot: SlotView,
    hosts: Sequence[Host],
    key: str,
    *,
    children: Children,
    tell: Callable[[int, str], None] = lambda worker, line: None,
) -> dict[int, str]:
    """Join every worker under the name SLOT-w<i>; worker -> what went wrong, for those that did not."""
    if not any(host.is_remote for host in hosts):
        raise InputError(f"{slot.name} is simulated: its workers are this machine, and join no tailnet")
    return {host.worker: said for host in hosts if (said := _join(slot, host, key, children, tell))}


def _join(slot: SlotView, host: Host, key: str, children: Children, tell: Callable[[int, str], None]) -> str:
    script = _JOIN.format(name=shlex.quote(f"{slot.name}-w{host.worker}"))
    last = [""]

    def line(text: str) -> None:
        last[0] = text.replace(key, "tskey-…")
        tell(host.worker, last[0])

    code = children.run(host.run(script), given=key.encode(), line=line, timeout=_TIMEOUT)
    return f"ended with {code}: {last[0]}" if code else ""
