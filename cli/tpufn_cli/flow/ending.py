"""How a run ended: the numbers of the closing table and of the last JSON event, and the exit code."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tpufn.domain.job import Job, JobState
from tpufn.domain.views import JobView


@dataclass(frozen=True, kw_only=True)
class Ending:
    """`provisioned` counts the TPUs that are still held; times are seconds, money US dollars. `signal`: what ended it
    early, as a number; SIGPIPE when nobody read any further."""

    views: tuple[JobView, ...]
    seconds: float
    provisioned: int = 0
    chip_seconds: float = 0.0
    cost: float = 0.0
    signal: int = 0

    @property
    def status(self) -> str:
        return worst(view.job for view in self.views)

    @property
    def exit_code(self) -> int:
        return 128 + self.signal if self.signal else exit_code(self.status)


def worst(jobs: Collection[Job] | Any) -> str:
    """One word for several jobs: succeeded only if all did."""
    states = {str(job.state) for job in jobs}
    order = (JobState.REJECTED, JobState.FAILED, JobState.CANCELLED)
    bad = next((str(state) for state in order if state in states), "")
    return bad or next((state for state in sorted(states) if state != JobState.SUCCEEDED), str(JobState.SUCCEEDED))


def exit_code(status: str) -> int:
    """The documented exit code of a job's end."""
    return {"succeeded": 0, "rejected": 2}.get(status, 1)


def finished_event(ending: Ending) -> dict[str, Any]:
    """The last event of a stream."""
    attempts = [attempt for view in ending.views for attempt in view.attempts]
    ids = [view.job.id for view in ending.views]
    return {
        "event": "finished",
        "status": ending.status,
        "attempts": len(attempts),
        "regions": list(dict.fromkeys(attempt.region for attempt in attempts)),
        "provisioned": ending.provisioned,
        "chip_seconds": round(ending.chip_seconds, 1),
        "cost_usd": round(ending.cost, 4),
        "seconds": round(ending.seconds, 1),
        "job": ids[0] if ids else "",
        "jobs": ids,
    }
