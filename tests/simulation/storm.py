"""Storms: random fleets, jobs, workers, people and clouds, with everything going wrong at once, then a calm.

A seed fixes everything. While it storms the invariants hold after every step; when it is calm again every job ends and
the cloud is empty after the idle timeout. A storm consists of named parts (acts, troubles, kinds of weather), of which
a replay may keep only some: that is how a failing one is shrunk.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from random import Random

from tpufn.adapters.memory import MemoryStore
from tpufn.domain.attempt import Outcome
from tpufn.domain.cloud import LABEL_NONCE
from tpufn.domain.errors import Conflict, NotFound, Refused, Unknown
from tpufn.domain.fleet import Model
from tpufn.domain.job import JobState
from tpufn.domain.orders import Phase
from tpufn.domain.policy import Policy
from tpufn.domain.slot import SlotState
from tpufn.flows.effects import PERFORMERS
from tpufn.ports import Clock, Ports
from tpufn.simulation.universe import NONCE, Universe
from tpufn.simulation.universe_faults import Boundary, Trouble, When
from tpufn.simulation.universe_invariants import Invariants, Violation

from . import drawn
from .acts import MENU, submit
from .edges import Edges

STORM = 3600.0
"""For how long it storms, in seconds."""
DAYS = 86_400.0
_AT_REST = (SlotState.FREE, SlotState.RETIRED)
_TROUBLES = tuple(Trouble)
_EFFECTS = ("create", "delete", "launch", "stop")
"""Where trouble strikes more often: there are far fewer of them than commits."""


def _same(ports: Ports) -> Ports:
    return ports


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The system under test, each part replaceable: this is where a mutation goes in."""

    policy: Policy = field(default_factory=Policy)
    performers: dict = field(default_factory=lambda: dict(PERFORMERS))
    wrap: object = _same


