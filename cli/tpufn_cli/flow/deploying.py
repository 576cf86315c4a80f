"""What `tpufn deploy` and `destroy` show: a line a step, a line a resource; or JSON, one event per line."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tpufn.domain.errors import InputError
from tpufn_cli.render.jsonable import print_event
from tpufn_cli.render.words import count

if TYPE_CHECKING:
    from tpufn.deploy.steps import Deployed
    from tpufn.deploy.terraform import Change, Plan
    from tpufn.domain.fleet import Fleet

_SIGNS = {"create": "+", "update": "~", "delete": "-", "replace": "±", "read": "·"}
_WIDTH = 12


class Lines:
    """For people. In a terminal a step is shown while it runs; elsewhere when it is done."""

    def __init__(self, *, yes: bool) -> None:
        self._yes, self._step, self._begun = yes, "", 0.0
        self._live = sys.stderr.isatty()

    def begin(self, step: str) -> None:
        self._step, self._begun = step, time.monotonic()
        if self._live:
            click.echo(f"\r  {step:<{_WIDTH}} …", nl=False, err=True)

    def end(self, text: str) -> None:
        seconds = time.monotonic() - self._begun
        took = f" ({seconds:.0f}s)" if seconds >= 1.0 else ""
        click.echo(f"{self._clear()}{click.style('✓', fg='green')} {self._step:<{_WIDTH}} {text}{took}", err=True)

    def change(self, change: Change) -> None:
        click.echo(
            f"{self._clear()}    {_SIGNS.get(change.action, ' ')} {change.address} {change.seconds:.0f}s", err=True
        )

    def plan(self, plan: Plan) -> None:
        for address, action in sorted(plan.changes.items()):
            self._resource(action, address)

    def _resource(self, action: str, text: str) -> None:
        click.echo(f"{self._clear()}    {_SIGNS.get(action, ' ')} {text}", err=True)

    def agree(self, question: str) -> bool:
        if self._yes:
            return True
        if not sys.stdin.isatty():
            raise InputError(f"{question}: nobody is there to agree; `--yes` agrees beforehand")
        return click.confirm(f"{self._clear()}{question}?", err=True)

    def event(self, event: str, **data: Any) -> None:
        """Only for scripts."""

    def _clear(self) -> str:
        return "\r\033[K" if self._live else ""


class Events:
    """For scripts. Without `--yes` nothing is agreed to."""

    def __init__(self, *, yes: bool) -> None:
        self._yes, self._step = yes, ""

    def begin(self, step: str) -> None:
        self._step = step

    def end(self, text: str) -> None:
        self.event("step", step=self._step, text=text)

    def change(self, change: Change) -> None:
        self.event("resource", address=change.address, action=change.action, seconds=change.seconds)

    def plan(self, plan: Plan) -> None:
        self.event("plan", changes=dict(plan.changes))

    def agree(self, question: str) -> bool:
        if not self._yes:
            raise InputError(f"{question}: nobody is asked with `--json`; `--yes` agrees beforehand")
        return True

    def event(self, event: str, **data: Any) -> None:
        print_event({"event": event, **data})


def teller(*, yes: bool, as_json: bool) -> Lines | Events:
    return Events(yes=yes) if as_json else Lines(yes=yes)


def closing(tell: Lines | Events, fleet: Fleet, done: Deployed, *, again: str) -> None:
    """What is there, what it costs while nothing runs, and how to use it."""
    tell.event("deployed", name=fleet.name, project=fleet.project, changed=done.changed, outputs=dict(done.outputs))
    if isinstance(tell, Events):
        return
    facts = {
        "functions": ", ".join(sorted(done.outputs.get("functions", {}))),
        "topics": f"tpufn-{fleet.name}-submissions takes jobs from other services",
        "database": str(done.outputs.get("database", "")),
        "fleet": count(len(fleet.pools), "pool"),
        "while idle": f"under $1 a month for the ticks, and {_warm(fleet)} for TPUs that are kept warm",
    }
    click.echo(f"\n{fleet.name} runs in project {fleet.project}")
    for name, text in facts.items():
        click.echo(f"{name:<11} {text}")
    click.echo(f"next: {again}", err=True)


def left(tell: Lines | Events, kept: Sequence[str]) -> None:
    tell.event("destroyed", left=list(kept))
    if not isinstance(tell, Events):
        click.echo("\nnothing of it is left but:")
        for line in kept:
            click.echo(f"  {line}")


def _warm(fleet: Fleet) -> str:
    from tpufn.domain.accelerators import price_per_hour
    from tpufn.domain.fleet import Model

    cost = sum(
        pool.keep_warm * price_per_hour(pool.type, pool.zone, spot=pool.model is Model.SPOT) for pool in fleet.pools
    )
    return f"${cost:.2f}/h"
