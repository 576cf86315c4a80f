"""Whatever is asked in whatever order: the sums add up, nothing leaks, and the seed alone decides."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tpufn.domain.accelerators import accelerator
from tpufn.domain.cloud import CreateOrder, NodeState
from tpufn.domain.errors import Conflict, NotFound, Refused, Unknown
from tpufn.simulation.capacity import Capacity, Place, Spread, Supply
from tpufn.simulation.clock import VirtualClock
from tpufn.simulation.cloud import SimulatedCloud
from tpufn.simulation.faults import FAULTS
from tpufn.simulation.hosts import NoHosts
from tpufn.simulation.life import Event, Phase

ZONES = ("us-east1-d", "europe-west4-a")
TYPES = ("v6e-8", "v6e-16", "v6e-32")
NAMES = tuple(f"t{i}" for i in range(8))
PLACES = tuple(Place("spot", "v6e", zone) for zone in ZONES)

names, zones, types = st.sampled_from(NAMES), st.sampled_from(ZONES), st.sampled_from(TYPES)


def order(name: str, zone: str, type: str, *, request_id: str = "", valid_for: float = 0.0) -> CreateOrder:
    return CreateOrder(
        name=name, zone=zone, type=type, runtime="r", model="spot", request_id=request_id, valid_for=valid_for
    )


class TheCloud(RuleBasedStateMachine):
    """Random calls, faults, preemptions and time against a small, contended cloud."""

    @initialize(
        seed=st.integers(0, 5),
        chips=st.sampled_from([0, 16, 48]),
        quota=st.sampled_from([32, 64, 128]),
        mortal=st.booleans(),
        patience=st.sampled_from([None, 20.0]),
    )
    def open(self, seed, chips, quota, mortal, patience):
        lifetime = Spread(5, 60) if mortal else None
        supply = Supply(chips=chips, lifetime=lifetime, notice=5.0, notice_rate=0.5, patience=patience)
        self.chips, self.quota = chips, quota
        self.clock, self.hosts = VirtualClock(), NoHosts()
        self.capacity = Capacity(
            seed=seed,
            supply=dict.fromkeys(PLACES, supply),
            quota={Place("spot", "v6e", place.where.rsplit("-", 1)[0]): quota for place in PLACES},
        )
        self.cloud = SimulatedCloud(self.capacity, clock=self.clock, hosts=self.hosts)
        self.ids = 0

    @rule(name=names, zone=zones, type=types, valid_for=st.sampled_from([0.0, 3.0]))
    def create(self, name, zone, type, valid_for):
        self.ids += 1
        taken = any((r.name, r.zone) == (name, zone) for r in self.cloud.snapshot().resources)
        try:
            self.cloud.create(order(name, zone, type, request_id=str(self.ids), valid_for=valid_for))
        except (Refused, Unknown):
            return
        assert not taken
        assert self.cloud.snapshot().calls["create"] == self.ids

    @rule(name=names, zone=zones)
    def delete(self, name, zone):
        try:
            self.cloud.delete(name, zone)
        except (Refused, Unknown):
            return
        (resource,) = [r for r in self.cloud.snapshot().resources if (r.name, r.zone) == (name, zone)]
        assert resource.phase is Phase.DELETING

    @rule(
        name=names, notice=st.sampled_from([None, 5.0]), state=st.sampled_from([NodeState.PREEMPTED, NodeState.HIDDEN])
    )
    def preempt(self, name, notice, state):
        try:
            self.cloud.preempt(name, notice=notice, end_state=state)
        except (NotFound, Conflict):
            return

    @rule(fault=st.sampled_from(sorted(FAULTS)), zone=zones)
    def inject(self, fault, zone):
        self.cloud.faults.inject(fault, zone=zone)

    @rule(seconds=st.floats(0.0, 30.0))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule(zone=zones)
    def look(self, zone):
        try:
            self.cloud.list(zone)
        except (Refused, Unknown):
            return

    @invariant()
    def chips_add_up(self):
        for place, used in self.cloud.snapshot().used.items():
            assert 0 < used <= self.chips, place

    @invariant()
    def quota_adds_up(self):
        snapshot = self.cloud.snapshot()
        for place, held in snapshot.held.items():
            if place in self.capacity.quota:
                assert held <= self.quota
            there = [r for r in snapshot.resources if place.where in {r.zone, r.region}]
            assert held == sum(accelerator(r.order.type).chips for r in there)

    @invariant()
    def nothing_waits_beside_free_chips(self):
        snapshot = self.cloud.snapshot()
        for resource in snapshot.resources:
            if resource.phase is Phase.WAITING and resource.ripe_at is not None:
                place = Place("spot", "v6e", resource.zone)
                assert snapshot.used.get(place, 0) + resource.chips > self.chips

    @invariant()
    def nothing_is_overdue(self):
        due = self.cloud.next_event_at()
        assert due is None or due > self.clock.now()

    @invariant()
    def views_are_consistent(self):
        for resource in self.cloud.snapshot().resources:
            view = resource.view()
            assert (view.request is not None) == resource.is_visible
            assert not view.is_ready or resource.holds_capacity
            assert not view.proves_stop or not resource.holds_capacity
            assert len(view.workers) <= resource.hosts

    @precondition(lambda self: self.cloud.snapshot().resources)
    @rule()
    def tear_down(self):
        """Deleting whatever shows up leaves nothing, not even hosts."""
        self.cloud.faults.clear()
        for _ in range(3):
            self.clock.advance(10_000)
            for resource in self.cloud.snapshot().resources:
                self.cloud.delete(resource.name, resource.zone)
        snapshot = self.cloud.snapshot()
        assert (snapshot.resources, snapshot.used, snapshot.held) == ((), {}, {})
        assert self.cloud.provisioned() == 0
        started = {name for what, name in self.hosts.told if what == "provision"}
        assert started <= {name for what, name in self.hosts.told if what == "destroy"}
        assert self.cloud.next_event_at() is None


TestTheCloud = TheCloud.TestCase
TestTheCloud.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

plans = st.lists(st.tuples(names, zones, types), min_size=1, max_size=8, unique_by=lambda plan: plan[0])


@settings(max_examples=60, deadline=None)
@given(plan=plans, data=st.data(), seed=st.integers(0, 100))
def test_the_seed_decides_and_not_the_order_of_calls(plan, data, seed):
    """Why: `--seed` promises the same story, and handlers run in any order."""
    shuffled = data.draw(st.permutations(plan))
    steps = data.draw(st.lists(st.floats(0.1, 20.0), max_size=6))

    def story(orders, pauses):
        clock = VirtualClock()
        supply = Supply(chips=48, lifetime=Spread(5, 50), patience=40.0, stockout_rate=0.1)
        cloud = SimulatedCloud(Capacity(seed=seed, supply=dict.fromkeys(PLACES, supply)), clock=clock)
        for name, zone, type in orders:
            cloud.create(order(name, zone, type, request_id=name))
        for pause in pauses:
            clock.advance(pause)
            cloud.list(ZONES[0])
        clock.advance_to(VirtualClock().now() + 1000)
        ends = cloud.snapshot()
        return [m for m in cloud.timeline() if m.event is not Event.APPEAR], ends.resources, ends.used

    assert story(plan, []) == story(shuffled, steps)


@settings(max_examples=30, deadline=None)
@given(first=st.integers(0, 1000), second=st.integers(0, 1000))
def test_another_seed_is_another_story(first, second):
    """Why: a seed that changes nothing would make the test above true of a constant."""

    def moments(seed):
        clock = VirtualClock()
        cloud = SimulatedCloud(Capacity(seed=seed), clock=clock)
        cloud.create(order("t", ZONES[0], "v6e-8"))
        clock.advance(100)
        return [m.at for m in cloud.timeline()]

    assert (moments(first) == moments(second)) == (first == second)
