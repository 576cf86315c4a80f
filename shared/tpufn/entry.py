"""The door of every deployed function: decode the event, run the function, answer.

Returning acknowledges the event, raising has it delivered again. So a malformed event is recorded in the dead letters
and acknowledged (delivering it again cannot help), and a transient fault raises. Each handled event is one JSON line
of log with the decision's reason.
"""

import base64
import functools
import json
import sys
from typing import TYPE_CHECKING

from tpufn.domain.errors import InputError
from tpufn.domain.events import Event, WorkerEvent, Written
from tpufn.runner import Runner
from tpufn.wire import from_cloud_event, raw

if TYPE_CHECKING:
    from cloudevents.http import CloudEvent


def serve(name: str, cloud_event: "CloudEvent") -> None:
    """Handle one CloudEvent with the function of that name."""
    from tpufn.flows import registry

    runner = _runner(name)
    try:
        event = from_cloud_event(cloud_event)
    except InputError as error:
        _bury(runner, name, cloud_event, str(error))
        return
    if not registry.cares(name, event):
        return
    try:
        reason = _tell(runner, event) if name == "notify" else runner.handle(registry.function(name), event)
    except Exception as error:
        log(name, "ERROR", f"{type(error).__name__}: {error}", **about(event))
        raise
    log(name, "INFO", reason, **about(event))


def _tell(runner: Runner, event: Event) -> str:
    """`notify` decides nothing about jobs: it tells people, where the deployment names an ntfy topic."""
    from tpufn.announce import notify

    return notify(runner.ports.store, event)


def log(function: str, severity: str, message: str, **more: str) -> None:
    """One line of structured log, as Cloud Logging reads it from standard output."""
    line = json.dumps({"severity": severity, "message": message, "function": function, **more})
    sys.stdout.write(line + "\n")  # at once: handlers are threads, and two lines must not mix


def about(event: Event) -> dict[str, str]:
    """The job and attempt that an event is about, as far as it says so."""
    match event:
        case Written(kind="attempt", id=id) | WorkerEvent(attempt=id):
            return {"event": type(event).__name__, "attempt": id, "job": id.rpartition(".")[0]}
        case Written(kind=kind, id=id):
            return {"event": "Written", kind: id}
        case _:
            target = getattr(event, "target", "") or getattr(event, "entity", "") or getattr(event, "id", "")
            return {"event": type(event).__name__, "target": target}


def _bury(runner: Runner, name: str, cloud_event: "CloudEvent", problem: str) -> None:
    """Keep what cannot be read, as `adapters.pubsub_dead_letters` shows it and sends it again."""
    topic, data = raw(cloud_event)
    id, coded = str(cloud_event.get("id")), base64.b64encode(data).decode()
    body = {"function": name, "id": id, "type": str(cloud_event.get("type")), "topic": topic, "problem": problem}
    runner.ports.bus.publish("dead-letters", {**body, "data": coded})
    log(name, "WARNING", f"not readable, kept in the dead letters: {problem}", id=id)


@functools.cache
def _runner(name: str) -> Runner:
    """Made at the first event and kept: instances reuse their channels, and an import stays an import."""
    from tpufn import settings
    from tpufn.bootstrap import cloud

    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return cloud.runner(settings.deployed(), function=name, complain=functools.partial(log, name, "ERROR"))
