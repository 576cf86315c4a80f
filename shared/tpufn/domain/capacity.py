"""What is known about getting capacity: refusals, cool-downs by scope, chip-limit guards, outcomes of creates."""

from dataclasses import dataclass
from enum import StrEnum


class Class(StrEnum):
    """What a refusal means for the next try."""

    STOCKOUT = "stockout"  # nobody has this capacity now: cool down with jitter, growing
    QUOTA = "quota"  # our quota is full: armed again when our own chips in the scope are released
    STRUCTURAL = "structural"  # cannot work until the project or the deployment file changes
    RATE_LIMIT = "rate-limit"  # too many calls
    TRANSIENT = "transient"  # try again soon
    PREEMPTED = "preempted"  # reclaimed while it was being built
    GONE = "gone"  # the thing does not exist
    EXISTS = "exists"  # the name is taken
    REFUSED_DELETE = "refused-delete"  # not deletable in this state: try again
    UNKNOWN = "unknown"  # try elsewhere


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A classified refusal: what it disproves (`scope`) and what to tell the user (`text`, `hint`)."""

    cls: Class
    scope: str
    text: str
    hint: str = ""
    hits_needed: int = 1  # in a row, before it is believed; a stockout until then


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The document `scopes/{id}`: the chip-limit guard of a scope (`seq`), or its cool-down with its cause."""

    id: str
    seq: int = 0
    until: float = 0.0  # no request before
    cls: Class | None = None
    cause: str = ""
    hits: int = 0  # refusals in a row: the cool-down grows with them
    revision: int = 0  # the fleet's revision when a structural refusal was learnt
    at: float = 0.0  # when it was learnt
    version: str = ""


@dataclass(frozen=True, kw_only=True)
class CreateOutcome:
    """The document `outcomes/{id}`: how one request for capacity ended. Statistics: never contended, expiring."""

    id: str
    pool: str
    slot: str
    at: float
    result: str  # "granted" or a refusal's class
    waited: float  # seconds from the request
    text: str = ""
    version: str = ""


def type_scope(type: str, zone: str) -> str:
    return f"type:{type}@{zone}"


def zone_scope(zone: str) -> str:
    return f"zone:{zone}"


def region_scope(region: str) -> str:
    return f"region:{region}"
