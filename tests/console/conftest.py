"""Slots, and a tmux server of a test's own."""

import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tpufn.domain.fleet import Fleet, Mode, Pool
from tpufn.domain.views import SlotView
from tpufn_cli.console.tmux import Tmux, TmuxMirror

FLEET = Fleet(
    name="lab",
    project="lab-project",
    mode=Mode.CLOUD,
    pools=(Pool(id="spot-v6e8-ue5b", type="v6e-8", zone="us-east5-b", count=3),),
    settings={"zone_codes": '{"europe-west4-a": "eu"}'},
)


def slot(name: str = "spot-v6e8-ue5b-1", **changes: Any) -> SlotView:
    """A usable slot, or another."""
    there: dict[str, Any] = {
        "name": name,
        "pool": "spot-v6e8-ue5b",
        "type": "v6e-8",
        "zone": "us-east5-b",
        "model": "spot",
        "state": "idle",
        "since": 0.0,
        "generation": 1,
        "job": "",
        "attempt": "",
        "hold": "",
        "tpu": f"tpufn-lab-{name}-g1",
        "workers": ("34.1.2.3", "34.1.2.4"),
        "cause": "",
        "price_per_hour": 1.0,
    }
    return SlotView(**{**there, **changes})


class Server:
    """A tmux server that is ended with the test."""

    def __init__(self, configuration: Path) -> None:
        self.socket = f"tpufn-test-{uuid.uuid4().hex[:8]}"
        self.tmux = Tmux(self.socket, configuration=str(configuration))
        self.commands: dict[str, list[str]] = {}

    def run(self, *args: str) -> str:
        command = ["tmux", "-L", self.socket, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def mirror(self, shell: Callable[[SlotView], list[str]] | None = None) -> TmuxMirror:
        return TmuxMirror(self.tmux, FLEET, shell or (lambda slot: ["cat"]))


@pytest.fixture(params=["", "set -g base-index 1\nset -g pane-base-index 1\nset -g renumber-windows on\n"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """With tmux's own settings, and with the popular ones that number from 1."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    configuration = tmp_path / "tmux.conf"
    configuration.write_text(request.param)
    made = Server(configuration)
    yield made
    made.run("kill-server")
