"""Effects: what a decision wants done outside the store, and the outbox row that remembers one until it is done.

A row is keyed by its entity (a slot or an attempt), so that each has at most one open effect. The committer claims it
at birth; anybody else may take it by compare-and-set once the claim has ended, and a call's own deadline ends before
that. A new effect replaces an unclaimed one and waits, in `queued`, for a claimed one.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    CREATE = "create"  # ask the cloud for a TPU                     entity: slot
    DELETE = "delete"  # delete it, with force                       entity: slot
    SWEEP = "sweep"  # delete a stray, with force                    entity: "tpu:ZONE/NAME"
    LAUNCH = "launch"  # deliver agent and specification             entity: attempt
    GO = "go"  # write the object that lets the command start        entity: attempt
    STOP = "stop"  # tombstone, TERM, grace, KILL, verify            entity: attempt


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One effect. `generation` (slots) or the attempt's lease makes it refusable when it comes too late."""

    kind: Kind
    entity: str  # "slot:NAME", "attempt:JOB.N" or "tpu:ZONE/NAME"
    generation: int = 0
    reason: str = ""

    @property
    def name(self) -> str:
        """The entity without its kind."""
        return self.entity.partition(":")[2]


@dataclass(frozen=True, kw_only=True)
class Row:
    """The document `outbox/{entity}`. Times are Unix seconds."""

    entity: str
    effect: Effect
    claimed_by: str = ""
    claim_until: float = 0.0
    due_at: float = 0.0  # not before: the backoff after a failed try
    tries: int = 0
    queued: Effect | None = None
    version: str = ""


def slot_entity(slot: str) -> str:
    return f"slot:{slot}"


def attempt_entity(attempt: str) -> str:
    return f"attempt:{attempt}"


def job_entity(job: str) -> str:
    return f"job:{job}"
