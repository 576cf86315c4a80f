"""A job's attempts as a table: where, how long it waited and ran, how it ended."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from tpufn.domain.attempt import Attempt
from tpufn.domain.fleet import Fleet
from tpufn.domain.views import JobView
from tpufn_cli.render import words
from tpufn_cli.render.console import fitted, styled

_HEADERS = ("#", "slot", "type", "zone", "waited", "ran", "outcome")


def attempts_table(view: JobView, fleet: Fleet, *, now: float, width: int = 0) -> RenderableType:
    """One row per attempt: where, how long it waited and ran, how it ended."""
    if not view.attempts:
        return Text("no attempt was made", style="dim")
    rows = (_row(attempt, waited, fleet, now) for attempt, waited in zip(view.attempts, waits(view), strict=True))
    return fitted(_HEADERS, rows, numbers=("#", "waited", "ran"), spare=("type", "zone", "waited"), width=width)


def _row(attempt: Attempt, waited: float, fleet: Fleet, now: float) -> tuple[str | Text, ...]:
    pool = fleet.pool(attempt.pool)
    outcome = str(attempt.outcome or attempt.state)
    return (
        str(attempt.number),
        attempt.slot,
        pool.type if pool else "-",
        attempt.zone,
        words.span(waited),
        words.span(ran(attempt, now)),
        Text(outcome, style=styled(outcome)),
    )


def waits(view: JobView) -> Iterator[float]:
    """Per attempt: seconds from the submission, or the end of the attempt before, until its command ran."""
    queued = view.job.submitted_at
    for attempt in view.attempts:
        yield max(0.0, (attempt.started_at or attempt.created_at) - queued)
        queued = attempt.ended_at or attempt.since


def ran(attempt: Attempt, now: float) -> float:
    """Seconds that the command ran, up to now if it still does; 0 if it has not started."""
    return max(0.0, (attempt.ended_at or now) - attempt.started_at) if attempt.started_at else 0.0
