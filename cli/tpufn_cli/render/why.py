"""The answer to `why`: the headline, what each candidate pool has, and the evidence of a verdict."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpufn.domain.views import Explanation, PoolOutlook
from tpufn_cli.render import words
from tpufn_cli.render.console import fitted, styled


def explanation(why: Explanation, *, width: int = 0) -> RenderableType:
    """In plain words first, then the table, then sentence by sentence. `width` as in `fitted`."""
    headline = why.headline.removeprefix(f"{why.state}: ")
    head = Text.assemble((why.job, "bold"), " is ", (why.state, styled(why.state)), f": {headline}")
    parts: list[RenderableType] = [head]
    if why.ahead:
        at_least = "at least " if why.ahead >= 50 else ""
        parts.append(Text(f"{at_least}{words.count(why.ahead, 'pending job')} would be served before it"))
    if why.pools:
        parts += [Text(), _pools(why, width), Text(), *(_verdict(pool) for pool in why.pools if pool.verdict)]
    if why.evidence:
        parts += [Text(), Text("evidence", style="bold"), *(Text(f"  - {line}") for line in why.evidence)]
    return Group(*parts)


def _pools(why: Explanation, width: int) -> Table:
    numbers = ("free", "legs", "idle", "busy", "chips")
    rows = (
        (
            pool.pool,
            f"{pool.free}/{pool.ceiling}",
            str(pool.coming),
            str(pool.idle),
            _busy(pool),
            f"{pool.chips_used}/{pool.chip_limit}" if pool.chip_limit else str(pool.chips_used),
            _last(pool, why.now),
            next_try(pool.next_try_at, why.now),
        )
        for pool in why.pools
    )
    spare = ("chips", "last outcome", "legs", "idle", "busy", "free")
    return fitted(("pool", *numbers, "last outcome", "next try"), rows, numbers=numbers, spare=spare, width=width)


def _busy(pool: PoolOutlook) -> str:
    return f"{pool.busy}+{pool.held} held" if pool.held else str(pool.busy)


def _last(pool: PoolOutlook, now: float) -> str:
    return f"{pool.last_outcome} {words.age(now - pool.last_at)} ago" if pool.last_outcome else "-"


def next_try(at: float, now: float) -> str:
    """When a cool-down ends: `in 40s`, `any time`."""
    return f"in {words.age(at - now)}" if at > now else "any time"


def _verdict(pool: PoolOutlook) -> Text:
    text = Text.assemble((f"{pool.pool}: ", "bold"), pool.verdict)
    if pool.last_text:
        text.append(f'\n    the cloud said: "{words.printable(pool.last_text)}"', style="dim")
    return text
