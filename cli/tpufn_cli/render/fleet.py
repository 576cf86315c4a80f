"""What a deployment file declares, as a table."""

from rich.console import Group, RenderableType
from rich.text import Text

from tpufn.domain.fleet import Fleet
from tpufn_cli.render import words
from tpufn_cli.render.console import table


def fleet_view(fleet: Fleet) -> RenderableType:
    """One row per pool, and the sum."""
    made = table("pool", "model", "chips", "workers", "at most", "limit", "warm", numbers=_NUMBERS)
    for pool in fleet.pools:
        kind = pool.accelerator
        made.add_row(
            pool.existing or pool.id,
            "existing" if pool.existing else str(pool.model),
            str(kind.chips),
            str(kind.hosts),
            str(len(pool.slots)),
            str(pool.chip_limit) if pool.chip_limit else "-",
            str(pool.keep_warm) if pool.keep_warm else "-",
        )
    return Group(made, Text(), Text(_sum(fleet)))


_NUMBERS = ("chips", "workers", "at most", "limit", "warm")


def _sum(fleet: Fleet) -> str:
    slots = sum(len(pool.slots) for pool in fleet.pools)
    where = words.count(len(fleet.regions), "region")
    return f"{fleet.name}: valid; {words.count(len(fleet.pools), 'pool')}, {words.count(slots, 'slot')}, {where}"
