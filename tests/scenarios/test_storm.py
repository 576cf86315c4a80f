"""Storms: random fleets, jobs, workers, people and clouds, with everything going wrong at once, then a calm.

A seed fixes everything. While it storms the invariants hold after every step; when it is calm again every job ends and
the cloud is empty after the idle timeout. A seed that fails prints its story; `pytest "...::test_storm[SEED]"` replays
it.
"""

from dataclasses import replace
from math import inf
from random import Random
from typing import Any

import pytest

from tpufn.adapters.memory import MemoryStore
from tpufn.domain.cloud import NodeState
from tpufn.domain.errors import Conflict, NotFound
from tpufn.domain.fleet import Fleet, Model, Pool, pool_id
from tpufn.domain.job import JobState
from tpufn.domain.orders import Phase
from tpufn.domain.slot import SlotState
from tpufn.simulation.capacity import Capacity, Spread, Supply
from tpufn.simulation.faults import FAULTS
from tpufn.simulation.scripted_script import HostScript, Script
from tpufn.simulation.universe import NONCE, Universe, job_body
from tpufn.simulation.universe_faults import Boundary, Trouble
from tpufn.simulation.universe_invariants import Invariants
from tpufn.simulation.universe_mail import Weather

SEEDS = range(150)
STORM = 3600.0
"""For how long it storms, in seconds."""
DAYS = 86_400.0
PLACES = (
    ("v4-8", "us-central2-b"),
    ("v4-16", "us-central2-b"),
    ("v6e-8", "us-east5-a"),
    ("v6e-8", "us-east5-b"),
    ("v6e-16", "us-east5-b"),
    ("v5litepod-8", "us-west4-a"),
)
HEALTHY_AFTER = 5
"""From this attempt on a job's workers do nothing strange: every storm must be able to end."""


