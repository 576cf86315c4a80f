"""What an assistant can rely on: every tool with honest annotations, typed results, errors with their fix."""

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from .conftest import Refused, environment

READ_ONLY = {
    "list_slots",
    "slot_info",
    "ssh_command",
    "tmux_status",
    "list_jobs",
    "job_status",
    "why_job",
    "job_logs",
    "fleet_status",
    "validate_job",
    "simulate",
}
DESTRUCTIVE = {"cancel_slot", "tmux_close", "cancel_job"}
MUTATING = {
    "queue_slot",
    "queue_slots",
    "setup_vm",
    "tailscale_setup",
    "tmux_sync",
    "tmux_open",
    "submit_job",
    "retry_job",
    "set_priority",
    "race_slots",
    "hold_slot",
    "release_slot",
}
V4, WINDOW, V6 = "spot-v48-uc2b-1", "spot-v48-uc2b-2", "spot-v6e1-ue5a-1"


def test_every_tool_says_what_it_does(assistant: Any) -> None:
    """Clients decide by the annotations whether a person is asked."""

    async def go() -> None:
        async with assistant() as ai:
            hints = await ai.hints()
            assert set(hints) == READ_ONLY | DESTRUCTIVE | MUTATING
            assert {name for name, hint in hints.items() if hint["readOnlyHint"]} == READ_ONLY
            assert {name for name, hint in hints.items() if hint["destructiveHint"]} == DESTRUCTIVE
            for tool in await ai.tools():
                schema = getattr(tool, "output_schema", None) or tool.outputSchema
                assert schema["type"] == "object"
                assert tool.description

    asyncio.run(go())


def test_capacity_for_a_person(assistant: Any) -> None:
    """Queue a slot, wait until it is there, look at it, set it up, give it up: only with the person's word."""

    async def go() -> None:
        async with assistant() as ai:
            await ai.call("queue_slot", name=V4)
            ready = await ai.until(lambda slot: slot["state"] == "idle", "slot_info", name=V4)
            assert ready["held_by"] == "ada"
            assert len(ready["workers"]) == 1
            assert ready["tpu"] in (await ai.call("ssh_command", name=V4))["command"]
            done = await ai.call("setup_vm", name=V4)
            assert done["ok"], done
            assert f"w0 | hello from {V4} worker 0" in done["last_lines"]
            assert (await ai.call("slot_info", name=V4))["set_up"] == "ok"
            with pytest.raises(Refused, match="confirm=true"):
                await ai.call("cancel_slot", name=V4)
            await ai.call("cancel_slot", name=V4, confirm=True)
            await ai.until(lambda slot: slot["state"] == "free", "slot_info", name=V4)

    asyncio.run(go())


def test_a_race_keeps_the_first(assistant: Any) -> None:
    """Two asked for, one kept and held, the other free again."""
    names = [f"{V6[:-1]}{number}" for number in (2, 3)]

    async def go() -> None:
        async with assistant() as ai:

            def settled(found: dict[str, Any]) -> bool:
                states = sorted(slot["state"] for slot in found["slots"] if slot["name"] in names)
                return states == ["free", "idle"]

            await ai.call("race_slots", names=names)
            found = await ai.until(settled, "list_slots")
            (won,) = [slot for slot in found["slots"] if slot["name"] in names and slot["state"] == "idle"]
            assert won["held_by"] == "ada"
            await ai.call("release_slot", name=won["name"])
            await ai.until(lambda slot: slot["held_by"] == "", "slot_info", name=won["name"])
            await ai.call("hold_slot", name=won["name"])
            await ai.until(lambda slot: slot["held_by"] == "ada", "slot_info", name=won["name"])
            await ai.call("cancel_slot", name=won["name"], confirm=True)
            await ai.until(lambda slot: slot["state"] == "free", "slot_info", name=won["name"])

    asyncio.run(go())


def test_a_plan(assistant: Any, place: Path) -> None:
    """What a fleet would do is asked before anything is bought; a wrong file is told in words."""

    async def go() -> None:
        async with assistant() as ai:
            jobs = place / "load.yaml"
            jobs.write_text("jobs: [{tpu: any, duration: 30m, count: 3}]\n")
            asked = {"deployment": str(place / "deployment.yaml"), "jobs": str(jobs), "days": 0.2}
            (plan,) = (await ai.call("simulate", **asked))["report"]["plans"]
            assert (plan["summary"]["jobs"], plan["summary"]["finished"]) == (3, 3)
            jobs.write_text("jobs: [{tpu: v6e-20, duration: 30m}]\n")
            with pytest.raises(Refused, match="there is no v6e-20"):
                await ai.call("simulate", **asked)

    asyncio.run(go())


def test_a_job_from_file_to_output(assistant: Any, place: Path) -> None:
    """Validate, submit twice with one key, wait, read the output in pages, learn why it ended."""

    async def go() -> None:
        async with assistant() as ai:
            path = str(place / "job.yaml")
            assert (await ai.call("validate_job", path=path))["valid"]
            key = f"key-{time.monotonic_ns()}"
            first = await ai.call("submit_job", path=path, idempotency_key=key)
            again = await ai.call("submit_job", path=path, idempotency_key=key)
            assert first["jobs"] == again["jobs"]
            (id,) = first["jobs"]
            await ai.until(lambda found: found["job"]["state"] == "succeeded", "job_status", id=id)
            assert id in [job["id"] for job in (await ai.call("list_jobs", states=["succeeded"]))["jobs"]]
            logs = await ai.call("job_logs", id=id)
            assert [line.partition(" ")[2] for line in logs["text"].splitlines()] == ["line 1", "line 2", "line 3"]
            assert (await ai.call("job_logs", id=id, cursor=logs["cursor"]))["text"] == ""
            assert (await ai.call("why_job", id=id))["state"] == "succeeded"
            with pytest.raises(Refused, match="confirm=true"):
                await ai.call("cancel_job", id=id)
            with pytest.raises(Refused, match="has ended already"):
                await ai.call("cancel_job", id=id, confirm=True)

    asyncio.run(go())


