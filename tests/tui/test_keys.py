"""Every key: what it asks of the client, and that none of them waits."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tpufn.domain.errors import Conflict
from tpufn.domain.job import Priority

from . import fakes

FIRST = "spot-v6e64-ew4a-1"
SECOND = "spot-v6e64-ew4a-2"


def test_c_queues_the_slot_under_the_cursor(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """Capacity for a person: one key, held from the start."""

    async def go() -> None:
        async with open_app() as tui:
            await tui.press("down", "c")
            await tui.until(lambda: "requesting" in tui.cell(SECOND, "state"))
            assert "ada" in tui.cell(SECOND, "about")
            assert any("held for you" in said for said in tui.said)

    run(go())
    assert client.asked == [("queue", (SECOND,))]


def test_a_queues_every_free_slot(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """In one request, and without those that hold something."""
    client.table[FIRST] = fakes.usable(client.table[FIRST])

    async def go() -> None:
        async with open_app() as tui:
            await tui.press("a")
            await tui.until(lambda: client.asked)

    run(go())
    ((verb, names),) = client.asked
    assert verb == "queue"
    assert len(names) == len(client.table) - 1
    assert FIRST not in names


def test_stars_are_raced_and_remembered(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """b stars, B races the starred ones that are free; the next run still has the stars."""

    async def go() -> None:
        async with open_app() as tui:
            await tui.press("b", "down", "b")
            assert tui.cell(FIRST, "star") == "★"
            await tui.press("B")
            await tui.until(lambda: client.asked)
        async with open_app() as tui:
            await tui.until(lambda: tui.cell(SECOND, "star") == "★")

    run(go())
    assert client.asked == [("race", (FIRST, SECOND))]


def test_h_holds_and_gives_back(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """One key for both: what it does depends on who holds the slot."""

    async def go() -> None:
        async with open_app() as tui:
            await tui.press("h")
            await tui.until(lambda: "ada" in tui.cell(FIRST, "about"))
            await tui.press("h")
            await tui.until(lambda: "ada" not in tui.cell(FIRST, "about"))

    run(go())
    assert [verb for verb, _ in client.asked] == ["hold", "release"]


def test_d_deletes_at_the_second_press(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """The first press only warns, and moving to another slot takes it back."""
    for name in (FIRST, SECOND):
        client.table[name] = fakes.usable(client.table[name])

    async def go() -> None:
        async with open_app() as tui:
            await tui.press("d", "down", "d")
            assert client.asked == []
            assert "press d again to delete" in tui.said[0]
            await tui.press("d")
            await tui.until(lambda: "releasing" in tui.cell(SECOND, "state"))

    run(go())
    assert client.asked == [("delete", (SECOND,))]


def test_a_refusal_is_said(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """In the client's own words, and the console goes on."""
    client.refusal = Conflict("the slot is busy; interrupt it first")

    async def go() -> None:
        async with open_app() as tui:
            await tui.press("c")
            await tui.until(lambda: "the slot is busy; interrupt it first" in tui.said)
            await tui.press("down")
            assert tui.app.view.chosen == SECOND

    run(go())


