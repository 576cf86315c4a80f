"""The Cloud TPU API's own words, word for word as users have reported them, with their codes.

Codes are gRPC status numbers, or the HTTP status where the refusal comes from the layer in front of the service (403,
429). Most messages end in an error id, `[EID: 0x...]`. The last group below is not from reports: plain texts in the
same style, for requests that are wrong in themselves.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tpufn.domain.errors import Refused


@dataclass(frozen=True)
class Text:
    """A code, a template, and whether the service appends its error id."""

    code: int
    template: str
    has_id: bool = True


_BAD = "Cloud TPU received a bad request. "

TEXTS: Mapping[str, Text] = MappingProxyType(
    {
        "stockout": Text(
            8,
            'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are '
            "offered (see https://cloud.google.com/tpu/docs/regions)",
        ),
        "reserved-stockout": Text(
            9, "Insufficient reserved capacity. Contact customer support to increase your reservation."
        ),
        "preempted-while-creating": Text(3, _BAD + "update is not supported while in state PREEMPTED"),
        "quota-http": Text(429, "Quota limit '{metric}' has been exceeded. Limit: {limit} in {kind} {place}."),
        "quota-failure": Text(8, "Quota '{metric}' exhausted. Limit {limit} in {kind} {place}"),
        "quota-address": Text(8, "Quota 'IN_USE_ADDRESSES' exceeded. Limit: 8.0 in region {region}"),
        "structural-type": Text(
            3,
            _BAD + 'The requested accelerator configuration for accelerator type, "{type}", could not be found in the '
            'zonal accelerator configurations for "{zone}".; the accelerator {type} was not found in zone {zone}',
        ),
        "structural-location": Text(
            403,
            "Permission denied on 'locations/{zone}' (or it may not exist). [reason: \"LOCATION_POLICY_VIOLATED\"]",
            False,
        ),
        "permission": Text(403, "Permission '{permission}' denied on '{resource}'", False),
        "delete-refused": Text(
            9,
            "DeleteQueuedResource is not supported when state is {state} (must be one of [ACCEPTED "
            "WAITING_FOR_RESOURCES SUSPENDED FAILED])",
        ),
        "rate-limit": Text(429, "Resource has been exhausted (e.g. check quota).", False),
        "exists": Text(6, "Resource '{resource}' already exists"),
        "missing": Text(5, "Resource '{resource}' was not found"),
        "expired": Text(4, "The queued resource was not provisioned before its valid_until time."),
        "bad-name": Text(3, _BAD + 'The id "{name}" is not valid; ids match {pattern}'),
        "bad-label": Text(3, _BAD + 'The label "{label}" is not valid; labels match {pattern}'),
        "bad-runtime": Text(3, _BAD + "The field runtime_version is required."),
        "bad-model": Text(3, _BAD + 'The provisioning model "{model}" is not known.'),
        "bad-reservation": Text(3, _BAD + "A reserved queued resource must name its reservation."),
        "bad-request-id": Text(3, _BAD + 'The request id "{request_id}" was used for another resource.'),
    }
)

EMPTY_OPERATION = "Unexpected state: Long-running operation had neither response nor error set."
"""Made by the client library, not by the service: no code, no error id."""

_METRICS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "v2": ("TPUV2sPreemptiblePod", "TPUV2sPod"),
        "v3": ("TPUV3sPreemptiblePod", "TPUV3sPod"),
        "v4": ("TPUV4sPreemptiblePod", "TPUV4sPod"),
        "v5e": ("TPUV5sPreemptibleLitepod", "TPUV5sLitepod"),
        "v5e-serving": ("TPUV5sPreemptibleLitepodServing", "TPUV5sLitepodServing"),
        "v5p": ("TPUV5PPreemptible", "TPUV5P"),
        "v6e": ("TPUV6EPreemptible", "TPUV6E"),
    }
)
"""Quota metric stems (Spot, other). Those of v2, v3 and v5p follow the pattern of the reported ones."""


def say(kind: str, /, *, key: str = "", code: int = 0, **values: object) -> tuple[int, str]:
    """The code and the words of `kind`. `key` seeds the error id; `code` replaces the code (one text, two surfaces)."""
    text = TEXTS[kind]
    words = text.template.format_map(values)
    return code or text.code, f"{words} {error_id(f'{key}:{kind}')}" if text.has_id else words


def refusal(kind: str, /, *, key: str = "", code: int = 0, **values: object) -> Refused:
    """The error of `kind`, ready to raise."""
    return Refused(*say(kind, key=key, code=code, **values))


def error_id(key: str) -> str:
    """The suffix of most messages, the same for the same key."""
    return f"[EID: 0x{random.Random(key).getrandbits(64):016x}]"


def quota_metric(family: str, *, spot: bool, kind: str, chips: int) -> str:
    """The quota metric's name. `kind` is `region` or `zone`; small v5e slices count against the serving quota."""
    stems = _METRICS["v5e-serving" if family == "v5e" and chips <= 8 and kind == "zone" else family]
    return f"{stems[0] if spot else stems[1]}PerProjectPer{kind.capitalize()}ForTPUAPI"


def permission_on(call: str, *, project: str, zone: str, name: str) -> tuple[str, str]:
    """The permission that a call needs, and the resource that it needs it on, as a 403 names them."""
    location = f"projects/{project}/locations/{zone}"
    needs = {
        "create": ("tpu.queuedResources.create", location),
        "get": ("tpu.nodes.get", f"{location}/nodes/{name}"),
        "list": ("tpu.nodes.list", location),
        "update": ("tpu.nodes.update", f"{location}/nodes/{name}"),
        "delete": ("tpu.queuedResources.delete", f"{location}/queuedResources/{name}"),
    }
    return needs[call]
