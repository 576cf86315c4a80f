"""As whom we log in. With keys in the metadata the name is ours to choose; OS Login gives every account its own, which
is not its e-mail address: a service account's is `sa_<its unique number>`, a person's may be set by an administrator
(https://cloud.google.com/compute/docs/oslogin/set-up-oslogin). It is looked up once and kept.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from tpufn.domain.errors import CloudUnavailable


class Users(Protocol):
    """The user name for a TPU."""

    def user(self, tpu: str, zone: str) -> str: ...


class FixedUser:
    """Keys in the metadata: the user that the start-up script made."""

    def __init__(self, name: str) -> None:
        self._name = name

    def user(self, tpu: str, zone: str) -> str:
        return self._name


class PosixAccounts(Protocol):
    """The POSIX account names of a Google account, the primary one first. Raises TpufnError."""

    def names(self, account: str) -> tuple[str, ...]: ...


class OsLoginUser:
    """The account's OS Login name; `number`, a service account's unique id, serves where the profile has none."""

    def __init__(self, accounts: PosixAccounts, account: str, *, number: str = "") -> None:
        self._accounts, self._account, self._number = accounts, account, number
        self._name, self._lock = "", threading.Lock()

    def user(self, tpu: str, zone: str) -> str:
        with self._lock:
            if not self._name:
                names = self._accounts.names(self._account)
                self._name = names[0] if names else f"sa_{self._number}" if self._number else ""
            if not self._name:
                raise CloudUnavailable(f"{self._account} has no POSIX account: grant it roles/compute.osAdminLogin")
            return self._name


class OsLoginApi:
    """The OS Login API's login profile. `fetch` gets a URL's JSON with our credentials."""

    def __init__(
        self, fetch: Callable[[str], Mapping[str, Any]], *, endpoint: str = "https://oslogin.googleapis.com"
    ) -> None:
        self._fetch, self._endpoint = fetch, endpoint

    def names(self, account: str) -> tuple[str, ...]:
        profile = self._fetch(f"{self._endpoint}/v1/users/{quote(account, safe='@')}/loginProfile")
        found = sorted(profile.get("posixAccounts", ()), key=lambda each: not each.get("primary", False))
        return tuple(str(each["username"]) for each in found if each.get("username"))
