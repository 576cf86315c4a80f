"""A plan is the real thing on a virtual clock: it repeats, it loses no work, and it counts what was paid for."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tpufn.domain.capacity import CreateOutcome
from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet, Mode, Model, Pool, pool_id
from tpufn.domain.job import Priority
from tpufn.planning import capacity
from tpufn.planning.page import page
from tpufn.planning.play import play
from tpufn.planning.tally import Tally
from tpufn.planning.workload import Planned, planned, read_workload
from tpufn.simulation.capacity import Place, Spread
from tpufn.simulation.life import Event

JOBS = "rate: {per_hour: 2, mix: [{share: 3, tpu: v6e-8, duration: 20m, duration_max: 2h}, {tpu: any, duration: 1h}]}\n"
HOUR = 3600.0


def fleet(count: int = 2, model: Model = Model.SPOT) -> Fleet:
    pools = tuple(
        Pool(id=pool_id(model, "v6e-8", zone), type="v6e-8", zone=zone, count=count, model=model, runtime="any")
        for zone in ("us-east5-a", "us-east5-b")
    )
    return Fleet(name="lab", project="p", mode=Mode.SANDBOX, pools=pools, idle_timeout=600.0)


def job(id: str, at: float = 0.0, hours: float = 1.0, **more: Any) -> Planned:
    return Planned(id=id, at=at, tpu=("v6e-8",), duration=hours * HOUR, checkpoint=600.0, **more)


def run(jobs: tuple[Planned, ...], the_fleet: Fleet | None = None, *, days: float = 1.0, seed: int = 1) -> Tally:
    chosen = the_fleet or fleet()
    return play(chosen, jobs, capacity.usual(chosen, seed=seed), days=days, seed=seed)


@pytest.fixture(scope="module")
def busy() -> Tally:
    """Thirty jobs on four slots that are preempted now and then."""
    return run(tuple(job(f"j{n:02}", at=n * 900.0, hours=2.0) for n in range(30)), days=3.0)


def test_the_same_seed_is_the_same_plan() -> None:
    jobs = tuple(job(f"j{n}", at=n * 300.0) for n in range(8))
    first, second, other = run(jobs), run(jobs), run(jobs, seed=2)
    assert first.spans == second.spans
    assert first.spans != other.spans


def test_every_job_gets_its_work_done(busy: Tally) -> None:
    """Preempted or not: busy time is at least the work, at most what lost checkpoints and starts add."""
    summary = busy.summary()
    assert (summary.jobs, summary.started, summary.finished) == (30, 30, 30)
    assert summary.preemptions > 0
    worked = {id: sum(s.end - s.start for s in busy.spans if s.job == id) for id in busy.ended}
    lost = 600.0 + 120.0
    assert all(seconds >= 2 * HOUR for seconds in worked.values())
    assert sum(worked.values()) <= 30 * (2 * HOUR + 120.0) + summary.preemptions * lost


def test_a_slot_does_one_thing_at_a_time(busy: Tally) -> None:
    for name in {span.slot for span in busy.spans}:
        mine = sorted((s.start, s.end) for s in busy.spans if s.slot == name)
        assert all(end <= start for (_, end), (start, _) in pairwise(mine))


def test_what_is_paid_for_is_what_was_there(busy: Tally) -> None:
    summary = busy.summary()
    assert summary.cost == pytest.approx(sum(p.cost for p in summary.pools))
    assert summary.chip_hours == pytest.approx(8 * sum(p.hours for p in summary.pools))
    assert 0.5 < summary.utilisation < 1.0
    assert all(p.busy <= p.hours for p in summary.pools)


def test_on_demand_is_not_preempted() -> None:
    jobs = tuple(job(f"j{n}", hours=30.0) for n in range(4))
    assert run(jobs, fleet(model=Model.ON_DEMAND), days=2.0).summary().preemptions == 0


def test_priority_waits_less() -> None:
    """A full fleet: the urgent ones that come last start before the rest that waits."""
    low = [job(f"low{n:02}", hours=3.0, priority=Priority.LOW) for n in range(16)]
    high = [job(f"high{n}", at=HOUR, hours=3.0, priority=Priority.HIGH) for n in range(4)]
    started = run((*low, *high), days=3.0).started
    waited = sorted(at for id, at in started.items() if id.startswith("low"))
    assert max(at for id, at in started.items() if id.startswith("high")) < waited[9]


def test_idle_tpus_are_given_back_in_time() -> None:
    """Ten minutes after the job, to the grid of the plan: ticks are not the measure of what is paid for."""
    tally = run((job("j"),), days=0.5)
    idle = [s.end - s.start for s in tally.spans if s.state == "idle" and s.start > HOUR]
    assert idle
    assert max(idle) <= 600.0 + 300.0


def test_jobs_that_nothing_can_run() -> None:
    with pytest.raises(InputError, match="lab has no pool for any of the 1 jobs"):
        run((Planned(id="x", at=0.0, tpu=("v4-8",), duration=60.0, checkpoint=60.0),))


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[float] = []
    play(fleet(), (job("j"),), capacity.usual(fleet(), seed=1), days=1.0, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) > 5


# The workload file


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    return path


def test_single_jobs(tmp_path: Path) -> None:
    one = "{at: 2h, tpu: v5e-16, duration: 6h, priority: high, count: 2}"
    text = f"jobs: [{one}, {{tpu: [v6e-8, v4-8], duration: 30m}}]\n"
    first, second, third = planned(read_workload(written(tmp_path, text)), days=1, seed=1)
    assert (first.at, first.tpu, first.duration, first.id) == (0.0, ("v6e-8", "v4-8"), 1800.0, "job-00003")
    assert (second.at, second.tpu, second.priority) == (7200.0, ("v5litepod-16",), Priority.HIGH)
    assert third.id == "job-00002"


def test_a_rate(tmp_path: Path) -> None:
    """About as many as it says, spread over the days, durations between the two ends."""
    jobs = planned(read_workload(written(tmp_path, JOBS)), days=50, seed=1)
    assert len(jobs) == pytest.approx(2 * 24 * 50, rel=0.1)
    ranged = [j.duration for j in jobs if j.tpu == ("v6e-8",)]
    assert len(ranged) / len(jobs) == pytest.approx(0.75, abs=0.05)
    assert 1200.0 <= min(ranged) < 1500.0
    assert 6000.0 < max(ranged) <= 7200.0
    assert jobs == planned(read_workload(written(tmp_path, JOBS)), days=50, seed=1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jobs: []\n", "needs either `jobs`, a list, or `rate`"),
        ("jobs: [{tpu: v6e-20, duration: 1h}]\n", "there is no v6e-20"),
        ("jobs: [{tpu: v6e-8}]\n", "duration: is missing"),
        ("jobs: [{tpu: v6e-8, duration: 90}]\n", "write 90s"),
        ("rate: {per_hour: -1, mix: [{tpu: v6e-8, duration: 1h}]}\n", "more than 0"),
        ("rate: {per_hour: 1, mix: []}\n", "is empty"),
        ("jbos: []\n", "unknown key"),
    ],
)
def test_a_wrong_workload(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        read_workload(written(tmp_path, text))


# Capacity

SPOT = Place("spot", "v6e", "us-east5-a")


def test_capacity_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "capacity.yaml"
    path.write_text("default: {stockout_rate: 0.1}\nspot:v6e:us-east5-a: {chips: 64, grant: [5, 10]}\n")
    found = capacity.given(path, fleet(), seed=1)
    assert (found.at(SPOT).chips, found.at(SPOT).delays[Event.GRANT]) == (64, Spread(5.0, 10.0))
    assert found.at(SPOT).stockout_rate == found.at(Place("spot", "v6e", "us-east5-b")).stockout_rate == 0.1


@pytest.mark.parametrize(
    "text", ["zone: {}\n", "default: {chps: 1}\n", "default: {grant: [9, 1]}\n", "default: {chips: x}\n"]
)
def test_a_wrong_capacity_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "capacity.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape("capacity.yaml: ")):
        capacity.given(path, fleet(), seed=1)


def test_capacity_from_history() -> None:
    """Where there is enough of it; elsewhere the usual stays."""
    pool = fleet().pools[0].id
    history = [
        CreateOutcome(id=str(n), pool=pool, slot="s", at=float(n), result="granted", waited=60.0 + n) for n in range(8)
    ]
    history += [CreateOutcome(id="x", pool=pool, slot="s", at=9.0, result="stockout", waited=1.0)] * 2
    found = capacity.fitted(history, fleet(), seed=1)
    assert found.at(SPOT).delays[Event.GRANT] == Spread(60.0, 67.0)
    assert found.at(SPOT).stockout_rate == pytest.approx(0.2)
    assert found.at(Place("spot", "v6e", "us-east5-b")) == capacity.DEFAULT


# What is shown


def test_the_page_is_whole(busy: Tally) -> None:
    """Well-formed charts with a bar for each span; nothing is fetched from anywhere."""
    text = page("a <plan>", [("one", busy), ("two", busy)])
    assert "a &lt;plan&gt;" in text
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(charts) == 4
    gantt = ElementTree.fromstring(re.sub(r"class=(\w+)", r'class="\1"', charts[1]))
    assert len(gantt.findall(".//{http://www.w3.org/2000/svg}rect")) == len(busy.spans)
    assert not re.search(r"(src|href)=|url\(", text)
