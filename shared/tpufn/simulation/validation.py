"""What the API checks of a create call before anything else. The first thing that is wrong is what it says.

Sources: Cloud TPU API v2, node ids and labels (Google Cloud's rules for labels); the catalogue of types and zones.
"""

import re

from tpufn.domain.cloud import CreateOrder
from tpufn.domain.errors import Refused
from tpufn.domain.fleet import Model
from tpufn.simulation.capacity import Capacity
from tpufn.simulation.texts import refusal

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


def check(order: CreateOrder, capacity: Capacity) -> None:
    """Raise Refused for an order that can never work. Its zone is known to exist."""
    problem = _problem(order, capacity) or _label_problem(order)
    if problem is not None:
        raise problem


def _problem(order: CreateOrder, capacity: Capacity) -> Refused | None:
    key = f"{order.zone}/{order.name}"
    if not _NAME.fullmatch(order.name):
        return refusal("bad-name", key=key, name=order.name, pattern=_NAME.pattern)
    if not capacity.offers(order.type, order.zone):
        return refusal("structural-type", key=key, type=order.type, zone=order.zone)
    if not order.runtime:
        return refusal("bad-runtime", key=key)
    if order.model not in set(Model):
        return refusal("bad-model", key=key, model=order.model)
    if order.model == Model.RESERVED and not order.reservation:
        return refusal("bad-reservation", key=key)
    return None


def _label_problem(order: CreateOrder) -> Refused | None:
    for label, value in order.labels.items():
        for text, pattern in ((label, _LABEL_KEY), (value, _LABEL_VALUE)):
            if not pattern.fullmatch(text):
                return refusal("bad-label", key=order.name, label=f"{label}={value}", pattern=pattern.pattern)
    return None
