"""`notify` in the table of functions. It changes nothing: telling people is `tpufn.announce`, called at the door."""

from tpufn.decide.decision import NOTHING, Decision
from tpufn.domain.events import Event
from tpufn.domain.policy import Policy
from tpufn.ports import Ports
from tpufn.runner import Function


def load(ports: Ports, event: Event, policy: Policy) -> None:
    """Nothing to read."""


def _decide(snapshot: None, event: Event, policy: Policy) -> Decision:
    return NOTHING


NOTIFY = Function(name="notify", load=load, decide=_decide, entity=lambda event: "")
