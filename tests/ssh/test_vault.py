"""The runner's key in Secret Manager, against a local server of the same interface."""

import base64

import pytest

from tpufn.adapters.secret_manager import connect
from tpufn.adapters.ssh_key import RunnerKey, new_private_key
from tpufn.adapters.ssh_key_vault import VaultVersions
from tpufn.domain.errors import CloudUnavailable

from ..contracts.rest_server import error, rest_server

_SECRET = "/v1/projects/p/secrets/ssh"


class Manager:
    """Versions of one secret. It makes up its own values: the server's helper does not hand bodies over."""

    def __init__(self):
        self.exists, self.states, self.values = False, {}, {}

    def answer(self, method, path):
        if path == "/v1/projects/p/secrets":
            answer = error(409, "exists") if self.exists else (200, {"name": _SECRET})
            self.exists = True
            return answer
        if "forbidden" in path:
            return error(403, "Permission 'secretmanager.versions.list' denied")
        if not self.exists:
            return error(404, "Secret not found")
        return self.of_versions(path.removeprefix(_SECRET))

    def of_versions(self, path):
        if path == ":addVersion":
            number = str(len(self.states) + 1)
            self.states[number], self.values[number] = "ENABLED", new_private_key()
            return 200, {"name": f"projects/p/secrets/ssh/versions/{number}"}
        if path == "/versions":
            found = [{"name": f"projects/p/secrets/ssh/versions/{n}", "state": s} for n, s in self.states.items()]
            return 200, {"versions": found}
        number, _, verb = path.removeprefix("/versions/").partition(":")
        if verb == "disable":
            self.states[number] = "DISABLED"
            return 200, {"name": path}
        return 200, {"payload": {"data": base64.b64encode(self.values[number].encode()).decode()}}


@pytest.fixture
def manager():
    return Manager()


@pytest.fixture
def vault(manager):
    with rest_server(manager.answer) as server:
        client = connect(server.endpoint)
        yield VaultVersions("p", client=lambda: client)
        client.transport.close()


def test_made_rotated_and_disabled(manager, vault):
    """The whole life of the pair, by Secret Manager's own words."""
    key = RunnerKey(vault, "ssh")
    assert vault.enabled("ssh") == ()
    assert key.ensure()
    [first] = key.public()
    assert key.begin_rotation() == "2"
    assert key.public()[1] == first
    assert key.finish_rotation() == ("1",)
    assert manager.states == {"1": "DISABLED", "2": "ENABLED"}
    assert len(key.public()) == 1


def test_forbidden(vault):
    """With the role that mends it."""
    with pytest.raises(CloudUnavailable, match=r"roles/secretmanager\.admin"):
        vault.enabled("forbidden")
