"""Secret values from Secret Manager, with the caller's own login."""

from collections.abc import Callable
from functools import cached_property

from google.api_core.exceptions import ServiceUnavailable
from google.api_core.retry import Retry, if_exception_type
from google.cloud.secretmanager_v1 import AccessSecretVersionRequest, SecretManagerServiceClient

from tpufn.adapters.google_access import anonymous, told

_TIMEOUT, _PATIENCE = 10.0, 30.0


def connect(endpoint: str = "") -> SecretManagerServiceClient:
    """The client of the real service, or with an endpoint (http://host:port) of another one, without a login."""
    if not endpoint:
        return SecretManagerServiceClient()
    return SecretManagerServiceClient(
        transport="rest", credentials=anonymous(), client_options={"api_endpoint": endpoint}
    )


class CloudSecrets:
    """Implements `Secrets`. `client` is made on the first call."""

    def __init__(self, project: str, *, client: Callable[[], SecretManagerServiceClient] = connect) -> None:
        self._project, self._make_client = project, client

    def get(self, name: str) -> str:
        """`secret`, or `secret@version`; bytes that are not UTF-8 survive as surrogates. Raises NotFound,
        CloudUnavailable."""
        secret, _, version = name.partition("@")
        path = f"projects/{self._project}/secrets/{secret}/versions/{version or 'latest'}"
        retry = Retry(predicate=if_exception_type(ServiceUnavailable), initial=0.2, maximum=4.0, timeout=_PATIENCE)
        with told(f"the secret {name} of {self._project}", role="roles/secretmanager.secretAccessor"):
            request = AccessSecretVersionRequest(name=path)
            answer = self._client.access_secret_version(request=request, timeout=_TIMEOUT, retry=retry)
        return bytes(answer.payload.data).decode("utf-8", "surrogateescape")

    @cached_property
    def _client(self) -> SecretManagerServiceClient:
        return self._make_client()
