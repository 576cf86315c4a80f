"""A universe: the whole of tpufn over simulated everything, one event at a time, on one seed.

The real functions and the real runner work over a store, a simulated cloud and scripted workers on a virtual clock.
What is on its way waits in the mail; `step` delivers one letter, or a tick, or lets time go on to the next thing that
happens anywhere. The same seed, scripts and trouble give the same story, to the last event.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from tpufn.codec import reference
from tpufn.domain.attempt import Attempt
from tpufn.domain.effects import Kind
from tpufn.domain.errors import CloudUnavailable, Stale
from tpufn.domain.events import Command, Event, Submission, Tick, Written
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import Job
from tpufn.domain.notes import Note
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot
from tpufn.flows.effects import PERFORMERS
from tpufn.flows.registry import woken_by
from tpufn.ports import Clock, Commit, Ports, Store
from tpufn.runner import Function, Performer, Runner
from tpufn.simulation.capacity import Capacity
from tpufn.simulation.clock import SkewedClock, VirtualClock
from tpufn.simulation.cloud import SimulatedCloud
from tpufn.simulation.scripted import ScriptedWorkers, ScriptOf
from tpufn.simulation.scripted_blobs import MemoryBlobs
from tpufn.simulation.scripted_script import HostScript, Script
from tpufn.simulation.universe_faults import Gate, SimulatedCrash, troubled
from tpufn.simulation.universe_mail import TRIGGER, Letter, Mail
from tpufn.wire import to_body

NONCE = "0123abcd"
_TRIGGERS = ("job", "slot", "attempt")
_TRACE = 400
"""How many lines of the trace are kept, unless told otherwise."""

WrapPorts = Callable[[Ports], Ports]
StoreOf = Callable[[Clock, Callable[[Commit], None]], Store]
"""(clock, listener of commits) -> store."""


def bucket_of(region: str) -> str:
    """The universe's bucket of a region."""
    return f"data-{region}"


def no_script(job: str, number: int, worker: int) -> Script:
    return Script()


