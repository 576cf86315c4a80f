"""Who a worker is, and who we are to it: pins, guest attributes, user names, the runner's key."""

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import paramiko
import pytest

from tpufn.adapters.files import FileBlobs
from tpufn.adapters.ssh_hosts import Identity, MemoryHostKeys, StoredHostKeys, fingerprint
from tpufn.adapters.ssh_key import RunnerKey, new_private_key
from tpufn.adapters.ssh_target import Host, Unreached
from tpufn.adapters.ssh_users import FixedUser, OsLoginApi, OsLoginUser
from tpufn.domain.errors import CloudUnavailable

from .site import NAME, Names
from .sshd import new_key

HOST = Host(tpu=NAME, zone="z", worker=1, reach="10.0.0.1")


@pytest.fixture(params=["memory", "stored"])
def pins(request, tmp_path):
    if request.param == "memory":
        return MemoryHostKeys()
    return StoredHostKeys(FileBlobs(tmp_path, {"b": "region"}), "b")


def test_first_pin_stays(pins):
    """The contract of `HostKeys`."""
    first, second = new_key()[1], new_key()[1]
    assert pins.get(NAME, 0) == ""
    assert pins.put(NAME, 0, first) == first
    assert pins.put(NAME, 0, second) == first
    assert (pins.get(NAME, 0), pins.get(NAME, 1), pins.get("other", 0)) == (first, "", "")


def test_two_that_pin_at_once_agree(tmp_path):
    """Each of many processes sees one and the same winner."""
    stores = [StoredHostKeys(FileBlobs(tmp_path, {"b": "region"}), "b") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        winners = set(pool.map(lambda store: store.put(NAME, 0, new_key()[1]), stores))
    assert len(winners) == 1


def test_guest_attributes_come_first(pins):
    """Where the API hands a key out, nothing is taken on trust: the first one seen must be that one."""
    right, wrong = new_key()[1], new_key()[1]
    identity = Identity(pins, Names(2, {1: f"{right} root@host"}))
    with pytest.raises(Unreached, match="has changed within one generation") as caught:
        identity.check(HOST, wrong)
    assert not caught.value.again
    identity.check(HOST, right)


def test_guest_attributes_are_asked_once_for_all(pins):
    """A TPU may have 256 workers."""
    names = Names(4, {i: new_key()[1] for i in range(4)})
    identity = Identity(pins, names)
    for worker in range(4):
        assert identity.expected(replace(HOST, worker=worker)) == names.keys[worker]
    assert names.asked == 1


def test_attributes_that_come_late_are_asked_for_again(pins):
    """The guest agent writes them some seconds after the node is READY."""
    names = Names(2)
    identity = Identity(pins, names)
    assert identity.expected(HOST) == ""
    names.keys = {1: new_key()[1]}
    assert identity.expected(HOST) == names.keys[1]


def test_fingerprints_are_openssh_s():
    """People compare them."""
    private, public = new_key()
    key = paramiko.Ed25519Key.from_private_key(io.StringIO(private.decode()))
    assert fingerprint(public) == key.fingerprint
    assert fingerprint("nonsense") == "an unreadable key"


class Accounts:
    def __init__(self, *names):
        self.given, self.asked = names, []

    def names(self, account):
        self.asked.append(account)
        return self.given


def test_user_names():
    """Of the metadata, and of OS Login: looked up once."""
    assert FixedUser("tpufn").user("t", "z") == "tpufn"
    accounts = Accounts("sa_1234", "other")
    user = OsLoginUser(accounts, "runner@p.iam.gserviceaccount.com")
    assert {user.user("t", "z") for _ in range(3)} == {"sa_1234"}
    assert accounts.asked == ["runner@p.iam.gserviceaccount.com"]
    assert OsLoginUser(Accounts(), "x", number="77").user("t", "z") == "sa_77"
    with pytest.raises(CloudUnavailable, match=r"roles/compute\.osAdminLogin"):
        OsLoginUser(Accounts(), "x").user("t", "z")


def test_os_login_profile():
    """The primary account counts, and the name is not the e-mail address."""
    urls = []

    def fetch(url):
        urls.append(url)
        return {"posixAccounts": [{"username": "old"}, {"username": "ext_me_example_com", "primary": True}]}

    assert OsLoginApi(fetch).names("me@example.com") == ("ext_me_example_com", "old")
    assert urls == ["https://oslogin.googleapis.com/v1/users/me@example.com/loginProfile"]


class Vault:
    """`SecretVersions` in memory."""

    def __init__(self):
        self.values, self.disabled = {}, set()

    def add(self, name, value):
        number = str(len(self.values) + 1)
        self.values[f"{name}@{number}"] = value
        return number

    def enabled(self, name):
        numbers = [key.partition("@")[2] for key in self.values if key.startswith(f"{name}@")]
        return sorted((n for n in numbers if n not in self.disabled), key=int, reverse=True)

    def get(self, name):
        return self.values[name]

    def disable(self, name, version):
        self.disabled.add(version)


def test_key_is_made_once(tmp_path, monkeypatch):
    """Into the vault, and not onto the disk."""
    monkeypatch.chdir(tmp_path)
    vault = Vault()
    key = RunnerKey(vault, "ssh")
    assert (key.ensure(), key.ensure(), len(vault.values)) == (True, False, 1)
    assert vault.values["ssh@1"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert key.public()[0].startswith("ssh-ed25519 ")
    assert list(tmp_path.iterdir()) == []


def test_rotation_keeps_the_old_key_until_the_new_one_is_in_place():
    """New TPUs know both, logins offer both, and the end disables the former one."""
    vault = Vault()
    key, elsewhere = RunnerKey(vault, "ssh"), RunnerKey(vault, "ssh")
    key.ensure()
    [old] = elsewhere.public()
    assert key.begin_rotation() == "2"
    assert key.public()[1] == old
    assert key.public()[0] != old
    assert key.finish_rotation() == ("1",)
    assert len(key.public()) == 1
    elsewhere.forget()
    assert elsewhere.public() == key.public()


def test_keys_are_not_in_messages():
    """A private key that cannot be read is not shown."""
    vault = Vault()
    vault.add("ssh", new_private_key()[:150])
    with pytest.raises(Exception, match=r".*") as caught:
        RunnerKey(vault, "ssh").keys()
    assert vault.values["ssh@1"][40:80] not in str(caught.value)
