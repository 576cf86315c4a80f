"""The matching against brute force: largest, best by rank, and honest about what is closed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from tpufn.decide.bins import affinity, by_price, hourly, idle_bins, near_bins, pick_slot
from tpufn.decide.matching import Bin, Matching
from tpufn.domain.fleet import Model, slot_key

from .builders import EAST, EUROPE, NOW, fleet, job, pool, quick, slot

KEYS = "abcde"
Wish = tuple[str, ...]


@dataclass
class Case:
    bins: list[Bin]
    jobs: list[Wish]  # in rank order: job i is named "j<i>"

    def names(self) -> list[str]:
        return [f"j{i}" for i in range(len(self.jobs))]


wishes = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def cases(draw: st.DrawFn, *, jobs: int = 7) -> Case:
    """Pools of alike places, single places that also answer to a name, and jobs that want keys or a name."""
    bins = []
    for i in range(draw(st.integers(0, 4))):
        keys = frozenset(draw(st.sets(st.sampled_from(KEYS), min_size=1, max_size=2)))
        bins.append(Bin(name=f"b{i}", keys=keys, room=draw(st.integers(0, 2))))
        if draw(st.booleans()):
            bins.append(Bin(name=f"slot:b{i}-1", keys=keys | {f"slot:b{i}-1"}, room=1))
    names = st.sampled_from([f"slot:b{i}-1" for i in range(4)])
    wish = st.one_of(wishes, wishes, wishes, names.map(lambda n: (n, "named")))
    return Case(bins=bins, jobs=draw(st.lists(wish, max_size=jobs)))


def fits(wish: Wish, bin: Bin) -> bool:
    return not bin.keys.isdisjoint(wish)


def can_place(bins: Sequence[Bin], jobs: Sequence[Wish]) -> bool:
    """Whether all of these jobs fit together, by trying every way."""

    def go(rest: Sequence[Wish], left: tuple[int, ...]) -> bool:
        if not rest:
            return True
        return any(
            left[i] and fits(rest[0], b) and go(rest[1:], (*left[:i], left[i] - 1, *left[i + 1 :]))
            for i, b in enumerate(bins)
        )

    return go(jobs, tuple(b.room for b in bins))


def best_by_rank(case: Case) -> set[int]:
    """The lexicographically best set among *all* sets that can be placed: not a greedy."""
    every = (
        chosen
        for size in range(len(case.jobs) + 1)
        for chosen in combinations(range(len(case.jobs)), size)
        if can_place(case.bins, [case.jobs[i] for i in chosen])
    )
    return set(min(every, key=lambda chosen: [i not in chosen for i in range(len(case.jobs))]))


def run(case: Case, near: dict[int, set[str]] | None = None) -> tuple[Matching, set[int]]:
    matching, placed = Matching(case.bins), set()
    for i, wish in enumerate(case.jobs):
        if matching.offer(f"j{i}", wish, near=(near or {}).get(i, set())):
            placed.add(i)
    return matching, placed


@quick
@given(cases())
def test_the_placed_jobs_are_the_best_by_rank(case: Case) -> None:
    """Why: a better-ranked job never gives way to a worse one, and never to two of them."""
    assert run(case)[1] == best_by_rank(case)


@quick
@given(cases(jobs=12))
def test_nobody_could_place_more_jobs(case: Case) -> None:
    """Why: an idle TPU beside a job that could have had it is money burnt."""
    places = [b for b in case.bins for _ in range(b.room)]
    most = 0
    if places and case.jobs:
        cost = [[-int(fits(wish, b)) for b in places] for wish in case.jobs]
        rows, columns = linear_sum_assignment(cost)
        most = -sum(cost[r][c] for r, c in zip(rows, columns, strict=True))
    assert len(run(case)[1]) == most


@quick
@given(cases(jobs=12))
def test_nothing_is_placed_twice_nor_over_room_nor_where_it_does_not_fit(case: Case) -> None:
    """Why: one TPU holds one job."""
    matching, placed = run(case)
    where = list(matching.placed())
    room, keys = {b.name: b.room for b in case.bins}, {b.name: b for b in case.bins}
    assert sorted(job for job, _ in where) == sorted(f"j{i}" for i in placed)
    assert all(count <= room[name] for name, count in Counter(name for _, name in where).items())
    assert all(fits(case.jobs[int(job[1:])], keys[name]) for job, name in where)


@quick
@given(cases(), st.lists(wishes, max_size=4))
def test_a_job_outside_the_open_keys_could_never_be_placed(case: Case, later: list[Wish]) -> None:
    """Why: the queue is read by open keys alone, so whatever they leave out must be hopeless, now and later."""
    matching, placed = Matching(case.bins), list[Wish]()
    for i, wish in enumerate([*case.jobs, *later]):
        hopeless = matching.open_keys().isdisjoint(wish)
        offered = matching.offer(f"j{i}", wish)
        assert not (hopeless and offered)
        if hopeless:
            assert not can_place(case.bins, [*placed, wish])
        if offered:
            placed.append(wish)


@quick
@given(cases(jobs=12))
def test_closed_keys_stay_closed(case: Case) -> None:
    """Why: the cursor moves on: a key that opened again would hide the jobs before it."""
    matching = Matching(case.bins)
    before = matching.open_keys()
    for i, wish in enumerate(case.jobs):
        matching.offer(f"j{i}", wish)
        assert matching.open_keys() <= before
        before = matching.open_keys()


@quick
@given(cases(jobs=12))
def test_failed_searches_are_fewer_than_bins(case: Case) -> None:
    """Why: reads are the jobs placed plus a page a closing, so each vain search must close a bin."""
    matching = Matching(case.bins)
    vain = 0
    for i, wish in enumerate(case.jobs):
        looked_possible = not matching.open_keys().isdisjoint(wish)
        vain += looked_possible and not matching.offer(f"j{i}", wish)
    assert vain <= len(case.bins)


@quick
@given(cases(), st.data())
def test_nearness_and_price_only_change_the_order_of_tries(case: Case, data: st.DataObject) -> None:
    """Why: a warm cache or a lower price must never cost a better-ranked job its place."""
    names = [b.name for b in case.bins] or ["none"]
    near = {i: data.draw(st.sets(st.sampled_from(names))) for i in range(len(case.jobs))}
    shuffled = Case(bins=data.draw(st.permutations(case.bins)), jobs=case.jobs)
    assert run(case, near)[1] == run(shuffled)[1] == run(case)[1]


def test_a_flexible_job_moves_to_make_room() -> None:
    """Why: the one that can run anywhere gives way to the one that cannot, and both run."""
    bins = [Bin(name="cheap", keys=frozenset("ab"), room=1), Bin(name="dear", keys=frozenset("b"), room=1)]
    matching = Matching(bins)
    assert matching.offer("flexible", ("a", "b"))
    assert dict(matching.placed()) == {"flexible": "cheap"}
    assert matching.offer("strict", ("a",))
    assert dict(matching.placed()) == {"flexible": "dear", "strict": "cheap"}


def test_a_near_bin_is_tried_first() -> None:
    """Why: the bundle and the caches are there already."""
    bins = [Bin(name=name, keys=frozenset("a"), room=1) for name in ("cheap", "near")]
    matching = Matching(bins)
    matching.offer("j", ("a",), near={"near"})
    assert dict(matching.placed()) == {"j": "near"}


def test_without_bins_every_key_is_closed() -> None:
    """Why: with no idle TPU the queue is not read at all."""
    matching = Matching([])
    assert matching.open_keys() == frozenset()
    assert not matching.offer("j", ("a",))


# The idle slots as bins

SMALL, DEAR = pool("v6e-16", EAST), pool("v6e-16", EUROPE)
FLEET = fleet(DEAR, SMALL)


def test_bins_are_in_the_order_of_price() -> None:
    """Why: of two TPUs that will do, the cheaper one is taken."""
    bins = idle_bins(FLEET, [slot(DEAR), slot(SMALL), slot(SMALL, 2)], frozenset())
    assert [(b.name, b.room) for b in bins] == [(SMALL.id, 2), (DEAR.id, 1)]
    assert hourly(SMALL) < hourly(DEAR)


@pytest.mark.parametrize("changes", [{"model": Model.RESERVED}, {"existing": "mine"}])
def test_what_is_paid_for_is_tried_first(changes: dict[str, object]) -> None:
    """Why: a reservation costs the same whether it is used or not."""
    paid = pool("v6e-64", EUROPE, id="paid", **changes)
    assert by_price(fleet(SMALL, DEAR, paid))[0] == paid


def test_a_named_slot_is_a_bin_of_its_own_and_still_its_pool_s() -> None:
    """Why: a job that names it needs just this one, and any job of the pool may use it all the same."""
    idle = [slot(SMALL), slot(SMALL, 2)]
    bins = idle_bins(fleet(SMALL), idle, frozenset({idle[1].name}))
    assert [(b.name, b.room) for b in bins] == [(SMALL.id, 1), (slot_key(idle[1].name), 1)]
    assert bins[0].keys < bins[1].keys


def test_slots_of_pools_that_left_the_file_are_no_bins() -> None:
    """Why: they are being drained."""
    assert idle_bins(fleet(DEAR), [slot(SMALL)], frozenset()) == ()


def test_a_job_is_near_its_caches_and_its_last_tpu() -> None:
    """Why: a retry finds its files, another job of the same kind its packages."""
    warm = slot(SMALL, caches=("pip", "hf"))
    last = slot(DEAR, last_job="train")
    cold = slot(SMALL, 2)
    of = job("train", caches=("pip", "hf"))
    assert (affinity(of, warm), affinity(of, last), affinity(of, cold)) == (2, 1, 0)
    assert near_bins(of, [warm, last, cold], frozenset()) == {SMALL.id, DEAR.id}
    assert near_bins(of, [warm, cold], frozenset({warm.name})) == {slot_key(warm.name)}


def test_the_warmest_then_the_longest_idle_slot_is_picked() -> None:
    """Why: within a bin all slots will do, so the one that saves the most start-up time is taken."""
    of = job(caches=("pip",))
    warm, old, new = slot(SMALL, caches=("pip",)), slot(SMALL, 2, idle_since=NOW - 900), slot(SMALL, 1)
    assert pick_slot(of, SMALL.id, [new, old, warm], frozenset()) == warm
    assert pick_slot(replace(of, caches=()), SMALL.id, [new, old], frozenset()) == old
    assert pick_slot(of, slot_key(old.name), [new, old, warm], frozenset({old.name})) == old
    assert pick_slot(of, SMALL.id, [new, old], frozenset({old.name})) == new, "a named slot is not the pool's bin"