class Universe:
    """`store` makes the store; `script` and `host` say what workers do; `capacity` what the cloud has.

    `gate.plan` plans trouble, `mail.weather` the fate of events; `after_step` is called after each step and raises what
    is wrong. `skew` is how far the process's own clock is ahead, `bucket_skew` the bucket's (seconds). `wrap` and
    `performers` put other parts in the place of ports and performers.
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        store: StoreOf,
        seed: int = 0,
        capacity: Capacity | None = None,
        policy: Policy | None = None,
        script: ScriptOf = no_script,
        host: Callable[[str, int], HostScript] = lambda tpu, worker: HostScript(),
        skew: float = 0.0,
        bucket_skew: float = 0.0,
        wrap: WrapPorts = lambda ports: ports,
        trace: int = _TRACE,
        performers: Mapping[Kind, Performer] = PERFORMERS,
    ) -> None:
        self._wrap, self._performers, self._skew = wrap, dict(performers), skew
        self.seed, self.policy, self.rng = seed, policy or Policy(), Random(seed)
        self.clock = VirtualClock()
        self.mail = Mail(self.clock, self.rng)
        self.gate = Gate(self.clock, meanwhile=self._meanwhile, tick=self._another_tick)
        self.trace: deque[str] = deque(maxlen=trace)
        self.after_step: Callable[[], None] = lambda: None
        self.after_commit: Callable[[Commit], None] = lambda commit: None
        self.watched: Callable[[Function], Function] = lambda function: function
        self.notes: list[Note] = []
        self.commits = self.crashes = self.stales = self.outages = self.moments = 0
        self.ticking = True
        self.alone = False  # one process at a time, as with the embedded engine: the next one takes over its claims
        self.store = store(self.clock, self._committed)
        self.blobs = MemoryBlobs(self.clock, lambda bucket: bucket.removeprefix("data-"), skew=bucket_skew)
        self.workers = ScriptedWorkers(self.clock, self.blobs, publish=self._heard, script=script, host=host)
        self.cloud = SimulatedCloud(capacity or Capacity(seed=seed), clock=self.clock, hosts=self.workers)
        self._ids = self._depth = 0
        self._next_tick = self._next_full = self.began = self.clock.now()
        self.runner = self._new_runner()
        self.declare(fleet)

    # What people do

    def declare(self, fleet: Fleet) -> None:
        """Apply a deployment file."""
        with self.store.cut() as cut:
            there = cut.fleet()
        revision, version = (there.revision, there.version) if there else (0, "")
        fresh = replace(fleet, nonce=NONCE, revision=revision + 1, version=version)
        self.store.commit(Commit(id=self._new_id(), writes=(fresh,)))

    def submit(self, *jobs: Mapping[str, Any], id: str = "") -> None:
        """Submit compiled jobs (see `job_body`) in one message."""
        submission = id or "-".join(str(job["id"]) for job in jobs)
        body = {"v": 1, "submission_id": submission, "jobs": [dict(job) for job in jobs]}
        self.mail.publish("submissions", to_body(Submission(id=submission, body=body)))

    def command(self, verb: str, target: str, **args: Any) -> None:
        command = Command(verb=verb, target=target, args=args, by="somebody", id=self._new_id())
        self.mail.publish("commands", to_body(command))

    # What happens

    def step(self) -> None:
        """Deliver one letter or tick; with none due, let time go on to the next thing that happens."""
        letter = self.mail.take()
        if letter is not None:
            self._deliver(letter)
        elif self.ticking and self.clock.now() >= self._next_tick:
            self.tick()
        else:
            self._wait()
        self.after_step()

    def tick(self) -> None:
        """The scheduler fires, in this weather: now and then not at all, or twice."""
        now, weather = self.clock.now(), self.mail.weather
        self._next_tick = now + self.policy.tick
        if self.rng.random() < weather.skip_tick:
            return
        full = now >= self._next_full
        if full:
            self._next_full = now + self.policy.idle_sweep
        for _ in range(2 if self.rng.random() < weather.double_tick else 1):
            self._tell(f"> tick{' (full)' if full else ''}")
            self._handle(Tick(full=full))

    def run_until(self, condition: Callable[[], bool], *, limit: float = 86_400.0) -> None:
        """Step until the condition holds. Raises AssertionError with the story after `limit` seconds."""
        end = self.clock.now() + limit
        while not condition():
            if self.clock.now() > end:
                raise AssertionError(f"not within {limit:.0f} s\n{self.story()}")
            self.step()

    def run_for(self, seconds: float) -> None:
        """Step until so much time has passed."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            self.step()

    def calm(self) -> None:
        """From here on nothing goes wrong any more."""
        self.gate.plan = lambda boundary: None
        self.gate.mend()
        self.mail.weather = replace(self.mail.weather, drop=0.0, double=0.0, late=0.0, skip_tick=0.0, double_tick=0.0)
        self.mail.hints = True
        self.cloud.faults.clear()

    # What is

    def job(self, id: str) -> Job:
        with self.store.cut() as cut:
            job = cut.job(id)
        assert job is not None, f"there is no job {id}"
        return job

    def attempts(self, job: str) -> tuple[Attempt, ...]:
        with self.store.cut() as cut:
            return tuple(cut.attempts(job))

    def slots(self) -> dict[str, Slot]:
        with self.store.cut() as cut:
            return {slot.name: slot for slot in cut.slots()}

    def events(self, *, job: str = "", of: str = "") -> list[str]:
        """The names of what happened, in order: all of it, a job's, or those that start with `of`."""
        return [n.event for n in self.notes if job in ("", n.job) and n.event.startswith(of)]

    def story(self) -> str:
        """What was delivered and what it did, for people."""
        return "\n".join(self.trace)

    # Inside

    def _deliver(self, letter: Letter) -> None:
        self._tell(f"> {letter.event}")
        if not self._handle(letter.event):
            self.mail.again(letter)

    def _handle(self, event: Event) -> bool:
        """Every function that the event wakes. False when it must come again."""
        done = True
        try:
            for function in woken_by(event):
                done &= self._run(function, event)
        except SimulatedCrash as crash:
            self._crashed(crash)
            return False
        return done

    def _run(self, function: Function, event: Event) -> bool:
        try:
            self.runner.handle(self.watched(function), event)
        except Stale as error:
            self.stales += 1
            self._tell(f"  stale: {error}")
            return False
        except CloudUnavailable as error:
            self.outages += 1
            self._tell(f"  outage: {error}")
            return False
        return True

    def _crashed(self, crash: SimulatedCrash) -> None:
        """The process is gone with everything that was only in its memory; another one starts."""
        self.crashes += 1
        self._tell(f"  CRASH at {crash}")
        self.mail.lose_hints()
        self.runner = self._new_runner()
        if self.alone:
            self.runner.take_over()

    def _wait(self) -> None:
        """Until the next thing that happens anywhere."""
        moments = [self.mail.next_at(), self.cloud.next_event_at(), self.workers.next_event_at()]
        if self.ticking:
            moments.append(self._next_tick)
        known = [moment for moment in moments if moment is not None]
        assert known, "nothing will ever happen again"
        self.clock.advance_to(min(known))
        self.moments += 1
        self.cloud.advance()
        self.workers.advance()

    def _meanwhile(self, seconds: float) -> None:
        """Others go on while one handler stands still: one step, or for so long. Never deeper than two handlers."""
        if self._depth:
            return
        self._depth += 1
        end = self.clock.now() + seconds
        try:
            self.step()
            while self.clock.now() < end:
                self.step()
        finally:
            self._depth -= 1

    def _another_tick(self) -> None:
        """Two ticks at once. Never deeper than two handlers."""
        if self._depth:
            return
        self._depth += 1
        try:
            self._tell("> tick (another one)")
            self._handle(Tick(full=True))
        finally:
            self._depth -= 1

    def _committed(self, commit: Commit) -> None:
        self.commits += 1
        self.after_commit(commit)
        for note in commit.notes:
            self.notes.append(note)
            self._tell(f"  {note.event} {note.subject}: {note.reason}")
        for document in commit.writes:
            kind, id = reference(document)
            if kind in _TRIGGERS:
                self.mail.post(TRIGGER, Written(kind=kind, id=id))

    def _heard(self, topic: str, body: Mapping[str, Any]) -> None:
        self.mail.publish(topic, body)

    def _tell(self, text: str) -> None:
        """One line of the trace. An event that did nothing gives way to the next one."""
        if text.startswith(">") and self.trace and self.trace[-1][10] == ">":
            self.trace.pop()
        self.trace.append(f"{self.clock.now() - self.began:9.2f} {text}")

    def _new_id(self) -> str:
        self._ids += 1
        return f"c{self._ids:06d}"

    def _new_runner(self) -> Runner:
        plain = Ports(
            store=self.store,
            bus=self.mail,
            cloud=self.cloud,
            workers=self.workers,
            blobs=self.blobs,
            clock=SkewedClock(self.clock, self._skew),
        )
        return Runner(
            troubled(self._wrap(plain), self.gate),
            policy=self.policy,
            performers=self._performers,
            new_id=self._new_id,
            jitter=lambda attempt: self.rng.uniform(0.0, 0.01 * 2**attempt),
        )


def job_body(id: str, tpu: tuple[str, ...], regions: tuple[str, ...], **keys: Any) -> dict[str, Any]:
    """A compiled job, as a submission carries it, with the universe's buckets."""
    buckets = {region: f"gs://{bucket_of(region)}" for region in regions}
    return {"id": id, "tpu": list(tpu), "buckets": buckets, "command": "python3 train.py", **keys}
