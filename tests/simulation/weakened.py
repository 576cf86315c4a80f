"""The system with one of its safeguards taken out: what a storm must find. Each goes in through a port or a value."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tpufn.codec import reference
from tpufn.decide.decision import Retry, Step
from tpufn.domain.effects import Kind, Row
from tpufn.domain.orders import StopOrder
from tpufn.domain.policy import Policy
from tpufn.flows.effects import PERFORMERS
from tpufn.ports import Commit, Cut, Ports
from tpufn.runner import Performer

from .storm import Parts


class Through:
    """A port that hands everything on to another one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Careless(Through):
    """A store whose commit takes whatever version is there."""

    def commit(self, commit: Commit) -> None:
        with self._inner.cut() as cut:
            writes = tuple(replace(d, version=_version(cut, d)) for d in commit.writes)
            deletes = tuple(replace(d, version=_version(cut, d)) for d in commit.deletes if _version(cut, d))
        self._inner.commit(replace(commit, writes=writes, deletes=deletes))


def _version(cut: Cut, document: Any) -> str:
    kind, id = reference(document)
    read = {"outbox": cut.row, "fleet": lambda _: cut.fleet(), "scope": _scope(cut), "outcome": lambda _: None}
    there = read.get(kind) or getattr(cut, kind)
    found = there(id)
    return found.version if found else ""


def _scope(cut: Cut) -> Callable[[str], Any]:
    return lambda id: next((s for s in cut.scopes() if s.id == id), None)


class Graveless(Through):
    """Workers that keep no tombstone: a launch that comes after the stop of its attempt is let in."""

    def stop(self, order: StopOrder) -> Mapping[int, str]:
        missing = self._inner.stop(order)
        for host in self._inner.hosts(order.tpu):
            host.tombstone = 0
        return missing


def _never_again(cut: Cut, row: Row, result: Any, policy: Policy) -> Step | Retry:
    """A delete that did not succeed is forgotten."""
    step = PERFORMERS[row.effect.kind].record(cut, row, result, policy)
    return Step() if isinstance(step, Retry) else step


def _performers() -> dict[Kind, Performer]:
    once = Performer(perform=PERFORMERS[Kind.DELETE].perform, record=_never_again)
    return {**PERFORMERS, Kind.DELETE: once, Kind.SWEEP: replace(once, perform=PERFORMERS[Kind.SWEEP].perform)}


def _store(weak: Callable[[Any], Any]) -> Parts:
    return Parts(wrap=lambda ports: _with(ports, store=weak(ports.store)))


def _with(ports: Ports, **changes: Any) -> Ports:
    return replace(ports, **changes)


_AT_ONCE = 0.001
"""A claim that has ended before anybody else looks."""
WEAKENED: Mapping[str, Callable[[], Parts]] = {
    "no version check on commit": lambda: _store(Careless),
    "no settle window": lambda: Parts(policy=Policy(settle=0.0)),
    "no delete retry": lambda: Parts(performers=_performers()),
    "no tombstone": lambda: Parts(wrap=lambda ports: _with(ports, workers=Graveless(ports.workers))),
    "no claim on outbox rows": lambda: Parts(policy=Policy(effect_claim=_AT_ONCE)),
}
