"""The runner's own key pair, made straight into Secret Manager: never on a disk, never in Terraform's state.

    begin_rotation   adds a new pair beside the present one; TPUs made from now on know both
    finish_rotation  disables all but the newest, once no TPU is left that knows only the former one

In between a login offers the newest key first and the former one after it, over one connection: TPUs of both kinds go
on working. The public half is derived from the private one, so that there is nothing to keep in step.
"""

import io
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import paramiko  # type: ignore[import-untyped]  # the package has no types
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

COMMENT = "tpufn"
_KEPT = 2


class SecretVersions(Protocol):
    """A secret with versions. Raises NotFound where there is no such secret, CloudUnavailable."""

    def add(self, name: str, value: str) -> str:
        """A new version, enabled; makes the secret where there is none. Returns its number."""

    def enabled(self, name: str) -> Sequence[str]:
        """The numbers of the enabled versions, the newest first; none where there is no such secret."""

    def get(self, name: str) -> str:
        """The value of `secret@version`."""

    def disable(self, name: str, version: str) -> None: ...


class RunnerKey:
    """The pair in the secret `name`. What was read is kept: `keys` is called for every connection."""

    def __init__(self, secrets: SecretVersions, name: str) -> None:
        self._secrets, self._name = secrets, name
        self._keys: tuple[Any, ...] = ()
        self._lock = threading.Lock()

    def ensure(self) -> bool:
        """Make the pair if there is none yet; whether it was made."""
        if self._secrets.enabled(self._name):
            return False
        self.begin_rotation()
        return True

    def keys(self) -> Sequence[Any]:
        """The valid private keys as paramiko's, the newest first."""
        with self._lock:
            if not self._keys:
                self._keys = tuple(_read(self._secrets.get(f"{self._name}@{v}")) for v in self._valid())
            return self._keys

    def public(self) -> tuple[str, ...]:
        """The lines for `authorized_keys` and for the metadata, the newest first."""
        return tuple(f"{key.get_name()} {key.get_base64()} {COMMENT}" for key in self.keys())

    def begin_rotation(self) -> str:
        """A new pair; the former one stays valid. Returns the new one's version."""
        version = self._secrets.add(self._name, new_private_key())
        self.forget()
        return version

    def finish_rotation(self) -> tuple[str, ...]:
        """Disable every pair but the newest. Returns the disabled versions."""
        former = tuple(self._secrets.enabled(self._name)[1:])
        for version in former:
            self._secrets.disable(self._name, version)
        self.forget()
        return former

    def forget(self) -> None:
        """Read anew at the next use: somebody may have rotated."""
        with self._lock:
            self._keys = ()

    def _valid(self) -> Sequence[str]:
        return self._secrets.enabled(self._name)[:_KEPT]


def new_private_key() -> str:
    """A new Ed25519 key in OpenSSH's format, not encrypted: the vault is its protection."""
    return (
        Ed25519PrivateKey.generate()
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        .decode()
    )


def _read(text: str) -> Any:
    return paramiko.Ed25519Key.from_private_key(io.StringIO(text))
