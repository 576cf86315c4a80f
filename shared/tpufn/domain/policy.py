"""Every duration and budget that a decision uses, in seconds, in one frozen value. The defaults are production's."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Policy:
    settle: float = 90.0  # after a non-zero exit or silence, before the verdict
    probe_after: float = 20.0  # after a failure: a host that still answers then is not being taken away
    heartbeat: float = 30.0
    missed_heartbeats: int = 3
    grace: float = 30.0  # between TERM and KILL
    stop_budget: float = 300.0  # for a stop proof by the agents (longer than a claim), then the TPU is deleted
    launch_budget: float = 600.0  # from lease to `go`
    boot_budget: float = 600.0  # READY to usable
    provisioning_budget: float = 7200.0  # can last 1-2 h and still succeed
    request_budget: float = 600.0  # a create call without any outcome
    effect_claim: float = 240.0  # longest run of one handler
    delete_backoff: float = 20.0
    delete_backoff_max: float = 600.0
    create_unknown: float = 600.0  # after the claim of a create ended, before "not found" is believed
    stockout_cooldown: float = 60.0
    cooldown_max: float = 1800.0
    quota_cooldown: float = 300.0
    rate_limit_cooldown: float = 30.0
    transient_cooldown: float = 15.0
    structural_cooldown: float = 21600.0  # what only the project or the deployment file can mend
    retry_backoff: float = 15.0  # the second infrastructure retry; doubles from there
    retry_backoff_max: float = 900.0
    quick_failure: float = 60.0  # a death within this time of the start is the machine's until shown otherwise
    crash_loop: int = 5  # quick infrastructure failures of a job in a row that end it
    long_wait: float = 86400.0  # a job that waited this long counts as most constrained
    idle_sweep: float = 600.0  # full listing of the cloud when every slot is free
    stray_grace: float = 60.0
    tick: float = 60.0


SANDBOX = Policy(
    settle=6.0,
    probe_after=1.0,
    heartbeat=0.5,
    missed_heartbeats=6,
    grace=5.0,
    stop_budget=25.0,
    launch_budget=60.0,
    boot_budget=30.0,
    provisioning_budget=60.0,
    request_budget=20.0,
    effect_claim=20.0,
    delete_backoff=0.5,
    delete_backoff_max=4.0,
    create_unknown=5.0,
    stockout_cooldown=5.0,
    cooldown_max=30.0,
    quota_cooldown=5.0,
    rate_limit_cooldown=2.0,
    transient_cooldown=1.0,
    structural_cooldown=300.0,
    retry_backoff=1.0,
    retry_backoff_max=30.0,
    quick_failure=2.0,
    idle_sweep=10.0,
    stray_grace=2.0,
    tick=0.5,
)
"""The sandbox's: everything about a hundred times faster, so that a person can watch it."""
