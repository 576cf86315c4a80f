"""What the cloud says of a TPU: queued resource and node as one observation. States are the API's own names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tpufn.domain.slot import Worker


class QueuedResourceState(StrEnum):
    CREATING = "CREATING"
    ACCEPTED = "ACCEPTED"
    PROVISIONING = "PROVISIONING"
    FAILED = "FAILED"
    DELETING = "DELETING"
    ACTIVE = "ACTIVE"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    WAITING_FOR_RESOURCES = "WAITING_FOR_RESOURCES"


class NodeState(StrEnum):
    CREATING = "CREATING"
    READY = "READY"
    RESTARTING = "RESTARTING"
    REIMAGING = "REIMAGING"
    DELETING = "DELETING"
    REPAIRING = "REPAIRING"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    STARTING = "STARTING"
    PREEMPTED = "PREEMPTED"
    TERMINATED = "TERMINATED"
    HIDING = "HIDING"
    HIDDEN = "HIDDEN"
    UNHIDING = "UNHIDING"
    UNKNOWN = "UNKNOWN"


class Health(StrEnum):
    UNSPECIFIED = ""
    HEALTHY = "HEALTHY"
    TIMEOUT = "TIMEOUT"
    UNHEALTHY_TENSORFLOW = "UNHEALTHY_TENSORFLOW"
    UNHEALTHY_MAINTENANCE = "UNHEALTHY_MAINTENANCE"


DEAD_NODES = frozenset({NodeState.PREEMPTED, NodeState.TERMINATED, NodeState.STOPPED})
"""Node states that are a stop proof: nothing runs there any more."""
LOST_NODES = DEAD_NODES | {
    NodeState.REPAIRING,
    NodeState.UNKNOWN,
    NodeState.HIDING,
    NodeState.HIDDEN,
    NodeState.DELETING,
}
"""Node states in which a TPU is of no use to us any more, though it may still eat quota."""
DEAD_REQUESTS = frozenset({QueuedResourceState.FAILED, QueuedResourceState.SUSPENDING, QueuedResourceState.SUSPENDED})


@dataclass(frozen=True, kw_only=True)
class CreateOrder:
    """Everything that a create call needs. The name is both the queued resource's and the node's id."""

    name: str
    zone: str
    type: str
    runtime: str
    model: str
    request_id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    network: str = ""
    subnetwork: str = ""
    external_ips: bool = True
    reservation: str = ""
    startup_script: str = ""
    service_account: str = ""
    valid_for: float = 0.0  # seconds; 0: until deleted


@dataclass(frozen=True, kw_only=True)
class Tpu:
    """A queued resource and its node. Either half may be missing: None."""

    name: str
    zone: str
    type: str = ""
    model: str = ""
    request: QueuedResourceState | None = None
    node: NodeState | None = None
    health: Health = Health.UNSPECIFIED
    labels: Mapping[str, str] = field(default_factory=dict)
    workers: tuple[Worker, ...] = ()
    error_code: int = 0  # of the queued resource's failed data
    error: str = ""
    created_at: float = 0.0

    @property
    def is_ready(self) -> bool:
        """READY and HEALTHY with endpoints; a missing health is not healthy (it may only be late)."""
        return self.node is NodeState.READY and self.health is Health.HEALTHY and bool(self.workers)

    @property
    def is_dead(self) -> bool:
        """Whether it can be of no use any more: reclaimed, failed, suspended or lost."""
        return self.node in LOST_NODES or self.request in DEAD_REQUESTS or self.request is QueuedResourceState.DELETING

    @property
    def proves_stop(self) -> bool:
        """Whether nothing can run on it any more."""
        return self.node in DEAD_NODES


LABEL_DEPLOYMENT, LABEL_NONCE, LABEL_SLOT, LABEL_GENERATION = "tpufn", "tpufn-nonce", "tpufn-slot", "tpufn-generation"


def ownership_labels(deployment: str, nonce: str, slot: str, generation: int) -> dict[str, str]:
    """The labels that make a cloud resource ours: deployment, nonce, slot, generation."""
    return {
        LABEL_DEPLOYMENT: deployment,
        LABEL_NONCE: nonce,
        LABEL_SLOT: slot,
        LABEL_GENERATION: str(generation),
    }
