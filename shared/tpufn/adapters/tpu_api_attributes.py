"""What a TPU's workers say of themselves through the TPU API: host keys and machine names (guest attributes).

The guest agent writes `hostkeys/ssh-ed25519` and our image's own boot `hostname`; gcloud reads the same for its tunnels
(command_lib/compute/tpus/tpu_vm/ssh.py).
"""

from collections.abc import Callable, Mapping

from google.api_core.exceptions import GoogleAPICallError
from google.cloud import tpu_v2

from tpufn.adapters.tpu_api_request import location

_TIMEOUT = 10.0
_KEY_TYPE = "ssh-ed25519"


class CloudGuestAttributes:
    """Implements `ssh_hosts.GuestAttributes`. An API that does not answer says nothing (yet)."""

    def __init__(self, project: str, client: Callable[[], tpu_v2.TpuClient]) -> None:
        self._project, self._client = project, client

    def host_keys(self, tpu: str, zone: str) -> Mapping[int, str]:
        found = self._entries(tpu, zone, "hostkeys/")
        return {worker: f"{_KEY_TYPE} {each[_KEY_TYPE]}" for worker, each in found.items() if _KEY_TYPE in each}

    def hostnames(self, tpu: str, zone: str) -> Mapping[int, str]:
        found = self._entries(tpu, zone, "")
        return {worker: each["hostname"] for worker, each in found.items() if "hostname" in each}

    def _entries(self, tpu: str, zone: str, path: str) -> dict[int, dict[str, str]]:
        name = f"{location(self._project, zone)}/nodes/{tpu}"
        request = tpu_v2.GetGuestAttributesRequest(name=name, query_path=path)
        try:
            told = self._client().get_guest_attributes(request=request, timeout=_TIMEOUT)
        except GoogleAPICallError:
            return {}
        return {
            worker: {item.key: item.value for item in each.query_value.items}
            for worker, each in enumerate(told.guest_attributes)
        }
