"""A run from submit to teardown: demo and run, in JSON, in plain lines, and live."""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tpufn.domain.errors import InputError
from tpufn.domain.job import JobState
from tpufn.domain.views import LogPiece

PREEMPTED_TPU = "tpufn-demo-spot-v6e16-ue5a-1-g1"


def test_demo_as_json_ends_with_the_documented_event(tpufn: Callable[..., Any], demo_engine: Any) -> None:
    """Other programs read this line."""
    ran = tpufn("demo", "--json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    last = events[-1]
    seconds, cost = last.pop("seconds"), last.pop("cost_usd")
    assert ran.code == 0
    assert last == {
        "event": "finished",
        "status": "succeeded",
        "attempts": 2,
        "regions": ["us-east5"],
        "provisioned": 0,
        "chip_seconds": pytest.approx(16 * (3.0 + 0.5 + 4.4), abs=0.5),
        "job": "demo-1",
        "jobs": ["demo-1"],
    }
    assert seconds < 10
    assert cost == pytest.approx(126.4 / 3600 * 1.215, rel=0.02)


def test_demo_as_json_has_every_note_and_every_line_of_output(
    tpufn: Callable[..., Any], demo_engine: Any, story_notes: Any
) -> None:
    """One event per line, none lost, in order."""
    events = [json.loads(line) for line in tpufn("demo", "--json").out.splitlines()]
    assert [e["event"] for e in events if e["event"] not in ("output", "finished")] == [n.event for n in story_notes]
    texts = [e["text"] for e in events if e["event"] == "output"]
    assert texts[2:5] == ["step=20/40 loss=0.43", "checkpoint step=20", "resumed from checkpoint step=20"]


def test_the_director_preempts_once_after_a_few_checkpoints(tpufn: Callable[..., Any], demo_engine: Any) -> None:
    """A preemption before it would show no resume; a second one would never end."""
    tpufn("demo", "--json")
    ((tpu, notice),) = demo_engine.preempted
    assert tpu == PREEMPTED_TPU
    assert notice > 0


def test_run_preempts_nothing(tpufn: Callable[..., Any], demo_engine: Any) -> None:
    """The director belongs to the demo."""
    assert tpufn("run", "job.yaml", "--json").code == 0
    assert demo_engine.preempted == []


def test_the_demo_is_a_sandbox_with_a_state_of_its_own(tpufn: Callable[..., Any], doors: Any, demo_engine: Any) -> None:
    """It is repeatable, and never meets the jobs of an earlier one, nor a deployment that is lying about."""
    tpufn("demo", "--seed", "7", "--json", "-d", "production.yaml")
    ((options, seed, speed, fresh),) = doors.options
    assert options.sandbox
    assert options.deployment.endswith("examples/demo/deployment.yaml")
    assert (seed, speed, fresh) == (7, 1.0, True)


def test_plain_lines_tell_the_whole_story(tpufn: Callable[..., Any], demo_engine: Any) -> None:
    """Without a terminal: one line per event, in stable wording."""
    ran = tpufn("demo")
    assert ran.code == 0
    for line in (
        "   +0.1s bundle.built                            3 files, 6.2 KB, sha256 9f2c41d07be3",
        "   +0.4s slot.requesting    spot-v432-uc2b-1     for demo-1",
        "   +3.1s race.won           spot-v6e16-ue5a-1    best rank; waited 2.8 s; releases "
        "spot-v432-uc2b-1, spot-v6e16-ue5b-1",
        "   +3.1s race.lost          spot-v432-uc2b-1     waiting: no waiting job needs it any more",
        "   +3.2s attempt.launching  demo-1.1             on 4 workers of spot-v6e16-ue5a-1",
        "         output             worker 0 | checkpoint step=20",
        "   +5.6s attempt.stopping   demo-1.1             preempted: Spot preemption (notice)",
        "   +8.2s attempt.assigned   demo-1.2             attempt 2 on spot-v6e16-ue5a-2, pinned to us-east5",
        "         output             worker 0 | resumed from checkpoint step=20",
        "  +12.1s job.succeeded      demo-1               exit 0 from all 4 workers",
        "  +12.6s slot.free          spot-v6e16-ue5a-2",
    ):
        assert line in ran.out.splitlines()


def test_the_closing_table(tpufn: Callable[..., Any], demo_engine: Any) -> None:
    """Attempts with their waits and ends, TPU-time, cost, and that nothing is left."""
    closing = tpufn("demo").out.rpartition("demo-1 succeeded\n")[2].splitlines()
    assert closing[:3] == [
        "#  slot               type    zone        waited   ran  outcome",
        "1  spot-v6e16-ue5a-1  v6e-16  us-east5-a    3.3s  2.0s  preempted",
        "2  spot-v6e16-ue5a-2  v6e-16  us-east5-a    3.1s  3.3s  succeeded",
    ]
    assert "waited       6.4s for TPUs" in closing
    assert "TPU-time     0.04 chip-hours" in closing
    assert "cost         $0.04 estimated, at list prices" in closing
    assert "provisioned  no TPU is held any more" in closing


def test_a_run_that_leaves_a_tpu_says_so(tpufn: Callable[..., Any], doors: Any, make_engine: Any, client: Any) -> None:
    """Money that runs on must be seen."""
    doors.made = make_engine(*client.notes, provisioned=1)
    assert "1 TPU still held; `tpufn -d demo up` goes on releasing" in tpufn("run", "job.yaml").out


def test_a_failed_job_ends_with_1(tpufn: Callable[..., Any], doors: Any, make_engine: Any, client: Any) -> None:
    """The exit code is the job's, and the cause is printed."""
    client.view = replace(client.view, job=replace(client.view.job, state=JobState.FAILED, cause="exit 1 on worker 2"))
    failed = replace(client.notes[-1], event="job.failed")
    doors.made = make_engine(*client.notes[:-1], failed)
    ran = tpufn("run", "job.yaml")
    assert ran.code == 1
    assert "exit 1 on worker 2\n" in ran.out


def test_a_refused_file_stops_the_engine(tpufn: Callable[..., Any], demo_engine: Any, client: Any) -> None:
    """Exit 2 with every problem, and nothing keeps running."""
    client.refusal = InputError("job.yaml:2: no command")
    ran = tpufn("run", "job.yaml")
    assert (ran.code, ran.err.splitlines()[-1]) == (2, "error: job.yaml:2: no command")
    assert demo_engine.calls == ["start", "stop"]


def test_ctrl_c_cancels_drains_and_exits_130(
    tpufn: Callable[..., Any], doors: Any, make_engine: Any, client: Any
) -> None:
    """The first Ctrl-C still brings everything to its end."""
    client.view = replace(client.view, job=replace(client.view.job, state=JobState.ACTIVE))
    cancelled = replace(client.notes[-1], event="job.cancelled")
    step = lambda: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
    doors.made = make_engine(*client.notes[:2], 0.3, step, 0.3, cancelled)
    ran = tpufn("run", "job.yaml")
    assert ran.code == 130
    assert ("cancel", ("demo-1",), False) in client.asked
    assert doors.made.calls == ["start", "drain", "stop"]
    assert "Ctrl-C again leaves at once" in ran.err


def test_a_second_ctrl_c_leaves_at_once(tpufn: Callable[..., Any], doors: Any, make_engine: Any, client: Any) -> None:
    """Without a drain, and without waiting for the engine: its state is safe at any moment."""
    from tpufn_cli.doors import Abandoned

    step = lambda: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
    doors.made = make_engine(*client.notes[:2], 0.3, step, 0.3, step, 60.0)
    begun = time.monotonic()
    with pytest.raises(Abandoned):
        tpufn("run", "job.yaml")
    assert doors.made.calls == ["start"]
    assert time.monotonic() - begun < 5


def test_output_that_cannot_be_followed_is_said_not_raised(
    tpufn: Callable[..., Any], demo_engine: Any, client: Any
) -> None:
    """The job is not the worse for it."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise InputError("no bucket")

    client.logs = refuse
    ran = tpufn("run", "job.yaml")
    assert ran.code == 0
    assert "the output of demo-1 cannot be followed: no bucket" in ran.err


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_view_shows_the_race_and_keeps_to_the_width(story_notes: Any, fleet: Any, width: int) -> None:
    """Readable in a terminal of the usual size and in a wide one."""
    from rich.console import Console

    from tpufn_cli.flow.live import header, legs_table
    from tpufn_cli.flow.story import Story

    story = Story(fleet)
    for note in story_notes:
        story.add(note)
        if note.event == "attempt.running":
            break
    console = Console(width=width, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    with console.file:
        console.print(header(story, "job.yaml", 3.7), legs_table(story, story.now + 2))
    lines = console.export_text().splitlines()
    assert lines[0].startswith("demo-1 running on spot-v6e16-ue5a-1, attempt 1")
    assert lines[0].rstrip().endswith("3.7s")
    assert [" ".join(line.split()) for line in lines[1:4]] == [
        "spot-v432-uc2b-1 v4-32 us-central2-b free 2s lost the race",
        "spot-v6e16-ue5a-1 v6e-16 us-east5-a busy 2s won the race",
        "spot-v6e16-ue5b-1 v6e-16 us-east5-b free 2s lost the race",
    ]
    assert max(map(len, lines)) <= width


def test_the_live_teller_prints_a_timeline(story_notes: Any, fleet: Any) -> None:
    """Everything but what the race table shows goes into the scrollback; control characters of a job do not."""
    from io import StringIO

    from rich.console import Console

    from tpufn_cli.flow.live import LiveTeller
    from tpufn_cli.flow.output import OutputLine
    from tpufn_cli.flow.story import Story

    console = Console(width=100, file=StringIO(), force_terminal=True, record=True, markup=False, highlight=False)
    story = Story(fleet)
    with LiveTeller(story, console, title="job.yaml") as live:
        for note in story_notes:
            story.add(note)
            live.note(note)
        live.output(OutputLine(job="demo-1", attempt=1, worker=2, text="\x1b[31m10%\r100% [done]\x07"))
    shown = console.export_text()
    assert "attempt.assigned  attempt 1 on spot-v6e16-ue5a-1" in shown
    assert "worker 2 │ 100% [done]\n" in shown
    assert "slot.provisioning" not in shown


def test_a_run_in_a_terminal_uses_the_live_view(
    tpufn: Callable[..., Any], demo_engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same run, shown differently: same end, same exit code."""
    import sys

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ran = tpufn("demo")
    assert ran.code == 0
    assert "demo-1" in ran.out
    assert isinstance(demo_engine._pieces[0], LogPiece)
