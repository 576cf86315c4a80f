"""The TPU quotas of a project against what a deployment may want.

Quotas have no names that a program could know for sure: `TPU v5 lite pod chips (preemptible)` and
`TPUV5sPreemptibleLitepodPerProjectPerRegionForTPUAPI` are the same thing. Those with a family's word in their name, for
the same way of buying and a place that holds the pool, are taken for its quota; the largest one counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tpufn.domain.fleet import Fleet, Model, Pool

_WORDS = {"v5e": ("v5lite", "v5e", "v5slite", "v5spreemptiblelite"), "v5p": ("v5p",), "v6e": ("v6e",)}


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One pool's largest quota in sight, and the chips that one of its TPUs needs."""

    pool: Pool
    limit: int
    need: int

    @property
    def ok(self) -> bool:
        return self.limit >= self.need

    def __str__(self) -> str:
        return (
            f"{self.pool.id}: the largest quota in sight is {self.limit}, one {self.pool.type} needs {self.need} chips"
        )


def fits(fleet: Fleet, quotas: Mapping[str, Mapping[str, int]]) -> Iterator[Fit]:
    """Of every pool that is bought. `quotas`: name -> {zone, region or `everywhere`: limit}."""
    for pool in fleet.pools:
        if not pool.existing:
            found = [limits for name, limits in quotas.items() if _concerns(name, pool)]
            here = [limit for limits in found for place, limit in limits.items() if _holds(place, pool)]
            yield Fit(pool=pool, limit=max(here, default=0), need=pool.chips)


def _concerns(name: str, pool: Pool) -> bool:
    bare = name.lower().replace(" ", "").replace("-", "")
    family = pool.accelerator.family
    is_spot = pool.model is Model.SPOT
    return any(word in bare for word in _WORDS.get(family, (family,))) and ("preemptible" in bare) == is_spot


def _holds(place: str, pool: Pool) -> bool:
    return place in ("everywhere", pool.zone, pool.region)
