"""Cool-downs: how long a refusal keeps us from asking again, and for what.

A refusal names the scope that it disproves. Stockouts grow with jitter; a full quota is armed again when our own chips
in the scope are released; a structural refusal lasts until the deployment file is applied again, and is put to the
test a few times a day even so: a quota is raised, or a zone opened, without anybody telling us.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from math import inf

from tpufn.domain.capacity import Class, Refusal, Scope, region_scope, type_scope, zone_scope
from tpufn.domain.fleet import Pool
from tpufn.domain.policy import Policy


def pool_scopes(pool: Pool) -> tuple[str, ...]:
    """Every scope whose cool-down stops requests for this pool, the narrowest first."""
    model = f"{pool.model}:"
    return (
        f"{model}{type_scope(pool.type, pool.zone)}",
        f"{model}quota:{pool.accelerator.family}@{pool.zone}",
        f"{model}quota:{pool.accelerator.family}@{pool.region}",
        type_scope(pool.type, pool.zone),
        zone_scope(pool.zone),
        region_scope(pool.region),
        "project",
    )


def blocking(pool: Pool, scopes: Mapping[str, Scope], *, now: float, revision: int) -> Scope | None:
    """The scope that keeps this pool from being asked longest, None when it may be asked now."""
    found = (scopes[id] for id in pool_scopes(pool) if id in scopes)
    active = [s for s in found if s.until > now and not is_outdated(s, revision)]
    return max(active, key=lambda s: s.until, default=None)


def blocked_until(pool: Pool, scopes: Mapping[str, Scope], *, now: float, revision: int) -> float:
    """When this pool may be asked again; 0 for now."""
    scope = blocking(pool, scopes, now=now, revision=revision)
    return scope.until if scope else 0.0


def cooled(scope: Scope, refusal: Refusal, *, now: float, revision: int, policy: Policy) -> Scope:
    """The scope after one more refusal. The jitter comes from the scope's own name and count: no randomness needed.

    Refusals while it cools down are one wave and count once, and none of them shortens a longer cool-down.
    """
    cooling = scope.until > now and not is_outdated(scope, revision)
    alike = scope.cause == refusal.text if refusal.hits_needed > 1 else scope.cls is refusal.cls
    in_a_row = alike and now < scope.until + policy.cooldown_max
    hits = scope.hits + (not cooling) if in_a_row else 1
    cls = refusal.cls if hits >= refusal.hits_needed else Class.STOCKOUT
    until = now + _pause(cls, hits, scope.id, policy)
    if cooling and until <= scope.until:
        return scope
    return replace(scope, until=until, cls=cls, cause=refusal.text, hits=hits, revision=revision, at=now)


def is_outdated(scope: Scope, revision: int) -> bool:
    """A structural refusal learnt under an older deployment file (the new one may have mended it), or by an older
    tpufn, for which it had no end."""
    return scope.cls is Class.STRUCTURAL and (scope.revision != revision or scope.until == inf)


def forgiven(pool: Pool, scopes: Mapping[str, Scope]) -> tuple[Scope, ...]:
    """The pool's own scope after a grant: capacity that was just given ends the row of refusals."""
    scope = scopes.get(pool_scopes(pool)[0])
    return (replace(scope, hits=0, until=0.0),) if scope is not None and scope.hits else ()


def rearmed(scope: Scope, *, now: float) -> Scope:
    """A full quota after chips of ours were released in its scope."""
    return replace(scope, until=now, hits=0)


def _pause(cls: Class, hits: int, id: str, policy: Policy) -> float:
    base = {
        Class.STOCKOUT: policy.stockout_cooldown,
        Class.QUOTA: policy.quota_cooldown,
        Class.RATE_LIMIT: policy.rate_limit_cooldown,
    }.get(cls, policy.transient_cooldown)
    grown = min(base * 2 ** min(hits - 1, 16), policy.cooldown_max)
    if cls is Class.STRUCTURAL:
        grown = policy.structural_cooldown
    return float(grown) * (0.75 + 0.5 * _fraction(f"{id}:{hits}"))


def _fraction(text: str) -> float:
    """A number in [0, 1) that is the same for the same text on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32
