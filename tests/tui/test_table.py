"""The table keeps its place, and a burst is one repaint."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tpufn_cli.tui.steady import SteadyTable

from . import fakes
from .test_keys import shown

DEEP = "spot-v432-uc2b-5"


def test_cursor_and_scroll_survive_refreshes(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """However often the slots change, the person's place does not."""

    async def go() -> None:
        async with open_app(size=(140, 24)) as tui:
            table = tui.app.query_one("#slots-table", SteadyTable)
            table.choose(DEEP)
            await tui.until(lambda: table.scroll_offset.y > 0)
            before = table.scroll_offset
            for number in range(20):
                for name, there in client.table.items():
                    client.table[name] = replace(there, state="waiting", cause=f"change {number}")
                await tui.until(lambda number=number: f"change {number}" in tui.cell(DEEP, "about"))
            assert (table.chosen, table.scroll_offset) == (DEEP, before)

    run(go())


def test_only_changed_cells_are_written(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """A refresh without news writes nothing; one changed slot writes its own cells."""

    async def go() -> None:
        async with open_app() as tui:
            table = tui.app.query_one("#slots-table", SteadyTable)
            tui.app.draw()
            written = table.cells_written
            tui.app.draw()
            assert table.cells_written == written
            client.table[DEEP] = replace(client.table[DEEP], hold="grace")
            await tui.until(lambda: "grace" in tui.cell(DEEP, "about"))
            assert table.cells_written == written + 1

    run(go())


def test_another_width_keeps_the_place_too(open_app: Any, run: Callable[..., Any]) -> None:
    """Columns come and go with the terminal's width; cursor and rows stay."""

    async def go() -> None:
        async with open_app(size=(140, 24)) as tui:
            table = tui.app.query_one("#slots-table", SteadyTable)
            table.choose(DEEP)
            for width, column in ((70, "narrow"), (110, "medium"), (150, "wide")):
                await tui.pilot.resize_terminal(width, 24)
                await tui.until(lambda column=column: tui.app.kind == column and len(table.columns) == COLUMNS[column])
                assert table.chosen == DEEP
                assert DEEP in shown(tui)

    run(go())


COLUMNS = {"narrow": 5, "medium": 8, "wide": 10}


def test_a_slot_that_leaves_moves_nobody(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """A pool that left the file drains and goes: the cursor stays on its slot."""

    async def go() -> None:
        async with open_app() as tui:
            table = tui.app.query_one("#slots-table", SteadyTable)
            table.choose(DEEP)
            del client.table["spot-v6e64-ew4a-1"]
            await tui.until(lambda: table.row_count == len(client.table))
            assert table.chosen == DEEP

    run(go())


def test_the_cursor_is_remembered(open_app: Any, site: Any, run: Callable[..., Any]) -> None:
    """The next run starts where this one ended."""
    site.memory.set_cursor(DEEP)

    async def go() -> None:
        async with open_app() as tui:
            await tui.until(lambda: tui.app.view.chosen == DEEP)

    run(go())


@pytest.mark.parametrize("size", [(60, 12), (80, 24), (200, 60)])
@pytest.mark.parametrize("view", ["1", "2", "3"])
def test_every_view_fits_every_terminal(
    open_app: Any, run: Callable[..., Any], size: tuple[int, int], view: str
) -> None:
    """From a phone to a wall: no view fails, and the tabs are there."""

    async def go() -> None:
        async with open_app(size=size) as tui:
            await tui.press(view, "ctrl+t")
            await tui.until(lambda: tui.app.view.chosen)
            assert "2 Jobs" in shown(tui)
            assert tui.app.theme == "tpufn-light"

    run(go())


def test_the_event_log_follows(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """Each note once, in order, also those that come later."""
    client.notes = fakes.busy_afternoon().notes

    async def go() -> None:
        async with open_app() as tui:
            await tui.until(lambda: "race.won" in shown(tui))
            client.notes.append(replace(client.notes[0], id="later", reason="a later one"))
            await tui.until(lambda: "a later one" in shown(tui))
            assert shown(tui).count("race.won") == 1

    run(go())
