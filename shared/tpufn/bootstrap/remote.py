"""What reaches TPUs' workers: SSH with the runner's key, host keys pinned in the deployment's own bucket, IAP if asked
for; and what every new TPU is given, so that this works."""

import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from tpufn.adapters.pubsub import topic_id
from tpufn.adapters.ssh import SshSite, SshWorkers
from tpufn.adapters.ssh_adoption import Adoption
from tpufn.adapters.ssh_connection import Direct, Login
from tpufn.adapters.ssh_hosts import Identity, StoredHostKeys
from tpufn.adapters.ssh_key import RunnerKey
from tpufn.adapters.ssh_users import FixedUser
from tpufn.domain.fleet import Fleet
from tpufn.domain.slot import Slot
from tpufn.ports import Blobs, Workers
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
        startup = Startup(
            slot=slot.name,
            generation=slot.generation,
            tpu=slot.tpu,
            user=USER,
            keys=self._key.public(),
            publish=_publish(self._settings),
            script=fleet.settings.get("startup_script", ""),
        )
        return startup_script(startup)

    @cached_property
    def _key(self) -> RunnerKey:
        return runner_key(self._settings)


def runner_key(settings: Deployed) -> RunnerKey:
    from tpufn.adapters.ssh_key_vault import VaultVersions

    return RunnerKey(VaultVersions(settings.project), settings.ssh_secret or f"tpufn-{settings.name}-ssh-key")


def _publish(settings: Deployed) -> dict[str, str]:
    """Where workers report to, in the agent's words."""
    if not settings.publishes:
        return {"kind": "none"}
    return {"kind": "pubsub", "project": settings.project, "prefix": topic_id(settings.name, "")}


def local_workers(settings: Deployed, home: Path) -> Workers:
    """Those of a simulated cloud on this machine. They report as those on TPUs do, to local servers that ask for no
    token and are not to be spared."""
    from tpufn.simulation.workers import LocalWorkers

    def source(bucket: str) -> dict[str, str]:
        here = {"kind": "gcs", "bucket": bucket, "endpoint": settings.storage_endpoint, "token_url": ""}
        return {**here, "poll": "0.1", "interval": "0.2"}

    told = {"publish": {**_publish(settings), "endpoint": settings.pubsub_endpoint, "token_url": ""}}
    return LocalWorkers(home, home, source=source, settings=told)


def ssh_workers(settings: Deployed, blobs: Blobs, *, pins: Blobs | None = None, pin_bucket: str = "") -> SshWorkers:
    """The workers of a deployment's TPUs. Host keys are pinned in the deployment's own bucket, or where `pins` says."""
    from tpufn.adapters.tpu_api import connect
    from tpufn.adapters.tpu_api_attributes import CloudGuestAttributes

    attributes = CloudGuestAttributes(settings.project, lambda: connect(settings.tpu_endpoint))
    dialer: Any = Direct()
    if settings.ssh_transport == "iap":
        from tpufn.adapters.iap import IapDialer
        from tpufn.adapters.iap_proxy import application_token

        dialer = IapDialer(settings.project, attributes, _kept(application_token))
    return SshWorkers(
        SshSite(project=settings.project, topics=topic_id(settings.name, "") if settings.publishes else None),
        blobs=blobs,
        login=Login(users=FixedUser(USER), keys=runner_key(settings).keys),
        identity=Identity(StoredHostKeys(pins or blobs, pin_bucket or settings.bucket), attributes),
        dialer=dialer,
        adoption=_adoption(settings),
    )


def _adoption(settings: Deployed) -> Adoption:
    """For TPUs that were there before us. They report nothing at their boot: nobody there may publish for us."""
    from tpufn.adapters.tpu_api import connect
    from tpufn.adapters.tpu_api_attributes import CloudAdmission

    key = runner_key(settings)

    def script(tpu: str) -> str:
        silent = {"kind": "none"}
        return startup_script(
            Startup(slot=tpu, generation=0, tpu=tpu, user=USER, keys=key.public(), publish=silent, metadata_url="")
        )

    admission = CloudAdmission(settings.project, lambda: connect(settings.tpu_endpoint))
    return Adoption(admission=admission, user=USER, keys=key.public, script=script)


def _kept(token: Callable[[], str]) -> Callable[[], str]:
    """A token for some minutes instead of one a connection."""
    last: list[tuple[float, str]] = []

    def get() -> str:
        if not last or time.monotonic() - last[-1][0] > _TOKEN_LIFE:
            last[:] = [(time.monotonic(), token())]
        return last[-1][1]

    return get