class Storm:
    """One seed's world. `keep`: the names of the only parts that take place (None: all). `struck` collects the names
    of those that did. `trace`: how many lines of its story are kept."""

    def __init__(
        self, seed: int, *, keep: Collection[str] | None = None, parts: Parts | None = None, trace: int = 400
    ) -> None:
        parts = parts or Parts()
        self.seed, self.keep = seed, None if keep is None else frozenset(keep)
        self.struck: list[str] = []
        self.jobs: list[str] = []
        self.edges = Edges()
        self._renewed_at = 0.0
        self.fleet = drawn.fleet(seed)
        skew, bucket_skew = drawn.skews(seed)
        self.universe = Universe(
            self.fleet,
            store=_in_memory,
            seed=seed,
            capacity=drawn.capacity(seed),
            policy=parts.policy,
            script=lambda job, number, worker: drawn.script(seed, job, number, worker),
            host=self._host,
            skew=skew,
            bucket_skew=bucket_skew,
            performers=parts.performers,
            wrap=parts.wrap,
            trace=trace,
        )
        self._set_up()

    def _set_up(self) -> None:
        universe, rng = self.universe, drawn.source(self.seed, "set-up")
        self.invariants = Invariants(universe)
        universe.after_step, universe.watched = self.invariants, self.invariants.watching
        universe.after_commit = self.edges
        universe.mail.weather = drawn.weather(self.seed, self.keeps)
        universe.gate.standstill = rng.choice([260.0, 400.0, 3600.0])
        universe.gate.outage = rng.choice([20.0, 180.0])
        universe.gate.plan = self._trouble
        self._harm = rng.choice([0.0, 0.01, 0.05, 0.15])
        if any(p.existing for p in self.fleet.pools):
            self.give_mine()

    def run(self) -> None:
        """Raises AssertionError, with the story, where something is wrong."""
        self._blow()
        self._calm_down()
        universe = self.universe
        universe.run_until(self._all_ended, limit=4 * DAYS)
        self._check_blame()
        universe.run_until(self._all_free, limit=DAYS)
        universe.run_for(2 * universe.policy.idle_sweep)
        if not self._all_free():
            raise Violation(f"something came back\n{universe.story()}")

    def keeps(self, part: str) -> bool:
        """Whether this part takes place."""
        kept = self.keep is None or part in self.keep
        if kept:
            self.struck.append(part)
        return kept

    # The storm

    def _blow(self) -> None:
        """People and nature act at a few moments, several at once."""
        submit(self, drawn.source(self.seed, "first"))
        for index, (moment, act) in enumerate(self._schedule()):
            self._wait_until(moment)
            if self.keeps(f"act:{index}:{act.__name__}"):
                act(self, drawn.source(self.seed, "act", index))
        self._wait_until(STORM + 300.0)

    def _schedule(self):
        rng = drawn.source(self.seed, "schedule")
        moments = sorted(rng.uniform(0.0, STORM) for _ in range(rng.randint(3, 10)))
        return [(m, rng.choice(MENU)) for m in (*moments, STORM) for _ in range(rng.randint(1, 4))]

    def _wait_until(self, moment: float) -> None:
        universe = self.universe
        universe.run_for(max(0.0, universe.began + moment - universe.clock.now()))

    def _trouble(self, boundary: Boundary) -> Trouble | None:
        if not self._harm:
            return None
        rng = Random(hash((self.seed, boundary.number, boundary.when is When.AFTER)))
        effect = boundary.what in _EFFECTS
        if rng.random() >= self._harm * (3 if effect else 1):
            return None
        trouble = rng.choice((*_TROUBLES, Trouble.FREEZE, Trouble.FREEZE) if effect else _TROUBLES)
        return trouble if self.keeps(f"trouble:{boundary.number}:{trouble}") else None

    def _host(self, tpu: str, worker: int):
        calm = self.universe.clock.now() > self.universe.began + STORM
        return drawn.HostScript() if calm else drawn.host(self.seed, tpu, worker)

    # A TPU that was there before

    def has_mine(self) -> bool:
        return any(r.name == drawn.MINE[0] for r in self.universe.cloud.snapshot().resources)

    def give_mine(self) -> None:
        name, type, zone = drawn.MINE
        if not self.has_mine():
            self.universe.cloud.add_foreign(name, zone, type, model=Model.ON_DEMAND.value)
            self.universe.workers.provision(name, zone, 1)

    def take_mine(self) -> None:
        name, _, zone = drawn.MINE
        try:
            self.universe.cloud.delete(name, zone)
        except (Conflict, NotFound, Refused, Unknown):
            return

    # The calm

    def _calm_down(self) -> None:
        """Nothing goes wrong any more, nobody holds anything, and the deployment file is whole."""
        universe = self.universe
        universe.calm()
        self.invariants.expect_order(within=universe.policy.idle_sweep + 3 * universe.policy.tick)
        universe.run_until(lambda: not universe.mail.durable)
        universe.declare(replace(self.fleet, pools=tuple(replace(p, keep_warm=0) for p in self.fleet.pools)))
        self._renew_mine()
        for slot in universe.slots().values():
            if slot.hold:
                universe.command("release", slot.name)

    def _renew_mine(self) -> None:
        """A reclaimed one does not come back by itself: its owner makes it again."""
        if any(p.existing for p in self.fleet.pools):
            self.take_mine()
            self.universe.run_until(lambda: not self.has_mine())
            self.give_mine()

    def _mind_mine(self) -> None:
        """Nothing proves that a silent or unclean host of somebody else's TPU is free of us, until its owner makes it
        again: this one does so after an hour."""
        slot, now = self.universe.slots().get(drawn.MINE[0]), self.universe.clock.now()
        if slot is not None and slot.lease is not None and now > max(slot.since, self._renewed_at) + STORM:
            self._renewed_at = now
            self.take_mine()
        if slot is not None and now > self._renewed_at + 600.0:
            self.give_mine()

    def _all_ended(self) -> bool:
        self._mind_mine()
        with self.universe.store.cut() as cut:
            found = {job.id: job for job in cut.jobs_in(tuple(JobState), limit=1000)}
        return all(id in found for id in self.jobs) and all(job.is_terminal for job in found.values())

    def _all_free(self) -> bool:
        """Nothing of ours in the cloud, every slot at rest; an `existing` TPU stays as it is."""
        there = self.universe.cloud.snapshot().resources
        slots = (s for s in self.universe.slots().values() if not s.adopted)
        ours = any(r.order.labels.get(LABEL_NONCE) == NONCE for r in there)
        return not ours and all(slot.state in _AT_REST for slot in slots)

    def _check_blame(self) -> None:
        """An attempt fails as an application only where one of its own commands, or its set-up, really failed."""
        guilty = {run.attempt for run in self.universe.workers.runs() if run.code == 1}
        failed = (a for job in self._known() for a in self.universe.attempts(job) if a.outcome is Outcome.FAILED)
        wrong = [a.id for a in failed if a.id not in guilty and not self._is_set_up_badly(a.job, a.number)]
        if wrong:
            raise Violation(f"{', '.join(wrong)} failed as applications, and are not\n{self.universe.story()}")

    def _known(self) -> list[str]:
        with self.universe.store.cut() as cut:
            return [job.id for job in cut.jobs_in(tuple(JobState), limit=1000)]

    def _is_set_up_badly(self, job: str, number: int) -> bool:
        scripts = (drawn.script(self.seed, job, number, worker) for worker in range(4))
        return any(script.fails_in is Phase.SETUP for script in scripts)


def _in_memory(clock: Clock, listener) -> MemoryStore:
    return MemoryStore(clock, on_commit=listener)
