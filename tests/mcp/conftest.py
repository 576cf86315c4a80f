"""An assistant's session: the SDK's own client, the real program as a subprocess, a real sandbox engine behind it.

The server runs on the SDK that is installed, and on the other of its two lines, in an environment made for that.
"""

import asyncio
import os
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

mcp = pytest.importorskip("mcp", reason="the MCP SDK is not installed")

ROOT = Path(__file__).parents[2]
LINES = {"1": "mcp>=1.20,<2", "2": "mcp>=2,<3"}
FLEET = """\
name: assist
project: tpufn-assist
idle_timeout_seconds: 60
bootstrap: [hello.sh]
tpus:
  - {type: v4-8, zone: us-central2-b, count: 2, runtime: tpu-ubuntu2204-base}
  - {type: v6e-1, zone: us-east5-a, count: 3, runtime: v2-alpha-tpuv6e}
"""
JOB = """\
jobs:
  - name: hello
    tpu: [v6e-1]
    buckets: [gs://assist-us-east5]
    bundle: .
    command: for i in 1 2 3; do echo "line $i"; done
"""


class Refused(Exception):
    """A tool error, in the server's words."""


@dataclass
class Assistant:
    """The session with the SDK's differences in spelling taken away."""

    session: Any

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        done = await self.session.call_tool(tool, arguments)
        if getattr(done, "is_error", None) or getattr(done, "isError", None):
            raise Refused(done.content[0].text)
        found = getattr(done, "structured_content", None) or getattr(done, "structuredContent", None)
        return dict(found)

    async def until(
        self, condition: Callable[[dict[str, Any]], bool], tool: str, /, **arguments: Any
    ) -> dict[str, Any]:
        """Ask until it is so."""
        for _ in range(600):
            found = await self.call(tool, **arguments)
            if condition(found):
                return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"never so: {found}")

    async def hints(self) -> dict[str, dict[str, bool]]:
        """Tool -> its annotations, as on the wire."""
        tools = (await self.session.list_tools()).tools
        return {tool.name: tool.annotations.model_dump(by_alias=True, exclude_none=True) for tool in tools}

    async def tools(self) -> Any:
        return (await self.session.list_tools()).tools


def home_of(place: Path) -> Path:
    """The state directory: beside the files, since the job's bundle is all of them."""
    return place.with_name(f"{place.name}-home")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a deployment, a job and its scripts, and an engine that runs on it."""
    from tpufn.client import open_engine

    folder = tmp_path_factory.mktemp("assist")
    (folder / "deployment.yaml").write_text(FLEET)
    (folder / "job.yaml").write_text(JOB)
    (folder / "hello.sh").write_text('#!/bin/sh\necho "hello from $TPUFN_SLOT worker $TPUFN_WORKER"\n')
    engine = open_engine(
        home=str(home_of(folder)), deployment=str(folder / "deployment.yaml"), sandbox=True, speed=20.0
    )
    engine.start()
    yield folder
    engine.stop()


@pytest.fixture(scope="session")
def other_line(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with everything that this one has, but with the SDK's other line."""
    here = version("mcp").partition(".")[0]
    wanted = next(spec for major, spec in LINES.items() if major != here)
    home = tmp_path_factory.mktemp("other-line")
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    python = str(home / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode and os.environ.get("CI") != "true":
        pytest.skip(f"{wanted} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    (site,) = home.glob("lib/python*/site-packages")
    (site / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # comes after its own
    return python


@pytest.fixture(params=["this_line", pytest.param("other_line", marks=pytest.mark.installs)])
def command(request: pytest.FixtureRequest, place: Path) -> list[str]:
    """The server's command line."""
    python = sys.executable if request.param == "this_line" else request.getfixturevalue("other_line")
    options = ["--home", str(home_of(place)), "-d", str(place / "deployment.yaml")]
    return [python, "-m", "tpufn_cli", *options, "mcp", "--sandbox", "--set", f"tmux.socket={place.name}"]


def environment() -> dict[str, str]:
    paths = [str(ROOT / "shared"), str(ROOT / "cli")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TPUFN_CONFIG": os.devnull, "USER": "ada"}


@pytest.fixture
def assistant(command: list[str]) -> Callable[[], Any]:
    """An async context manager: an initialized session."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    @asynccontextmanager
    async def opened() -> AsyncIterator[Assistant]:
        started = StdioServerParameters(command=command[0], args=command[1:], env=environment())
        async with stdio_client(started) as streams, ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            yield Assistant(session)

    return opened
