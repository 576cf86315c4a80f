"""A note: one thing that happened, with its reason and its numbers. Notes are a job's history and the outbound feed."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Note:
    """One happening. `event` is a dotted name, e.g. `race.won`; `data` is flat and JSON-ready."""

    event: str
    subject: str  # "job:ID", "slot:NAME" or "attempt:JOB.N"
    reason: str = ""
    job: str = ""
    attempt: str = ""
    slot: str = ""
    correlation_id: str = ""  # the submitter's own, of the job that it is about
    at: float = 0.0
    id: str = ""  # given by the commit: unique and stable over redeliveries
    data: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
