"""What a TPU's workers say of themselves through the TPU API, host keys and machine names (guest attributes), and what
they are told through it: who may log in.

The guest agent writes `hostkeys/ssh-ed25519` and our image's own boot `hostname`; gcloud reads the same for its tunnels
(command_lib/compute/tpus/tpu_vm/ssh.py).
"""

from collections.abc import Callable, Mapping, Sequence

from google.api_core.exceptions import GoogleAPICallError
from google.cloud import tpu_v2

from tpufn.adapters.tpu_api_errors import CAUSES, meaning
from tpufn.adapters.tpu_api_request import location

_TIMEOUT = 10.0
_KEY_TYPE = "ssh-ed25519"
_KEYS = "ssh-keys"


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


class CloudAdmission:
    """Implements `ssh_adoption.Admission`: lines `USER:KEY` of the node's metadata `ssh-keys`, of which the guest agent
    on each worker makes accounts (https://cloud.google.com/compute/docs/connect/add-ssh-keys#metadata)."""

    def __init__(self, project: str, client: Callable[[], tpu_v2.TpuClient]) -> None:
        self._project, self._client = project, client

    def admit(self, tpu: str, zone: str, user: str, keys: Sequence[str]) -> None:
        name = f"{location(self._project, zone)}/nodes/{tpu}"
        try:
            node = self._client().get_node(request=tpu_v2.GetNodeRequest(name=name), timeout=_TIMEOUT)
            there = node.metadata.get(_KEYS, "").splitlines()
            wanted = [line for line in there if not line.startswith(f"{user}:")] + [f"{user}:{key}" for key in keys]
            if wanted == there:
                return
            changed = tpu_v2.Node(name=name, metadata={**node.metadata, _KEYS: "\n".join(wanted)})
            request = tpu_v2.UpdateNodeRequest(node=changed, update_mask={"paths": ["metadata"]})
            self._client().update_node(request=request, timeout=_TIMEOUT)
        except CAUSES as error:
            raise meaning(error, f"let {user} into {tpu} in {zone}") from error
