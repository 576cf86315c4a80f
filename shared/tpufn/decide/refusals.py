"""What a refusal means: the TPU API's words -> class, scope, hint.

The texts are the API's own (with `[EID: 0x...]` cut off). A rule reads one wording; the first that fits wins. A text
that no rule knows is UNKNOWN, which means: try elsewhere, never: give up.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tpufn.domain.capacity import Class, Refusal, region_scope, type_scope, zone_scope
from tpufn.domain.fleet import Pool

_EID = re.compile(r"\s*\[EID: 0x[0-9a-fA-F]+\]")


@dataclass(frozen=True)
class _Quota:
    """A quota failure: which quota, how much, and what kind of place it is for."""

    metric: str
    limit: float
    kind: str  # "region" or "zone"
    place: str


_QUOTA = re.compile(
    r"Quota (?:limit )?'(?P<metric>[^']+)' (?:has been exceeded|exhausted|exceeded)\.? "
    r"Limit:? (?P<limit>[0-9.]+) in (?P<kind>region|zone) (?P<place>[a-z0-9-]+)"
)

Rule = Callable[[int, str, Pool], Refusal | None]


def classify(code: int, text: str, pool: Pool) -> Refusal:
    """The meaning of a refusal for a request of this pool. `code` is gRPC's number or an HTTP status."""
    words = _EID.sub("", text).strip()
    for rule in _RULES:
        refusal = rule(code, words, pool)
        if refusal is not None:
            return refusal
    return Refusal(
        cls=Class.UNKNOWN, scope=_model(pool, type_scope(pool.type, pool.zone)), text=words or f"code {code}"
    )


def _quota(code: int, text: str, pool: Pool) -> Refusal | None:
    match = _QUOTA.search(text)
    if match is None:
        return None
    quota = _Quota(match["metric"], float(match["limit"]), match["kind"], match["place"])
    if quota.metric == "IN_USE_ADDRESSES":
        hint = "raise the external address quota, or set ssh_transport: iap"
        return Refusal(cls=Class.STRUCTURAL, scope=region_scope(quota.place), text=text, hint=hint)
    scope = _model(pool, f"quota:{pool.accelerator.family}@{quota.place}")
    if quota.limit == 0:
        hint = f"the project has no quota {quota.metric} in {quota.kind} {quota.place}: ask for it or take the pool out"
        return Refusal(cls=Class.STRUCTURAL, scope=scope, text=text, hint=hint)
    return Refusal(cls=Class.QUOTA, scope=scope, text=text, hint=f"{quota.metric} allows {quota.limit:g}")


def _stockout(code: int, text: str, pool: Pool) -> Refusal | None:
    if "no more capacity" not in text:
        return None
    return Refusal(cls=Class.STOCKOUT, scope=_model(pool, type_scope(pool.type, pool.zone)), text=text)


def _reserved(code: int, text: str, pool: Pool) -> Refusal | None:
    if "Insufficient reserved capacity" not in text:
        return None
    cls = Class.STOCKOUT if pool.reservation else Class.STRUCTURAL
    hint = "" if pool.reservation else "this type is only sold by reservation in this zone"
    scope = _model(pool, type_scope(pool.type, pool.zone))
    return Refusal(cls=cls, scope=scope, text=text, hint=hint, hits_needed=1 if pool.reservation else 2)


def _type_unknown(code: int, text: str, pool: Pool) -> Refusal | None:
    if "could not be found in the zonal accelerator configurations" not in text:
        return None
    return Refusal(cls=Class.STRUCTURAL, scope=type_scope(pool.type, pool.zone), text=text, hint="not sold there")


def _location(code: int, text: str, pool: Pool) -> Refusal | None:
    if "LOCATION_POLICY_VIOLATED" not in text and "Permission denied on 'locations/" not in text:
        return None
    hint = f"the project may not use {pool.zone}: ask for access or take the zone out of the deployment"
    return Refusal(cls=Class.STRUCTURAL, scope=zone_scope(pool.zone), text=text, hint=hint)


def _permission(code: int, text: str, pool: Pool) -> Refusal | None:
    if not re.search(r"Permission '[^']+' denied", text) and code not in (7, 403):
        return None
    return Refusal(cls=Class.STRUCTURAL, scope="project", text=text, hint="grant roles/tpu.admin to the caller")


def _preempted(code: int, text: str, pool: Pool) -> Refusal | None:
    if "not supported while in state PREEMPTED" not in text:
        return None
    return Refusal(cls=Class.PREEMPTED, scope=_model(pool, type_scope(pool.type, pool.zone)), text=text)


def _exists(code: int, text: str, pool: Pool) -> Refusal | None:
    if code not in (6, 409):
        return None
    return Refusal(cls=Class.EXISTS, scope="", text=text)


def _gone(code: int, text: str, pool: Pool) -> Refusal | None:
    return Refusal(cls=Class.GONE, scope="", text=text) if code in (5, 404) else None


def _delete_refused(code: int, text: str, pool: Pool) -> Refusal | None:
    if not re.search(r"Delete\w+ is not supported when state is", text):
        return None
    return Refusal(cls=Class.REFUSED_DELETE, scope="", text=text)


def _specification(code: int, text: str, pool: Pool) -> Refusal | None:
    if code not in (3, 400):
        return None
    hint = "the request itself is wrong: check runtime, network and names of this pool"
    return Refusal(cls=Class.STRUCTURAL, scope=_model(pool, type_scope(pool.type, pool.zone)), text=text, hint=hint)


def _rate_limit(code: int, text: str, pool: Pool) -> Refusal | None:
    return Refusal(cls=Class.RATE_LIMIT, scope="project", text=text) if code == 429 else None


def _exhausted(code: int, text: str, pool: Pool) -> Refusal | None:
    if code != 8:
        return None
    return Refusal(cls=Class.STOCKOUT, scope=_model(pool, type_scope(pool.type, pool.zone)), text=text)


def _transient(code: int, text: str, pool: Pool) -> Refusal | None:
    if code not in (4, 10, 13, 14, 500, 502, 503, 504) and "neither response nor error" not in text:
        return None
    return Refusal(cls=Class.TRANSIENT, scope=_model(pool, type_scope(pool.type, pool.zone)), text=text)


def _model(pool: Pool, scope: str) -> str:
    return f"{pool.model}:{scope}"


_RULES: Sequence[Rule] = (
    _quota,
    _stockout,
    _reserved,
    _type_unknown,
    _location,
    _preempted,
    _delete_refused,
    _exists,
    _gone,
    _permission,
    _specification,
    _rate_limit,
    _exhausted,
    _transient,
)
