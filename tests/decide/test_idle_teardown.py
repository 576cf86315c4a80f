"""Which idle TPUs are given back."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpufn.decide.decision import Decision
from tpufn.decide.idle_teardown import IdleSnapshot, decide, overdue
from tpufn.domain.capacity import Scope
from tpufn.domain.fleet import Fleet
from tpufn.domain.slot import Slot, SlotState

from .builders import CENTRAL, EAST, NOW, all_written, fleet, kinds, pool, quick, slot, twice, written

V6, V4 = pool("v6e-16", EAST, count=4), pool("v4-32", CENTRAL)
LATE, FRESH = NOW - 600, NOW - 599


def tick(
    of: Fleet, *slots: Slot, wanted: frozenset[str] = frozenset(), scopes: dict[str, Scope] | None = None
) -> Decision:
    return decide(IdleSnapshot(now=NOW, fleet=of, slots=slots, scopes=scopes or {}, wanted=wanted))


def released(decision: Decision) -> list[str]:
    return [name for _, name in kinds(decision)]


@pytest.mark.parametrize(("since", "gone"), [(LATE, True), (FRESH, False), (NOW, False)])
def test_an_idle_tpu_goes_after_its_timeout(since: float, gone: bool) -> None:
    """Why: it costs money, and its capacity is somebody else's."""
    decision = tick(fleet(V6), slot(V6, idle_since=since))
    assert bool(released(decision)) is gone
    assert not gone or written(decision, Slot).cause == "idle for 600 s, no waiting job can use it"


@pytest.mark.parametrize("state", [s for s in SlotState if s is not SlotState.IDLE])
def test_only_idle_tpus_go(state: SlotState) -> None:
    """Why: everything else is in use, or on its way."""
    assert released(tick(fleet(V6), slot(V6, 1, state, idle_since=LATE))) == []


@pytest.mark.parametrize(
    "changes", [{"slot": {"hold": "ada"}}, {"wanted": frozenset({V6.id})}, {"pool": {"existing": "mine"}}]
)
def test_what_somebody_holds_wants_or_owns_stays(changes: dict[str, Any]) -> None:
    """Why: a held TPU is a person's, a wanted one the next job's, an adopted one was never ours to give."""
    of = replace(V6, **changes.get("pool", {}))
    assert (
        released(
            tick(
                fleet(of),
                slot(of, idle_since=LATE, **changes.get("slot", {})),
                wanted=changes.get("wanted", frozenset()),
            )
        )
        == []
    )


@pytest.mark.parametrize(("floor", "busy", "gone"), [(0, 0, 3), (1, 0, 2), (3, 0, 0), (1, 1, 3), (2, 1, 2), (9, 1, 0)])
def test_the_warm_floor_is_kept(floor: int, busy: int, gone: int) -> None:
    """Why: TPUs that are there, idle or busy, count towards the floor; the longest idle go first."""
    warm = replace(V6, keep_warm=floor)
    slots = [slot(warm, i + 1, idle_since=LATE - i) for i in range(3)]
    if busy:
        slots.append(slot(warm, 4, SlotState.BUSY))
    assert released(tick(fleet(warm), *slots)) == [s.name for s in reversed(slots[:3])][:gone]


def test_a_held_tpu_does_not_fill_the_floor() -> None:
    """Why: no job can have it."""
    warm = replace(V6, keep_warm=1)
    assert released(tick(fleet(warm), slot(warm, 1, idle_since=LATE), slot(warm, 2, hold="ada"))) == []


def test_each_chip_scope_is_one_commit_with_its_guard() -> None:
    """Why: the guard keeps two ticks from both dipping below a floor."""
    decision = tick(
        fleet(V6, V4),
        *(slot(p, n, idle_since=LATE) for p in (V6, V4) for n in (1, 2)),
        scopes={V6.scope: Scope(id=V6.scope, seq=7, version="2")},
    )
    assert [written(s, Scope) for s in decision.steps] == [
        Scope(id=V6.scope, seq=8, version="2"),
        Scope(id=V4.scope, seq=1),
    ]
    assert [len(all_written(s, Slot)) for s in decision.steps] == [2, 2]
    assert decision.reason == "4 idle TPUs are past their timeout"


def test_the_longest_idle_come_first() -> None:
    """Why: the warmest caches are kept."""
    slots = [slot(V6, n, idle_since=LATE - n % 3) for n in (1, 2, 3, 4)]
    assert [s.idle_since for s in overdue(fleet(V6), slots, now=NOW)] == sorted(s.idle_since for s in slots)


@quick
@given(
    st.lists(
        st.tuples(st.sampled_from(SlotState), st.sampled_from(("", "ada")), st.sampled_from((LATE, LATE - 9, FRESH))),
        min_size=4,
        max_size=4,
    ),
    st.integers(0, 4),
    st.booleans(),
)
def test_a_floor_is_never_broken_and_a_second_tick_finds_nothing(
    rows: list[tuple[SlotState, str, float]], floor: int, wanted: bool
) -> None:
    """Why: two ticks at once, or one after the other, do the work once."""
    warm = replace(V6, keep_warm=floor)
    slots = [slot(warm, i + 1, state, hold=hold, idle_since=since) for i, (state, hold, since) in enumerate(rows)]
    want = frozenset({warm.id}) if wanted else frozenset[str]()
    decision = tick(fleet(warm), *slots, wanted=want)
    after = {s.name: s for s in (*slots, *all_written(decision, Slot))}
    there = [
        s for s in after.values() if s.state in (SlotState.IDLE, SlotState.BUSY, SlotState.CLEANING) and not s.hold
    ]
    assert not released(decision) or len(there) >= floor
    assert not (wanted and released(decision))
    assert twice(decision) == []
    assert released(tick(fleet(warm), *after.values(), wanted=want)) == []
