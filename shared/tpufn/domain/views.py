"""What people are shown: values that the client hands to the command line, the terminal UI and the assistant."""

from dataclasses import dataclass

from tpufn.domain.attempt import Attempt
from tpufn.domain.job import Job, JobSpec
from tpufn.domain.notes import Note


@dataclass(frozen=True, kw_only=True)
class JobView:
    """One job with all that is known of it."""

    job: Job
    spec: JobSpec | None
    attempts: tuple[Attempt, ...] = ()
    history: tuple[Note, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PoolOutlook:
    """What one candidate pool has for one job. Times are Unix seconds, 0 for none."""

    pool: str
    type: str
    zone: str
    ceiling: int
    free: int
    coming: int  # legs
    idle: int
    busy: int
    held: int
    chips_used: int
    chip_limit: int  # 0: none known
    last_outcome: str = ""  # "granted", or the refusal's class
    last_text: str = ""  # ... in the cloud's own words
    last_at: float = 0.0
    scope: str = ""  # what a present cool-down covers
    next_try_at: float = 0.0
    verdict: str = ""  # one plain sentence: what the job waits for here


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The answer to `why`: in plain words, then per candidate pool, then the evidence of a verdict."""

    job: str
    state: str
    headline: str
    now: float
    pools: tuple[PoolOutlook, ...] = ()
    ahead: int = 0  # pending jobs with a better rank that accept one of the same pools (at most 50 counted)
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SlotView:
    """One row of the slot table."""

    name: str
    pool: str
    type: str
    zone: str
    model: str
    state: str
    since: float
    generation: int
    job: str
    attempt: str
    hold: str
    tpu: str
    workers: tuple[str, ...]  # their addresses, as they see each other
    cause: str
    price_per_hour: float
    reach: tuple[str, ...] = ()  # where others reach them: host or host:port
    requested_at: float = 0.0  # Unix seconds; 0 where nothing is asked for


@dataclass(frozen=True, kw_only=True)
class Status:
    """The deployment at a glance."""

    mode: str
    deployment: str
    now: float
    engine: str  # "running", "not running"; in the cloud the ticks: "running", "paused", "late" or "unknown"
    jobs: dict[str, int]  # state -> count
    slots: dict[str, int]  # state -> count
    chips: int  # held now
    cost_per_hour: float
    open_effects: int
    dead_letters: int
    waiting: int = 0  # messages that no engine has taken on


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A message that could not be delivered, or not be read. `body` is its text, as far as it is text."""

    id: str
    topic: str  # "" where nobody knows
    problem: str
    at: float
    function: str = ""
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class LogPiece:
    """A run of bytes of one worker's output."""

    attempt: int
    worker: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What `submit` hands back at once. `digest` is of what was submitted: a job of the same id may be another's."""

    submission: str
    digest: str
    jobs: tuple[str, ...]
