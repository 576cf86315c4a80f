"""Every test here talks to real OpenSSH servers."""

import pytest

from .site import ssh_site
from .sshd import require


@pytest.fixture(autouse=True, scope="session")
def _sshd() -> None:
    require()


@pytest.fixture
def site(tmp_path):
    """A TPU of four workers."""
    with ssh_site(tmp_path) as made:
        yield made