def test_s_copies_the_ssh_command(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """To the terminal's clipboard, and shown for terminals without one."""
    client.table[FIRST] = fakes.usable(client.table[FIRST])

    async def go() -> None:
        async with open_app() as tui:
            tui.app.site.memory.set_login("ada_example_com")
            await tui.press("s")
            await tui.until(lambda: any("ada_example_com@10.0.0.1" in said for said in tui.said))
            assert tui.app.clipboard.startswith("ssh -A ")

    run(go())


def test_i_shows_addresses_and_age(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """What the table has no room for."""
    client.table[FIRST] = fakes.usable(client.table[FIRST], since=fakes.T0 - 3720)
    client.notes = [replace(fakes.busy_afternoon().notes[0], slot=FIRST, at=fakes.T0 - 7200)]

    async def go() -> None:
        async with open_app() as tui:
            tui.app.site.memory.set_login("ada")
            await tui.press("i")
            await tui.until(lambda: "2h00m ago" in shown(tui))
            for fact in ("w1  10.0.0.2", "tpufn-lab-spot-v6e64-ew4a-1-g3", "idle for 1h02m", "ssh -A"):
                assert fact in shown(tui)
            await tui.press("escape")
            await tui.until(lambda: len(tui.app.screen_stack) == 1)

    run(go())


def shown(tui: Any) -> str:
    """The text on the screen."""
    lines = tui.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in lines)


def test_t_saves_the_tailscale_key(open_app: Any, run: Callable[..., Any], tmp_path: Any) -> None:
    """Readable by its owner alone, and never on the screen."""

    async def go() -> None:
        async with open_app() as tui:
            await tui.press("t", *"tskey-auth-k1", "enter")
            await tui.until(lambda: any("readable by you alone" in said for said in tui.said))
            assert "tskey-auth-k1" not in shown(tui)

    run(go())
    path = tmp_path / "console" / "tailscale.key"
    assert path.read_text() == "tskey-auth-k1"
    assert path.stat().st_mode & 0o777 == 0o600


def test_jobs_have_their_keys(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """Priority, cancel at the second press, retry; the story and the output beside them."""

    async def go() -> None:
        async with open_app() as tui:
            await tui.press("2")
            await tui.until(lambda: tui.app.view.chosen == fakes.JOBS[0].id)
            await tui.until(lambda: "loss 1.92" in shown(tui) and "no TPU that it accepts" in shown(tui))
            await tui.press("minus")
            await tui.until(lambda: client.asked)
            await tui.press("d", "d", "R")
            await tui.until(lambda: len(client.asked) == 3)

    run(go())
    job = fakes.JOBS[0].id
    assert client.asked[0] == ("set_priority", (job, Priority.NORMAL))
    assert sorted(client.asked[1:]) == [("cancel", (job,)), ("retry", (job,))]


def test_pools_say_what_the_cloud_said(open_app: Any, run: Callable[..., Any]) -> None:
    """Outcomes and cool-downs, in the cloud's own words."""

    async def go() -> None:
        async with open_app() as tui:
            await tui.press("3")
            await tui.until(lambda: tui.app.view.chosen)
            await tui.press("j")
            await tui.until(lambda: "There is no more capacity in the zone" in shown(tui))
            assert "in 1m" in shown(tui)

    run(go())


@pytest.mark.parametrize("key", ["c", "a", "b", "B", "h", "o", "s", "S", "T", "i", "r", "d", "x", "question_mark"])
def test_no_key_waits_for_a_hung_cloud(
    open_app: Any, client: fakes.HungClient, run: Callable[..., Any], key: str
) -> None:
    """40 slots, a cloud that answers in 10 s: the key returns at once and the cursor moves on."""
    client.table[FIRST] = fakes.usable(client.table[FIRST])

    async def go() -> None:
        async with open_app() as tui:
            client.gate.clear()
            start = time.monotonic()
            await tui.press(key, key)
            if len(tui.app.screen_stack) > 1:
                await tui.press("escape")
            await tui.press("down")
            await tui.until(lambda: tui.app.view.chosen == SECOND, within=5)
            assert time.monotonic() - start < 5

    start = time.monotonic()
    run(go())
    client.gate.set()
    assert time.monotonic() - start < 9


def test_a_key_pressed_twice_asks_once(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """An act that is under way is not started again; the row says what is being done."""

    async def go() -> None:
        async with open_app() as tui:
            client.gate.clear()
            await tui.press("c", "c", "c")
            assert "queue…" in tui.cell(FIRST, "about")
            assert any("queue is under way" in said for said in tui.said)
            client.gate.set()
            await tui.until(lambda: "requesting" in tui.cell(FIRST, "state"))

    run(go())
    assert client.asked == [("queue", (FIRST,))]


def test_acts_are_bounded(open_app: Any, client: fakes.HungClient, run: Callable[..., Any]) -> None:
    """A person who holds a key down does not start forty threads."""
    client.seconds = 120

    async def go() -> None:
        async with open_app() as tui:
            client.gate.clear()
            for _ in range(20):
                await tui.press("c", "down")
            assert len(tui.app.acts.busy) == 8
            assert any("too much is under way" in said for said in tui.said)
            client.gate.set()
            await tui.until(lambda: not tui.app.acts.busy)

    run(go())
    assert len(client.asked) == 8
