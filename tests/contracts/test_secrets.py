"""The Secret Manager adapter, against a local server of the same interface."""

import base64

import pytest
from google.auth.exceptions import DefaultCredentialsError

from tpufn.adapters.secret_manager import CloudSecrets, connect
from tpufn.domain.errors import CloudUnavailable, NotFound

from .rest_server import error, rest_server

_SECRETS = "/v1/projects/p/secrets"


@pytest.fixture
def server():
    values = {
        f"{_SECRETS}/wandb/versions/latest:access": b"new \xc3\xbc\n",
        f"{_SECRETS}/wandb/versions/3:access": b"old",
        f"{_SECRETS}/raw/versions/latest:access": b"\xff\x00",
    }

    def answer(_method, path):
        if "forbidden" in path:
            return error(403, "Permission 'secretmanager.versions.access' denied on resource (or it may not exist).")
        if path not in values:
            return error(404, "Secret [projects/1/secrets/none] not found or has no versions.")
        return 200, {"name": path, "payload": {"data": base64.b64encode(values[path]).decode()}}

    with rest_server(answer) as server:
        yield server


@pytest.fixture
def secrets(server):
    client = connect(server.endpoint)
    yield CloudSecrets("p", client=lambda: client)
    client.transport.close()


@pytest.mark.parametrize(("name", "value"), [("wandb", "new ü\n"), ("wandb@3", "old"), ("raw", "\udcff\0")])
def test_a_value_comes_back_as_it_is(secrets, name, value):
    """Why: a token with a lost or an added byte is another token; a worker reads the same way."""
    assert secrets.get(name) == value


def test_a_missing_secret_is_named(secrets):
    """Why: the person must see which name is wrong, and in which project."""
    with pytest.raises(NotFound, match="the secret none of p does not exist"):
        secrets.get("none")


def test_a_forbidden_secret_names_the_role(secrets):
    """Why: a missing permission is said with what mends it."""
    with pytest.raises(CloudUnavailable, match=r"denied.*roles/secretmanager\.secretAccessor"):
        secrets.get("forbidden")


def test_an_answer_that_fails_once_is_asked_for_again(server, secrets):
    """Why: 503 happens; a launch must not fail by it."""
    values, count = server.answer, [0]

    def answer(method, path):
        count[0] += 1
        return error(503, "try again") if count[0] == 1 else values(method, path)

    server.answer = answer
    assert secrets.get("wandb@3") == "old"
    assert len(server.asked) == 2


def test_no_login():
    """Why: the login is looked for on the first call, and its lack is said plainly."""

    def fail():
        raise DefaultCredentialsError("Your default credentials were not found.")

    with pytest.raises(CloudUnavailable, match="gcloud auth application-default login"):
        CloudSecrets("p", client=fail).get("x")