class Storm:
    """One seed's world. Everything random is drawn from `rng`, in a fixed order."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(f"storm {seed}")
        self.seed, self.fleet = seed, self._fleet()
        self.universe = Universe(
            self.fleet,
            store=lambda clock, listener: MemoryStore(clock, on_commit=listener),
            seed=seed,
            capacity=self._capacity(),
            script=self._script,
            host=self._host,
        )
        self.universe.after_step = Invariants(self.universe)
        self.universe.mail.weather = self._weather()
        self.universe.gate.plan = self._trouble
        self.universe.gate.standstill = self.rng.choice([260.0, 400.0, 3600.0])
        self._harm = self.rng.choice([0.0, 0.01, 0.05, 0.15])
        self._jobs: list[str] = []
        self._set_up_badly: set[str] = set()

    def run(self) -> None:
        self._blow()
        self._calm_down()
        universe = self.universe
        universe.run_until(self._all_ended, limit=4 * DAYS)
        self._check_blame()
        universe.run_until(self._all_free, limit=DAYS)
        universe.run_for(2 * universe.policy.idle_sweep)
        assert self._all_free(), "something came back"

    def _check_blame(self) -> None:
        """A job fails as an application only where one of its own commands or set-ups really failed."""
        with self.universe.store.cut() as cut:
            failed = [job for job in cut.jobs_in((JobState.FAILED,), limit=1000) if job.application_failures]
        guilty = {run.job for run in self.universe.workers.runs() if run.code == 1} | self._set_up_badly
        assert {job.id for job in failed} <= guilty, self.universe.story()

    # The storm

    def _blow(self) -> None:
        """People and nature act at a few moments, several at once."""
        menu = (self._submit, self._fault, self._fault, self._late, self._preempt, self._command, self._command)
        moments = sorted(self.rng.uniform(0.0, STORM) for _ in range(self.rng.randint(3, 10)))
        self._submit()
        for moment in (*moments, STORM):
            self._wait_until(moment)
            for _ in range(self.rng.randint(1, 4)):
                self.rng.choice(menu)()
        self._redeclare()
        self._wait_until(STORM + 300.0)

    def _wait_until(self, moment: float) -> None:
        universe = self.universe
        universe.run_for(max(0.0, universe.began + moment - universe.clock.now()))

    def _submit(self) -> None:
        rng = self.rng
        types = tuple(sorted({p.type for p in rng.sample(self.fleet.pools, rng.randint(1, len(self.fleet.pools)))}))
        regions = tuple(sorted({p.region for p in self.fleet.pools if p.type in types}))
        keys: dict[str, Any] = {"priority": rng.choice(["low", "normal", "high"]), "max_runtime": "2h"}
        if rng.random() < 0.2:
            keys["queue_deadline"] = "20m"
        if rng.random() < 0.2:
            keys["max_runtime"] = "20m"
        if rng.random() < 0.3:
            keys["retries"] = {"application": {"max": 2}, "infrastructure": rng.choice([1, 10])}
        id = f"job-{len(self._jobs)}"
        self._jobs.append(id)
        self.universe.submit(job_body(id, types, regions, **keys))

    def _fault(self) -> None:
        rng = self.rng
        fault = rng.choice(sorted(FAULTS))
        zone = rng.choice(["", *self.fleet.zones])
        times = None if fault in ("zone-dead", "zone-forbidden") and zone else rng.randint(1, 3)
        seconds = rng.choice([None, 30.0, 700.0])
        self.universe.cloud.faults.inject(fault, zone=zone, times=times, seconds=seconds)

    def _late(self) -> None:
        """Creates that take effect though they time out, and then a refusal: a grant that nobody believes in."""
        faults = self.universe.cloud.faults
        faults.inject(self.rng.choice(["timeout-late", "timeout-applied"]), call="create", times=2)
        self.universe.run_for(self.rng.choice([0.0, 30.0]))
        faults.inject("rate-limit", call="create", times=2)

    def _preempt(self) -> None:
        rng, cloud = self.rng, self.universe.cloud
        there = [r.name for r in cloud.snapshot().resources]
        if not there:
            return
        try:
            cloud.preempt(rng.choice(there), notice=rng.choice([None, 5.0, 30.0]), lag=rng.choice([0.0, 60.0, 300.0]))
        except (Conflict, NotFound):
            return

    def _command(self) -> None:
        rng, universe = self.rng, self.universe
        verb = rng.choice(
            ["cancel", "interrupt", "set-priority", "retry", "hold", "queue", "race", "release", "delete"]
        )
        if verb in ("cancel", "set-priority", "retry"):
            target = rng.choice(self._jobs)
            args = {"set-priority": {"priority": "high"}, "retry": {"as": f"{target}-again"}}.get(verb, {})
        else:
            slots = universe.slots()
            busy = [name for name, slot in slots.items() if slot.lease]
            target, args = rng.choice(busy if busy and rng.random() < 0.5 else sorted(slots) or ["nowhere"]), {}
        universe.command(verb, target, **args)

    def _redeclare(self) -> None:
        """A deployment file in which a pool is missing, or everything is back."""
        pools = self.fleet.pools
        kept = tuple(p for p in pools if self.rng.random() < 0.7) or pools
        self.universe.declare(replace(self.fleet, pools=kept))

    def _trouble(self, boundary: Boundary) -> Trouble | None:
        return self.rng.choice(list(Trouble)) if self.rng.random() < self._harm else None

    # The calm

    def _calm_down(self) -> None:
        """Nothing goes wrong any more, nobody holds anything, and the deployment file is whole."""
        universe = self.universe
        universe.calm()
        universe.run_until(lambda: not universe.mail.durable)
        universe.declare(replace(self.fleet, pools=tuple(replace(p, keep_warm=0) for p in self.fleet.pools)))
        for slot in universe.slots().values():
            if slot.hold:
                universe.command("release", slot.name)

    def _all_ended(self) -> bool:
        with self.universe.store.cut() as cut:
            found = {job.id: job for job in cut.jobs_in(tuple(JobState), limit=1000)}
        return all(id in found for id in self._jobs) and all(job.is_terminal for job in found.values())

    def _all_free(self) -> bool:
        at_rest = (SlotState.FREE, SlotState.RETIRED)
        ours = [r for r in self.universe.cloud.snapshot().resources if r.order.labels.get("tpufn-nonce") == NONCE]
        return not ours and all(slot.state in at_rest for slot in self.universe.slots().values())

    # What is drawn

    def _fleet(self) -> Fleet:
        rng = self.rng
        pools = tuple(
            Pool(
                id=pool_id(Model.SPOT, type, zone),
                type=type,
                zone=zone,
                count=rng.randint(1, 2),
                runtime="any",
                chip_limit=rng.choice([0, 0, 16]),
                keep_warm=rng.choice([0, 0, 0, 1]),
            )
            for type, zone in sorted(rng.sample(PLACES, rng.randint(1, 4)))
        )
        limits = {p.scope: p.chip_limit for p in pools}
        return Fleet(name="lab", pools=tuple(replace(p, chip_limit=limits[p.scope]) for p in pools), idle_timeout=600.0)

    def _capacity(self) -> Capacity:
        """Fast or slow, scarce or not; Spot lifetimes of the field's or none."""
        rng = self.rng
        supply = Supply(
            chips=rng.choice([None, None, 16]),
            lifetime=rng.choice([None, Spread(300.0, 1500.0)]),
            notice_rate=rng.choice([0.0, 0.5, 1.0]),
            stockout_rate=rng.choice([0.0, 0.0, 0.3]),
            patience=rng.choice([None, 600.0]),
            end_states={NodeState.PREEMPTED: 2.0, NodeState.TERMINATED: 1.0, NodeState.REPAIRING: 1.0},
        )
        return Capacity(seed=self.seed, speed=rng.choice([1.0, 0.1, 0.03]), default=supply)

    def _weather(self) -> Weather:
        rng = self.rng
        return Weather(
            drop=rng.choice([0.0, 0.0, 0.3, 1.0]),
            double=rng.choice([0.0, 0.3]),
            late=rng.choice([0.0, 0.1]),
            lateness=rng.choice([5.0, 3600.0]),
            shuffle=rng.random() < 0.5,
            skip_tick=rng.choice([0.0, 0.3]),
            double_tick=rng.choice([0.0, 0.3]),
        )

    def _script(self, job: str, number: int, worker: int) -> Script:
        run = Random(f"{self.seed} {job} run").choice([20.0, 300.0, 1500.0, 2400.0])
        plain = Script(run=run, checkpoint=60.0)
        attempt = Random(f"{self.seed} {job} {number}")
        if number >= HEALTHY_AFTER or attempt.random() < 0.5:
            return plain
        victim, change = attempt.choice([0, 0, 1, 3]), attempt.choice(_STRANGE)
        if change.get("fails_in") is Phase.SETUP:
            self._set_up_badly.add(job)
        words = attempt.choice(["sibling-death", ""])
        sibling = replace(plain, sibling_death=attempt.choice([5.0, 5.0, inf]), sibling_signature=words)
        return replace(sibling, **change) if worker == victim or attempt.random() < 0.3 else sibling

    def _host(self, tpu: str, worker: int) -> HostScript:
        rng = Random(f"{self.seed} {tpu} {worker}")
        if self.universe.clock.now() > self.universe.began + STORM or rng.random() < 0.8:
            return HostScript()
        return HostScript(boot=rng.choice([0.0, 180.0]), is_deaf=rng.random() < 0.3, lost_launches=rng.randint(0, 4))


_STRANGE: tuple[dict[str, Any], ...] = (
    {"code": 1},
    {"code": 1, "signature": "device-busy"},
    {"code": 143},
    {"fails_in": Phase.DEVICE},
    {"fails_in": Phase.SETUP},
    {"prepare": inf},
    {"accept": 400.0},
    {"run": inf},
    {"on_term": 45.0},
    {"term_code": 0},
    {"clean": False},
    {"closing": 200.0},
    {"dies_at": 10.0},
    {"vanishes_at": 15.0},
    {"vanishes_at": 100.0},
    {"silent_at": 10.0},
    {"silent_at": 10.0, "silent_for": 240.0},
    {"silent_at": 10.0, "silent_for": 5.0},
    {"mute_at": 5.0},
    {"hears_notice": False},
)


@pytest.mark.parametrize("seed", SEEDS)
def test_storm(seed: int) -> None:
    """Whatever happens, nothing is lost, doubled or left behind."""
    Storm(seed).run()
