"""What reaches TPUs' workers: SSH with the runner's key, host keys pinned in the deployment's own bucket, IAP if asked
for; and what every new TPU is given, so that this works."""

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

from tpufn.adapters.pubsub import topic_id
from tpufn.adapters.ssh import SshSite, SshWorkers
from tpufn.adapters.ssh_connection import Direct, Login
from tpufn.adapters.ssh_hosts import Identity, StoredHostKeys
from tpufn.adapters.ssh_key import RunnerKey
from tpufn.adapters.ssh_users import FixedUser
from tpufn.domain.fleet import Fleet
from tpufn.domain.slot import Slot
from tpufn.ports import Blobs
from tpufn.settings import Deployed
from tpufn.worker.startup import Startup, startup_script

USER = "tpufn"
_TOKEN_LIFE = 600.0


class CloudSite:
    """Implements `Site`: the worker account, and the start-up script with the runner's public key."""

    def __init__(self, settings: Deployed) -> None:
        self._settings = settings
        self.service_account = settings.worker_account

    def startup_script(self, slot: Slot, fleet: Fleet) -> str:
        publish = {"kind": "pubsub", "project": self._settings.project, "prefix": topic_id(self._settings.name, "")}
        startup = Startup(
            slot=slot.name,
            generation=slot.generation,
            tpu=slot.tpu,
            user=USER,
            keys=self._key.public(),
            publish=publish,
            script=fleet.settings.get("startup_script", ""),
        )
        return startup_script(startup)

    @cached_property
    def _key(self) -> RunnerKey:
        return runner_key(self._settings)


def runner_key(settings: Deployed) -> RunnerKey:
    from tpufn.adapters.ssh_key_vault import VaultVersions

    return RunnerKey(VaultVersions(settings.project), settings.ssh_secret or f"tpufn-{settings.name}-ssh-key")


def ssh_workers(settings: Deployed, blobs: Blobs) -> SshWorkers:
    """The workers of a deployment's TPUs."""
    from tpufn.adapters.tpu_api import connect
    from tpufn.adapters.tpu_api_attributes import CloudGuestAttributes

    attributes = CloudGuestAttributes(settings.project, lambda: connect(settings.tpu_endpoint))
    dialer: Any = Direct()
    if settings.ssh_transport == "iap":
        from tpufn.adapters.iap import IapDialer
        from tpufn.adapters.iap_proxy import application_token

        dialer = IapDialer(settings.project, attributes, _kept(application_token))
    return SshWorkers(
        SshSite(project=settings.project, topics=topic_id(settings.name, "")),
        blobs=blobs,
        login=Login(users=FixedUser(USER), keys=runner_key(settings).keys),
        identity=Identity(StoredHostKeys(blobs, settings.bucket), attributes),
        dialer=dialer,
    )


def _kept(token: Callable[[], str]) -> Callable[[], str]:
    """A token for some minutes instead of one a connection."""
    last: list[tuple[float, str]] = []

    def get() -> str:
        if not last or time.monotonic() - last[-1][0] > _TOKEN_LIFE:
            last[:] = [(time.monotonic(), token())]
        return last[-1][1]

    return get
