"""The end: within two seconds, whatever hangs; and the real program in a real terminal."""

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

HERE = Path(__file__).parent
SCRIPT = """
import sys, threading, time
sys.path[:0] = {paths!r}
import fakes
from pathlib import Path
from tpufn_cli.console.site import Site
from tpufn_cli.tui.app import ConsoleApp
client = fakes.HungClient()
home = Path({home!r})
site = Site(client, home=home, base=home, environment={{"TPUFN_CONFIG": "/none", "TPUFN_TUI__REFRESH": "0.2"}})
app = ConsoleApp(site, measures=False)
if {hung}:
    threading.Timer(1.0, client.gate.clear).start()
client.seconds = 600
app.run()
print("left by", app.ended_by, flush=True)
"""


class Terminal:
    """A tmux server of its own, with one window."""

    def __init__(self, command: str) -> None:
        self._socket = f"tpufn-test-{uuid.uuid4().hex[:8]}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "140", "-y", "36", command)
        self.tmux("set-option", "-g", "remain-on-exit", "on")

    def tmux(self, *args: str) -> str:
        command = ["tmux", "-L", self._socket, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def until(self, what: Callable[[str], bool], *, within: float = 60.0) -> str:
        deadline = time.monotonic() + within
        while not what(screen := self.tmux("capture-pane", "-p")):
            assert time.monotonic() < deadline, screen
            time.sleep(0.02)
        return screen

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    script = tmp_path / "run.py"
    paths = [str(HERE), *sys.path]
    script.write_text(SCRIPT.format(paths=paths, home=str(tmp_path), hung=request.param))
    opened = Terminal(f"env -u COLUMNS -u LINES {sys.executable} {script}; echo ended with $?; cat")
    yield opened
    opened.close()


@pytest.mark.parametrize("terminal", [True], indirect=True)
def test_quits_within_two_seconds_with_a_hung_cloud(terminal: Terminal) -> None:
    """Every look and an act hang, and the process still ends: its threads are not waited for."""
    terminal.until(lambda screen: "no answer for" in screen)
    terminal.keys("c", "j", "c")
    terminal.until(lambda screen: screen.count("queue…") == 2)
    start = time.monotonic()
    terminal.keys("q")
    terminal.until(lambda screen: "ended with 0" in screen)
    assert time.monotonic() - start < 2 + 2 * (os.getloadavg()[0] / (os.cpu_count() or 1) > 2)


@pytest.mark.parametrize("terminal", [False], indirect=True)
def test_real_keys_in_a_real_terminal(terminal: Terminal) -> None:
    """What a person does: look, star, race, look at jobs and pools, ask for help, quit."""
    terminal.until(lambda screen: "spot-v6e64-ew4a-1" in screen and "running" in screen)
    terminal.keys("b", "Down", "b", "B")
    terminal.until(lambda screen: screen.count("requesting") >= 2 and "★" in screen)
    terminal.keys("o")
    terminal.until(lambda screen: "is requesting: it has no" in screen)
    terminal.keys("2")
    terminal.until(lambda screen: "llama-70b-sft-4" in screen and "loss 1.90" in screen)
    terminal.keys("3")
    terminal.until(lambda screen: "last outcome" in screen)
    terminal.keys("?")
    terminal.until(lambda screen: "join the workers to the tailnet" in screen)
    terminal.keys("Escape")
    terminal.until(lambda screen: "join the workers to the tailnet" not in screen)
    terminal.keys("q")
    terminal.until(lambda screen: "left by 0" in screen and "ended with 0" in screen)


@pytest.mark.parametrize("terminal", [False], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back(terminal: Terminal, number: signal.Signals) -> None:
    """`kill`, a session that ends: what comes after must not be typed blind into an alternate screen."""
    terminal.until(lambda screen: "spot-v6e64-ew4a-1" in screen and "running" in screen)
    shell = psutil.Process(int(terminal.tmux("display-message", "-p", "#{pane_pid}")))
    (app,) = shell.children()
    app.send_signal(number)
    terminal.until(lambda screen: f"left by {int(number)}" in screen and "ended with 0" in screen)
    assert terminal.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}") == "0 1 0\n"
    terminal.keys("echoed")
    terminal.until(lambda screen: "echoed" in screen)


@pytest.mark.parametrize("terminal", [False], indirect=True)
@pytest.mark.parametrize("key", ["q", "C-c"])
def test_quits_from_help(terminal: Terminal, key: str) -> None:
    terminal.until(lambda screen: "spot-v6e64-ew4a-1" in screen and "running" in screen)
    terminal.keys("?")
    terminal.until(lambda screen: "join the workers to the tailnet" in screen)
    terminal.keys(key)
    terminal.until(lambda screen: "left by 0" in screen and "ended with 0" in screen)
