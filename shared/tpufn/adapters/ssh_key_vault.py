"""The runner's key in Secret Manager: `SecretVersions` for `RunnerKey`."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property

from google.api_core.exceptions import Conflict
from google.cloud import secretmanager_v1 as api

from tpufn.adapters.google_access import told
from tpufn.adapters.secret_manager import CloudSecrets, connect
from tpufn.domain.errors import NotFound

_TIMEOUT = 20.0
_ANYWHERE = api.Replication(automatic=api.Replication.Automatic())
_ROLE = "roles/secretmanager.admin"


class VaultVersions(CloudSecrets):
    """Adding and disabling besides reading. Values go from memory into the call, nowhere else."""

    def __init__(self, project: str, *, client: Callable[[], api.SecretManagerServiceClient] = connect) -> None:
        super().__init__(project, client=client)
        self._parent = f"projects/{project}"

    def add(self, name: str, value: str) -> str:
        with told(f"the secret {name}", role=_ROLE):
            with suppress(Conflict):
                self._versions_client.create_secret(
                    parent=self._parent, secret_id=name, secret=api.Secret(replication=_ANYWHERE), timeout=_TIMEOUT
                )
            made = self._versions_client.add_secret_version(
                parent=self._path(name), payload=api.SecretPayload(data=value.encode()), timeout=_TIMEOUT
            )
        return str(made.name).rpartition("/")[2]

    def enabled(self, name: str) -> Sequence[str]:
        request = {"parent": self._path(name), "filter": "state:ENABLED"}
        try:
            with told(f"the secret {name}", role=_ROLE):
                found = list(self._versions_client.list_secret_versions(request=request, timeout=_TIMEOUT))
        except NotFound:
            return ()
        alive = [v for v in found if v.state == api.SecretVersion.State.ENABLED]
        return sorted((str(v.name).rpartition("/")[2] for v in alive), key=int, reverse=True)

    def disable(self, name: str, version: str) -> None:
        with told(f"the secret {name}", role=_ROLE):
            path = f"{self._path(name)}/versions/{version}"
            self._versions_client.disable_secret_version(name=path, timeout=_TIMEOUT)

    def _path(self, name: str) -> str:
        return f"{self._parent}/secrets/{name}"

    @cached_property
    def _versions_client(self) -> api.SecretManagerServiceClient:
        return self._make_client()
