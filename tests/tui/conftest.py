"""An app over the forty slots, in Textual's own harness. Tests wait on conditions, never for a time."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tpufn_cli.console.site import Site
from tpufn_cli.tui.app import ConsoleApp

from . import fakes


@pytest.fixture
def client() -> fakes.HungClient:
    return fakes.HungClient()


@pytest.fixture
def site(client: fakes.HungClient, tmp_path: Path) -> Site:
    environment = {"TPUFN_CONFIG": str(tmp_path / "none.toml"), "TPUFN_TUI__REFRESH": "0.2", "TERM": "xterm"}
    return Site(client, home=tmp_path, base=tmp_path, environment=environment)


class Driver:
    """Presses keys, and waits until something is so."""

    def __init__(self, app: ConsoleApp, pilot: Any) -> None:
        self.app, self.pilot = app, pilot
        self.said: list[str] = []
        notify = app.notify

        def remember(message: str, **more: Any) -> None:
            self.said.append(message)
            notify(message, **more)

        app.notify = remember  # type: ignore[method-assign]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, condition: Callable[[], Any], *, within: float = 20.0) -> None:
        """Let the app run until `condition` holds."""
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, f"never so; said: {self.said}"
            await asyncio.sleep(0.01)

    def cell(self, slot: str, column: str) -> str:
        return str(self.app.query_one("#slots-table").get_cell(slot, column))  # type: ignore[attr-defined]


Open = Callable[..., Any]


@pytest.fixture
def open_app(site: Site) -> Open:
    """An async context manager: the running app as a Driver, with its slots on the screen."""

    @asynccontextmanager
    async def opened(*, size: tuple[int, int] = (140, 40), ready: bool = True) -> AsyncIterator[Driver]:
        app = ConsoleApp(site, now=lambda: fakes.T0, measures=False)
        async with app.run_test(size=size, notifications=True) as pilot:
            driver = Driver(app, pilot)
            if ready:
                await driver.until(lambda: app.query_one("#slots-table").row_count == len(fakes.table()))  # type: ignore[attr-defined]
                await driver.until(lambda: app.fleet.name)
            yield driver

    return opened


@pytest.fixture
def run() -> Callable[[Any], Any]:
    """Runs a test's coroutine: no plug-in is needed for that."""
    return asyncio.run
