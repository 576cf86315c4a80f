"""Storms in the suite: a few hundred seeds, and the proof that they would find what is taken out of the system.

Thousands, in parallel and with progress: `python -m tests.simulation --seeds 10000`.
"""

import pytest

from .outcome import blow
from .shrink import minimal, shrunk
from .weakened import WEAKENED

SEEDS, SHARE = 200, 10
ENOUGH = 500
"""Seeds within which a missing safeguard is found."""
KNOWN = {
    "no delete retry": 0,
    "no version check on commit": 4,
    "no claim on outbox rows": 5,
    "no settle window": 45,
    "no tombstone": 130,
}
"""A seed that found it before is tried first."""
FOUND = (7917,)
"""Seeds beyond those of the suite that found something: a refusal that outlived its reason by days."""


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_nothing_is_wrong_in_any_storm(first: int) -> None:
    """Every fault at once, with the invariants after every step; then the calm, in which everything ends."""
    wrong = {seed: outcome.problem for seed in range(first, first + SHARE) if (outcome := blow(seed)).problem}
    assert wrong == {}, f"replay with `python -m tests.simulation --seed {min(wrong)} --trace`"


@pytest.mark.parametrize("seed", FOUND)
def test_what_a_storm_found_stays_mended(seed: int) -> None:
    assert blow(seed).problem == ""


@pytest.mark.parametrize("safeguard", WEAKENED)
def test_a_missing_safeguard_is_found(safeguard: str) -> None:
    """A simulation that finds nothing proves nothing."""
    seeds = (KNOWN[safeguard], *range(ENOUGH))
    assert any(blow(seed, parts=WEAKENED[safeguard]()).problem for seed in seeds)


def test_a_seed_is_one_story() -> None:
    """To the last line: else no failure could be replayed."""
    first, second = (blow(7, trace=1_000_000) for _ in range(2))
    assert first.story == second.story
    assert first.taken == second.taken
    assert first.story != blow(8, trace=1_000_000).story


def test_a_failing_seed_is_shrunk_to_what_it_takes() -> None:
    """Fewer parts, the same problem, and a story about it."""
    name = "no delete retry"
    whole = blow(KNOWN[name], parts=WEAKENED[name](), trace=1_000_000)
    small, kept = shrunk(whole, parts=WEAKENED[name](), budget=5.0)
    assert set(kept) < set(whole.parts)
    assert small.kind == whole.kind
    assert len(small.about().splitlines()) <= 60


def test_minimal_leaves_out_whatever_does_not_matter() -> None:
    assert minimal("abcdefghij", lambda kept: {"c", "h"} <= set(kept)) == ["c", "h"]
