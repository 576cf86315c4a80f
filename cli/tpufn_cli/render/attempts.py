"""A job's attempts as a table: where, how long it waited and ran, how it ended."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from tpufn.domain.attempt import Attempt
from tpufn.domain.fleet import Fleet
from tpufn.domain.views import JobView
from tpufn_cli.render import words
from tpufn_cli.render.console import styled, table


def attempts_table(view: JobView, fleet: Fleet) -> RenderableType:
    """One row per attempt: where, how long it waited and ran, how it ended."""
    made = table("#", "slot", "type", "zone", "waited", "ran", "outcome", numbers=("#", "waited", "ran"))
    for attempt, waited in zip(view.attempts, waits(view), strict=True):
        pool = fleet.pool(attempt.pool)
        outcome = str(attempt.outcome or attempt.state)
        made.add_row(
            str(attempt.number),
            attempt.slot,
            pool.type if pool else "-",
            attempt.zone,
            words.span(waited),
            words.span(ran(attempt)),
            Text(outcome, style=styled(outcome)),
        )
    return made if view.attempts else Text("no attempt was made", style="dim")


def waits(view: JobView) -> Iterator[float]:
    """Per attempt: seconds from the submission, or the end of the attempt before, until its command ran."""
    queued = view.job.submitted_at
    for attempt in view.attempts:
        yield max(0.0, (attempt.started_at or attempt.created_at) - queued)
        queued = attempt.ended_at or attempt.since


def ran(attempt: Attempt) -> float:
    """Seconds that the command ran; 0 while it has not started or not ended."""
    return max(0.0, attempt.ended_at - attempt.started_at) if attempt.started_at and attempt.ended_at else 0.0
