"""How long a refusal keeps us from asking again."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpufn.decide.cooldown import blocked_until, blocking, cooled, pool_scopes, rearmed
from tpufn.domain.capacity import Class, Refusal, Scope
from tpufn.domain.policy import SANDBOX, Policy

from .builders import EAST, NOW, POLICY, pool

V6 = pool("v6e-16", EAST)
ID = pool_scopes(V6)[0]


def refused(cls: Class) -> Refusal:
    return Refusal(cls=cls, scope=ID, text=f"{cls}!")


def after(scope: Scope, cls: Class, *, now: float = NOW, policy: Policy = POLICY) -> Scope:
    return cooled(scope, refused(cls), now=now, revision=1, policy=policy)


def row_of(cls: Class, hits: int, *, gap: float = 0.0, id: str = ID) -> list[Scope]:
    """Refusals one after the other, each `gap` seconds after the last cool-down has ended."""
    scope, now, row = Scope(id=id), NOW, list[Scope]()
    for _ in range(hits):
        scope = after(scope, cls, now=now)
        row.append(scope)
        now = scope.until + gap
    return row


BASE = {
    Class.STOCKOUT: POLICY.stockout_cooldown,
    Class.QUOTA: POLICY.quota_cooldown,
    Class.RATE_LIMIT: POLICY.rate_limit_cooldown,
    Class.TRANSIENT: POLICY.transient_cooldown,
    Class.UNKNOWN: POLICY.transient_cooldown,
}


@pytest.mark.parametrize("cls", BASE)
def test_each_class_starts_at_its_own_pause_and_doubles(cls: Class) -> None:
    """Why: a stockout lasts longer than a hiccup, and one that goes on is asked about ever more rarely."""
    for i, scope in enumerate(row_of(cls, 12)):
        middle = min(BASE[cls] * 2**i, POLICY.cooldown_max)
        assert 0.75 * middle <= scope.until - scope.at <= 1.25 * middle
        assert (scope.hits, scope.cls, scope.cause, scope.revision) == (i + 1, cls, f"{cls}!", 1)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=20), st.integers(1, 60))
def test_jitter_is_bounded_and_the_same_on_every_machine(id: str, hits: int) -> None:
    """Why: functions that decide twice must decide alike, and pools must not all come back at one moment."""
    once, again = row_of(Class.STOCKOUT, hits, id=id)[-1], row_of(Class.STOCKOUT, hits, id=id)[-1]
    assert once == again
    pause = once.until - once.at
    middle = min(POLICY.stockout_cooldown * 2.0 ** (hits - 1), POLICY.cooldown_max)
    assert 0.7499 * middle <= pause < 1.2501 * middle


def test_jitter_differs_between_pools() -> None:
    """Why: that is what it is for."""
    assert len({row_of(Class.STOCKOUT, 1, id=f"spot:type:{i}")[0].until for i in range(50)}) > 40


def test_a_long_silence_starts_the_row_anew() -> None:
    """Why: yesterday's stockouts say nothing about today."""
    assert row_of(Class.STOCKOUT, 5, gap=POLICY.cooldown_max + 1)[-1].hits == 1
    assert row_of(Class.STOCKOUT, 5, gap=POLICY.cooldown_max - 1)[-1].hits == 5


def test_another_class_starts_the_row_anew() -> None:
    """Why: a stockout after rate limits is the first stockout."""
    limited = row_of(Class.RATE_LIMIT, 6)[-1]
    assert after(limited, Class.STOCKOUT, now=limited.until).hits == 1


def test_a_wave_of_refusals_counts_once() -> None:
    """Why: eight legs asked for at one moment and refused together are one stockout, not a row of eight."""
    scope = Scope(id=ID)
    for i in range(8):
        scope = after(scope, Class.STOCKOUT, now=NOW + i / 10)
    assert scope.until - NOW <= 1.25 * POLICY.stockout_cooldown + 1


@pytest.mark.parametrize("before", [Class.STRUCTURAL, Class.STOCKOUT])
def test_a_cooldown_is_never_shortened_by_a_refusal(before: Class) -> None:
    """Why: a hiccup of another leg in flight must not make us forget that the type is not sold there."""
    long = row_of(before, 1 if before is Class.STRUCTURAL else 5)[-1]
    assert after(long, Class.TRANSIENT, now=long.at + 1).until >= long.until


def test_structural_lasts_for_hours_or_until_the_file_is_applied() -> None:
    """Why: limit 0 does not go away by asking, but a new deployment file may have fixed it, or a raised quota."""
    scope = after(Scope(id=ID), Class.STRUCTURAL)
    known = {ID: scope}
    assert 4 * 3600 < scope.until - NOW < 8 * 3600
    assert blocked_until(V6, known, now=NOW + 4 * 3600, revision=1) == scope.until
    assert blocking(V6, known, now=NOW + 4 * 3600, revision=2) is None
    assert blocking(V6, known, now=scope.until, revision=1) is None
    second = after(scope, Class.STRUCTURAL, now=scope.until)
    assert 4 * 3600 < second.until - second.at < 8 * 3600, "it does not grow"
    again = cooled(scope, refused(Class.STRUCTURAL), now=NOW, revision=2, policy=POLICY)
    assert blocking(V6, {ID: again}, now=NOW, revision=2) == again


def test_a_new_configuration_does_not_lift_a_stockout() -> None:
    """Why: a new file makes no capacity."""
    scope = after(Scope(id=ID), Class.STOCKOUT)
    assert blocked_until(V6, {ID: scope}, now=NOW, revision=2) == scope.until


def test_a_full_quota_is_armed_again_at_once() -> None:
    """Why: our own release made room: the row of refusals is over."""
    full = row_of(Class.QUOTA, 4)[-1]
    armed = rearmed(full, now=full.at + 1)
    assert blocking(V6, {ID: armed}, now=full.at + 1, revision=1) is None
    assert after(armed, Class.QUOTA, now=full.at + 2).hits == 1


def test_the_longest_cooldown_blocks() -> None:
    """Why: `why` names the cause that is in the way longest."""
    ids = pool_scopes(V6)
    known = {id: Scope(id=id, until=NOW + i, cls=Class.STOCKOUT) for i, id in enumerate(ids)}
    assert blocking(V6, known, now=NOW, revision=1) == known[ids[-1]]
    assert blocked_until(V6, {}, now=NOW, revision=1) == 0.0
    ended = {ID: replace(known[ID], until=NOW)}
    assert blocking(V6, ended, now=NOW, revision=1) is None, "a cool-down ends at its end"


def test_the_sandbox_cools_down_fast_enough_to_watch() -> None:
    """Why: the demonstration ends within a minute."""
    scope = after(Scope(id=ID), Class.STOCKOUT, policy=SANDBOX)
    assert scope.until - NOW <= 10


def test_a_refusal_without_end_of_an_older_version_has_ended() -> None:
    """Why: until lately it had none, and states that were written then are still there."""
    endless = Scope(id=ID, until=float("inf"), cls=Class.STRUCTURAL, revision=1)
    assert blocking(V6, {ID: endless}, now=NOW, revision=1) is None