def test_errors_are_tool_errors_with_the_fix(assistant: Any, place: Path) -> None:
    """The session goes on after each."""
    broken = place / "broken.yaml"
    broken.write_text("jobs:\n  - {name: x, comand: echo, tpu: v6e-1}\n")

    async def go() -> None:
        async with assistant() as ai:
            for name, arguments, said in (
                ("slot_info", {"name": "nope"}, "`tpufn slots` lists them"),
                ("why_job", {"id": "nope"}, "there is no job nope"),
                ("list_jobs", {"states": ["asleep"]}, "the states are pending"),
                ("job_logs", {"id": "nope", "cursor": "x"}, "is not a cursor"),
                ("set_priority", {"id": "x", "priority": "urgent"}, "'low', 'normal' or 'high'"),
                ("submit_job", {"path": str(broken)}, "comand: unknown key"),
                ("tailscale_setup", {"name": WINDOW}, "is free"),
            ):
                with pytest.raises(Refused, match=said):
                    await ai.call(name, **arguments)
            checked = await ai.call("validate_job", path=str(broken))
            assert not checked["valid"]
            assert "comand" in " ".join(checked["problems"])
            assert (await ai.call("fleet_status"))["engine"] == "running"

    asyncio.run(go())


def test_windows_are_opened_and_only_closed_on_request(assistant: Any, place: Path) -> None:
    """Sync creates, deleting leaves the window and says so, close needs the person's word."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")

    async def go() -> None:
        async with assistant() as ai:
            await ai.call("queue_slot", name=WINDOW)
            await ai.until(lambda slot: slot["state"] == "idle", "slot_info", name=WINDOW)
            assert (await ai.call("tmux_sync"))["answers"][WINDOW] == "opened"
            assert (await ai.call("tmux_status"))["windows"][WINDOW] == "tpu-uc2b"
            said = (await ai.call("cancel_slot", name=WINDOW, confirm=True))["answers"][WINDOW]
            assert "its tmux window stays" in said
            await ai.until(lambda state: WINDOW in state["orphaned"], "tmux_status")
            with pytest.raises(Refused, match="confirm=true"):
                await ai.call("tmux_close", name=WINDOW)
            await ai.call("tmux_close", name=WINDOW, confirm=True)
            assert WINDOW not in (await ai.call("tmux_status"))["orphaned"]
            await ai.until(lambda slot: slot["state"] == "free", "slot_info", name=WINDOW)

    try:
        asyncio.run(go())
    finally:
        subprocess.run(["tmux", "-L", place.name, "kill-server"], check=False, capture_output=True)


def test_parallel_calls_are_answered_in_parallel(assistant: Any, place: Path) -> None:
    """A set-up that takes long holds nobody up."""
    (place / "hello.sh").rename(place / "hello.kept")
    (place / "hello.sh").write_text(f"#!/bin/sh\nuntil [ -e {place}/go ]; do sleep 0.05; done\n")

    async def go() -> None:
        async with assistant() as ai:
            await ai.call("queue_slot", name=V4)
            await ai.until(lambda slot: slot["state"] == "idle", "slot_info", name=V4)
            slow = asyncio.create_task(ai.call("setup_vm", name=V4))
            answers = await asyncio.gather(*(ai.call("list_slots") for _ in range(20)))
            assert len(answers) == 20
            assert not slow.done()
            (place / "go").touch()
            assert (await slow)["ok"]
            await ai.call("cancel_slot", name=V4, confirm=True)
            await ai.until(lambda slot: slot["state"] == "free", "slot_info", name=V4)

    try:
        asyncio.run(go())
    finally:
        (place / "go").unlink(missing_ok=True)
        (place / "hello.kept").rename(place / "hello.sh")


def test_the_wire_has_nothing_but_the_protocol(command: list[str]) -> None:
    """Raw bytes: each line of stdout is JSON-RPC, and the end of input ends the server at once, with 0."""
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}},
    }
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_slots", "arguments": {}}}
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert server.stdin
    assert server.stdout
    answers = []
    for sent in (hello, {"jsonrpc": "2.0", "method": "notifications/initialized"}, listing):
        server.stdin.write(json.dumps(sent) + "\n")
        server.stdin.flush()
        if "id" in sent:
            answers.append(json.loads(server.stdout.readline()))
    rest, _ = server.communicate(timeout=30)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    assert server.returncode == 0


def test_a_server_without_a_deployment_says_so_per_call(
    assistant: Any, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts all the same, so that the assistant can read the fix."""
    monkeypatch.chdir(tmp_path)
    command[3:] = ["--home", str(tmp_path), "mcp"]
    opened: Callable[[], Any] = assistant

    async def go() -> None:
        async with opened() as ai:
            with pytest.raises(Refused, match="tpufn init"):
                await ai.call("fleet_status")

    asyncio.run(go())


@pytest.mark.installs
def test_both_lines_of_the_sdk_are_tried(other_line: str) -> None:
    """A server of the line that is installed anyway would prove nothing twice."""
    ask = [other_line, "-c", "import importlib.metadata as m; print(m.version('mcp'))"]
    found = subprocess.run(ask, capture_output=True, text=True, check=True, env=environment()).stdout
    assert {found.partition(".")[0], version("mcp").partition(".")[0]} == {"1", "2"}
