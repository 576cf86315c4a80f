"""The side door of the simulated cloud's server: what nature, other people and tests do.

It is one gRPC method with JSON both ways: {"verb": ..., and the verb's own arguments}, answered by {"value": ...} or
{"error": ...}. `Door` is the other end of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

import grpc  # type: ignore[import-untyped]  # the package has no types
import msgspec

from tpufn.domain.cloud import NodeState
from tpufn.domain.errors import InputError, TpufnError
from tpufn.ports import Clock
from tpufn.simulation.capacity import Place
from tpufn.simulation.clock import VirtualClock
from tpufn.simulation.life import Phase
from tpufn.simulation.server_tpu import TpuService

_SERVICE, _METHOD = "tpufn.simulation.Door", "Do"
_TIMEOUT = 30.0


class DoorService:
    """The server's end. Each verb is a method of `SimulatedCloud`, of its faults, or of the service."""

    def __init__(self, service: TpuService, clock: Clock) -> None:
        self._service, self._clock = service, clock
        cloud = service.cloud
        self._verbs: Mapping[str, Callable[..., Any]] = {
            "inject": self._inject,
            "clear": cloud.faults.clear,
            "armed": cloud.faults.armed,
            "preempt": self._preempt,
            "set_chips": lambda place, chips: cloud.set_chips(place_of_text(place), chips),
            "add_foreign": self._add_foreign,
            "provisioned": cloud.provisioned,
            "usage": cloud.usage,
            "cost": cloud.cost,
            "snapshot": self._snapshot,
            "advance": self._advance,
            "say": service.say,
            "delay": self._delay,
            "calls": lambda: [call.method for call in service.calls],
        }

    def handler(self) -> grpc.GenericRpcHandler:
        method = grpc.unary_unary_rpc_method_handler(
            lambda request, _context: self.answer(request),
            request_deserializer=msgspec.json.decode,
            response_serializer=msgspec.json.encode,
        )
        return grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: method})

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        arguments = {key: value for key, value in request.items() if key != "verb"}
        verb = self._verbs.get(str(request.get("verb", "")))
        if verb is None:
            return {"error": f"no such verb; there are {', '.join(self._verbs)}"}
        try:
            return {"value": msgspec.to_builtins(verb(**arguments))}
        except (TpufnError, TypeError, ValueError) as error:
            return {"error": str(error)}

    def _inject(self, fault: str, end_state: str = NodeState.PREEMPTED, **filters: Any) -> None:
        self._service.cloud.faults.inject(fault, end_state=NodeState(end_state), **filters)

    def _preempt(self, name: str, end_state: str = NodeState.PREEMPTED, **how: Any) -> None:
        self._service.cloud.preempt(name, end_state=NodeState(end_state), **how)

    def _add_foreign(
        self, name: str, zone: str, type: str, phase: str = Phase.ACTIVE, node: str | None = NodeState.READY, **how: Any
    ) -> None:
        state = None if node is None else NodeState(node)
        self._service.cloud.add_foreign(name, zone, type, phase=Phase(phase), node=state, **how)

    def _snapshot(self) -> Any:
        snapshot = self._service.cloud.snapshot()
        return {
            "now": snapshot.now,
            "resources": snapshot.resources,
            "used": {str(place): chips for place, chips in snapshot.used.items()},
            "held": {str(place): chips for place, chips in snapshot.held.items()},
            "calls": snapshot.calls,
        }

    def _advance(self, seconds: float = 0.0) -> float:
        """Let time pass, where the server's clock is virtual, and everything happen that is due."""
        if seconds and not isinstance(self._clock, VirtualClock):
            raise InputError("this server's clock is the machine's: it cannot be moved")
        if isinstance(self._clock, VirtualClock):
            self._clock.advance(seconds)
        self._service.cloud.advance()
        return self._clock.now()

    def _delay(self, seconds: float) -> None:
        """How long an operation takes from now on."""
        self._service.operations.delay = seconds


class Door:
    """The caller's end: `Door("127.0.0.1:9000").inject("stockout", zone="us-east1-d")`. Raises InputError.

    `faults` is the door itself, so that it can stand where a test has the cloud at hand.
    """

    def __init__(self, endpoint: str) -> None:
        self._channel = grpc.insecure_channel(endpoint)
        self._do = self._channel.unary_unary(
            f"/{_SERVICE}/{_METHOD}",
            request_serializer=msgspec.json.encode,
            response_deserializer=msgspec.json.decode,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def do(self, verb: str, **arguments: Any) -> Any:
        """Any verb by name."""
        answer = self._do({"verb": verb, **arguments}, timeout=_TIMEOUT, wait_for_ready=True)
        if "error" in answer:
            raise InputError(answer["error"])
        return answer["value"]

    @property
    def faults(self) -> Self:
        return self

    def inject(self, fault: str, **filters: Any) -> None:
        self.do("inject", fault=fault, **filters)

    def clear(self, fault: str = "") -> None:
        self.do("clear", fault=fault)

    def preempt(self, name: str, **how: Any) -> None:
        self.do("preempt", name=name, **how)

    def set_chips(self, place: Place, chips: int | None) -> None:
        self.do("set_chips", place=str(place), chips=chips)

    def add_foreign(self, name: str, zone: str, type: str, **how: Any) -> None:
        self.do("add_foreign", name=name, zone=zone, type=type, **how)

    def provisioned(self, *, foreign: bool = False) -> int:
        return int(self.do("provisioned", foreign=foreign))

    def advance(self, seconds: float = 0.0) -> float:
        return float(self.do("advance", seconds=seconds))

    def say(self, method: str, code: int, text: str, *, times: int = 1) -> None:
        self.do("say", method=method, code=code, text=text, times=times)

    def snapshot(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.do("snapshot")
        return found


def place_of_text(text: str) -> Place:
    """`spot:v6e:us-east1-d`, as places are written. Raises InputError."""
    parts = text.split(":")
    if len(parts) != 3:
        raise InputError(f"not a place: {text!r}; places look like spot:v6e:us-east1-d")
    return Place(*parts)
