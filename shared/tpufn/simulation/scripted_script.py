"""What a scripted worker does: one value for an attempt's worker, one for a host. Seconds; infinity is never.

A script is the part of the world that a test or a simulation decides: how long things take, how the command ends, and
everything that goes wrong on a machine without the cloud's knowledge.
"""

from dataclasses import dataclass
from math import inf

from tpufn.domain.orders import Phase

KILLED = 137
"""The exit code of a command that KILL ended."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """One worker through one attempt. What has `_at` in its name counts from the start of the command."""

    accept: float = 0.2  # from the delivery to `accepted`
    prepare: float = 1.0  # from there to `prepared`, or to the failure in `fails_in`
    fails_in: Phase | None = None  # DEVICE: it is busy; SETUP: the bundle, a secret
    run: float = 60.0  # what the command needs over all attempts: a checkpoint saves what was done
    code: int = 0
    signature: str = ""
    reason: str = ""
    checkpoint: float = 0.0  # progress is kept every so many seconds; 0: never
    on_term: float = 0.5  # from TERM to the end; past the grace it is KILLed
    term_code: int = 143
    hears_notice: bool = True
    closing: float = 0.2  # from the end to `closed`
    clean: bool = True  # whether nothing is left behind
    caches: tuple[str, ...] = ()
    dies_at: float = inf  # the agent and the command are gone without a word, the host stays
    vanishes_at: float = inf  # the whole host is gone
    silent_at: float = inf  # the network is gone; the work goes on
    silent_for: float = inf
    mute_at: float = inf  # heartbeats stop, all else goes on
    sibling_death: float = inf  # from another worker's loss or failure to this one's end with `sibling_code`
    sibling_code: int = 134
    sibling_signature: str = "sibling-death"  # what its output shows of that


@dataclass(frozen=True, kw_only=True)
class HostScript:
    """One machine of one TPU."""

    boot: float = 0.0  # from its address to its first answer
    is_deaf: bool = False  # it never answers anything
    lost_launches: int = 0  # so many deliveries do not reach it
    late_launch: float = 0.0  # ... or they do after all, so many seconds after their caller gave up; 0: never
