"""What the Cloud TPU API shows, as the domain's `Tpu`: a queued resource and a node of one name, either may be missing.

A state that this version does not know counts as CREATING: neither usable, nor lost, nor a proof of anything.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from google.cloud import tpu_v2

from tpufn.domain.cloud import Health, NodeState, QueuedResourceState, Tpu
from tpufn.domain.fleet import Model
from tpufn.domain.slot import Worker

E = TypeVar("E", bound=StrEnum)

_PREFIXES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {"V2": ("v2", 2), "V3": ("v3", 2), "V4": ("v4", 2), "V5P": ("v5p", 2), "V5LITE_POD": ("v5litepod", 1)}
    | {"V6E": ("v6e", 1)}
)
"""The API's hardware versions: the prefix of a type's name, and how many of its numbers make a chip."""


def view(name: str, zone: str, queued: tpu_v2.QueuedResource | None, node: tpu_v2.Node | None) -> Tpu:
    """Both halves as one observation. Labels, type and model are the node's where there is one, else what was asked."""
    asked = _asked(queued)
    shown = node if node is not None else asked
    error = queued.state.failed_data.error if queued else None
    return Tpu(
        name=name,
        zone=zone,
        type=_type(shown),
        model=_model(queued, shown),
        request=_known(QueuedResourceState, queued.state.state, QueuedResourceState.CREATING) if queued else None,
        node=_known(NodeState, node.state, NodeState.CREATING) if node else None,
        health=_known(Health, node.health, Health.UNSPECIFIED) if node else Health.UNSPECIFIED,
        labels=dict(shown.labels),
        workers=_workers(node) if node else (),
        error_code=error.code if error else 0,
        error=error.message if error else "",
        created_at=_created_at(queued, node),
    )


def merged(zone: str, queued: Iterable[tpu_v2.QueuedResource], nodes: Iterable[tpu_v2.Node]) -> tuple[Tpu, ...]:
    """Both listings of a zone, matched by name, in the order of names."""
    requests = {last(each.name): each for each in queued}
    built = {last(each.name): each for each in nodes}
    names = sorted(requests.keys() | built.keys())
    return tuple(view(name, zone, requests.get(name), built.get(name)) for name in names)


def last(name: str) -> str:
    """The unqualified id of a full resource name."""
    return name.rpartition("/")[2]


def _asked(queued: tpu_v2.QueuedResource | None) -> tpu_v2.Node:
    """The node that was asked for. Several nodes behind one request are somebody else's: the first speaks for all."""
    specs = queued.tpu.node_spec if queued else ()
    return specs[0].node if specs else tpu_v2.Node()


def _known(kind: type[E], value: object, otherwise: E) -> E:
    """The domain's name of an enumeration's value."""
    return next((each for each in kind if each.value == _name(value)), otherwise)


def _name(value: object) -> str:
    """An enumeration value's name; a number that the client's version does not know has none."""
    return str(getattr(value, "name", ""))


def _type(node: tpu_v2.Node) -> str:
    """The type's name; made from version and topology where somebody asked for these instead."""
    version = _name(node.accelerator_config.type_)
    if node.accelerator_type or version not in _PREFIXES:
        return node.accelerator_type
    prefix, numbers = _PREFIXES[version]
    chips = math.prod(int(side) for side in node.accelerator_config.topology.split("x") if side.isdigit())
    return f"{prefix}-{chips * numbers}"


def _model(queued: tpu_v2.QueuedResource | None, node: tpu_v2.Node) -> Model:
    terms = node.scheduling_config
    if terms.spot or terms.preemptible or (queued is not None and "spot" in queued):
        return Model.SPOT
    return Model.RESERVED if terms.reserved or (queued and queued.reservation_name) else Model.ON_DEMAND


def _workers(node: tpu_v2.Node) -> tuple[Worker, ...]:
    """One entry per worker: with n network configurations each worker has n endpoints in a row."""
    step = max(1, len(node.network_configs))
    return tuple(
        Worker(address=end.ip_address, reach=end.access_config.external_ip or end.ip_address)
        for end in node.network_endpoints[::step]
    )


def _created_at(queued: tpu_v2.QueuedResource | None, node: tpu_v2.Node | None) -> float:
    for half in (queued, node):
        if half is not None and "create_time" in half:
            return float(half.create_time.timestamp())
    return 0.0
