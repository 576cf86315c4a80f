"""What the tools answer: typed, so that a client gets a schema for each, and small enough to read."""

import math
from typing import Any

from pydantic import BaseModel, Field

from tpufn.domain.job import Job
from tpufn.domain.views import PoolOutlook, SlotView, Status
from tpufn_cli.render.jsonable import jsonable


class SlotRow(BaseModel):
    """One slot: a reservable place for a TPU."""

    name: str
    type: str
    zone: str
    model: str = Field(description="spot, on-demand or reserved")
    state: str = Field(description="free, requesting, waiting, provisioning, booting, idle, busy, cleaning, releasing")
    seconds_in_state: int
    job: str = Field(description='the job that runs there; "" for none')
    held_by: str = Field(description='the person that it is kept for; "" for nobody')
    price_per_hour: float = Field(description="US dollars while it holds a TPU")


class SlotList(BaseModel):
    slots: list[SlotRow]
    counts: dict[str, int] = Field(description="state -> number of slots")


class SlotDetails(SlotRow):
    """One slot with all that is known of it."""

    pool: str
    generation: int
    tpu: str = Field(description="the cloud's name of its TPU")
    workers: list[str] = Field(description="addresses of its workers")
    cause: str
    set_up: str = Field(description='how its set-up ended, "ok" or why not; "" where none was run')


class Answer(BaseModel):
    """What happens, in words, for each thing that was named."""

    answers: dict[str, str]


class Command(BaseModel):
    command: str


class TmuxState(BaseModel):
    """The mirror of usable TPUs in tmux windows."""

    windows: dict[str, str] = Field(description="slot -> session of its window")
    dead: list[str] = Field(description="slots whose window's shell has ended")
    missing: list[str] = Field(description="usable slots without a window")
    orphaned: list[str] = Field(description="windows whose TPU is gone; only tmux_close closes them")
    duplicates: list[str]
    attach: str = Field(description="the command that attaches to a session, before its name")


class SetUpResult(BaseModel):
    ok: bool
    summary: str
    failed: dict[str, str] = Field(description="worker -> what went wrong")
    logs: list[str] = Field(description="files with the whole output, one per worker")
    last_lines: list[str]


class JobRow(BaseModel):
    id: str
    state: str
    cause: str
    priority: str
    seconds_in_state: int
    attempt: int = Field(description="the newest attempt's number, 0 for none")
    slot: str
    preemptions: int


class JobList(BaseModel):
    jobs: list[JobRow]


class Submitted(BaseModel):
    """`accepted`: whether the jobs exist; else they will once an engine runs."""

    jobs: list[str]
    submission: str
    accepted: bool
    notes: list[str]


class JobDetails(BaseModel):
    job: dict[str, Any]
    attempts: list[dict[str, Any]]
    history: list[dict[str, Any]] = Field(description="the last happenings, oldest first")


class Why(BaseModel):
    """Why a job waits, or ended as it did."""

    job: str
    state: str
    headline: str
    ahead: int = Field(description="pending jobs that would be served first")
    pools: list[dict[str, Any]]
    evidence: list[str]


class Logs(BaseModel):
    """Output after a cursor. Call again with `cursor` for what comes next."""

    text: str = Field(description="lines marked ATTEMPT.wWORKER where more than one worker speaks")
    cursor: str
    more: bool = Field(description="there was more than fitted")


class Fleet(BaseModel):
    """The deployment at a glance, with every pool."""

    mode: str
    where: str
    deployment: str
    engine: str
    jobs: dict[str, int]
    slots: dict[str, int]
    chips: int
    cost_per_hour: float
    pools: list[dict[str, Any]]


class Validation(BaseModel):
    valid: bool
    problems: list[str]
    warnings: list[str]
    jobs: list[dict[str, Any]] = Field(description="the jobs with every default written out")


class Simulation(BaseModel):
    """What a fleet would do with a load of jobs: waits, utilisation, preemptions, cost."""

    report: dict[str, Any]


def slot_row(slot: SlotView, now: float) -> dict[str, Any]:
    return {
        "name": slot.name,
        "type": slot.type,
        "zone": slot.zone,
        "model": slot.model,
        "state": slot.state,
        "seconds_in_state": _age(slot.since, now),
        "job": slot.job,
        "held_by": slot.hold,
        "price_per_hour": round(slot.price_per_hour, 2),
    }


def job_row(job: Job, now: float) -> JobRow:
    return JobRow(
        id=job.id,
        state=str(job.state),
        cause=job.cause or job.unschedulable,
        priority=job.priority.label,
        seconds_in_state=_age(job.since, now),
        attempt=job.attempt,
        slot=job.slot,
        preemptions=job.preemptions,
    )


def pool_row(pool: PoolOutlook) -> dict[str, Any]:
    """A pool's outlook as JSON; a time that never comes is null."""
    row: dict[str, Any] = jsonable(pool)
    return row


def fleet_of(status: Status, where: str, pools: tuple[PoolOutlook, ...]) -> Fleet:
    return Fleet(
        mode=status.mode,
        where=where,
        deployment=status.deployment,
        engine=status.engine,
        jobs=status.jobs,
        slots=status.slots,
        chips=status.chips,
        cost_per_hour=round(status.cost_per_hour, 2),
        pools=[pool_row(pool) for pool in pools],
    )


def _age(since: float, now: float) -> int:
    return max(0, math.floor(now - since)) if since else 0
