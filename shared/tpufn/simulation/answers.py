"""What the API answers to a call that a fault strikes: one table, from the fault's name to the error."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tpufn.domain.accelerators import accelerator, region_of
from tpufn.domain.errors import TpufnError, Unknown
from tpufn.domain.fleet import Model
from tpufn.simulation.faults import Target
from tpufn.simulation.texts import EMPTY_OPERATION, permission_on, quota_metric, refusal


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call with what its refusal may have to name."""

    project: str
    target: Target
    limit: int = 0  # of the quota in question
    code: int = 0  # instead of the text's own
    state: str = ""  # of the queued resource

    @property
    def key(self) -> str:
        """What the error id is made from."""
        return f"{self.target.call}:{self.target.zone}/{self.target.name}"


def answer(fault: str, call: Call) -> TpufnError:
    """The error that this fault makes of this call."""
    return _ANSWERS[fault](call)


def over_quota(call: Call, *, place: str, text: str) -> TpufnError:
    """A quota refusal: `place` is the zone or the region that the quota covers, `text` one of the two wordings."""
    kind = accelerator(call.target.type)
    scope = "zone" if place == call.target.zone else "region"
    metric = quota_metric(kind.family, spot=call.target.model == Model.SPOT, kind=scope, chips=kind.chips)
    return refusal(text, key=call.key, code=call.code, metric=metric, limit=call.limit, kind=scope, place=place)


def missing(call: Call) -> TpufnError:
    return refusal("missing", key=call.key, resource=_path(call))


def exists(call: Call) -> TpufnError:
    return refusal("exists", key=call.key, resource=_path(call))


def _path(call: Call) -> str:
    return f"projects/{call.project}/locations/{call.target.zone}/queuedResources/{call.target.name}"


def _timed_out(call: Call) -> TpufnError:
    target = call.target
    return Unknown(f"{target.call} {target.name} in {target.zone}: no answer before the deadline".replace("  ", " "))


def _said(text: str, *, code: int = 0) -> Callable[[Call], TpufnError]:
    def say(call: Call) -> TpufnError:
        zone = call.target.zone
        return refusal(
            text,
            key=call.key,
            code=call.code or code,
            zone=zone,
            type=call.target.type,
            region=region_of(zone),
            state=call.state,
        )

    return say


def _forbidden(call: Call) -> TpufnError:
    target = call.target
    permission, resource = permission_on(target.call, project=call.project, zone=target.zone, name=target.name)
    return refusal("permission", permission=permission, resource=resource)


def _quota(text: str, *, zero: bool) -> Callable[[Call], TpufnError]:
    def say(call: Call) -> TpufnError:
        limit = 0 if zero else call.limit
        call = Call(project=call.project, target=call.target, limit=limit, code=call.code)
        return over_quota(call, place=region_of(call.target.zone), text=text)

    return say


_ANSWERS: Mapping[str, Callable[[Call], TpufnError]] = MappingProxyType(
    {
        "zone-dead": _timed_out,
        "zone-forbidden": _said("structural-location"),
        "permission": _forbidden,
        "rate-limit": _said("rate-limit"),
        "timeout-lost": _timed_out,
        "timeout-late": _timed_out,
        "timeout-applied": _timed_out,
        "empty-operation": lambda _call: Unknown(EMPTY_OPERATION),
        "stockout": _said("stockout"),
        "reserved-stockout": _said("reserved-stockout"),
        "quota-zero": _quota("quota-http", zero=True),
        "quota-zero-operation": _quota("quota-failure", zero=True),
        "quota-full": _quota("quota-failure", zero=False),
        "quota-full-http": _quota("quota-http", zero=False),
        "quota-address-create": _said("quota-address", code=403),
        "structural-type": _said("structural-type"),
        "structural-location": _said("structural-location"),
        "delete-refused": _said("delete-refused"),
    }
)
