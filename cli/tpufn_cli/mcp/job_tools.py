"""The tools about jobs and the fleet. Docstrings are what the assistant reads."""

import json
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from tpufn.domain.errors import CloudUnavailable, InputError
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import JobState, Priority
from tpufn.domain.notes import Note
from tpufn_cli.console.logtail import page
from tpufn_cli.console.site import Site
from tpufn_cli.failures import problems
from tpufn_cli.mcp import results
from tpufn_cli.mcp.slot_tools import refuse_unconfirmed
from tpufn_cli.render import words
from tpufn_cli.render.jsonable import jsonable
from tpufn_cli.render.notes import line as note_line

_HISTORY = 30
_SIMULATION_SECONDS = 600.0
Limit = Annotated[int, Field(ge=1, le=1000)]
Bytes = Annotated[int, Field(ge=256, le=262144)]


class JobTools:
    """`site` opens the deployment, at the first call that needs it."""

    def __init__(self, site: Callable[[], Site]) -> None:
        self._site = site

    def submit_job(self, path: str, job_id: str = "", idempotency_key: str = "") -> results.Submitted:
        """Submit a job file (a path on this machine). The same idempotency_key again submits nothing new."""
        client, notes = self._site().client, list[str]()

        def progress(note: Note) -> None:
            notes.append(note_line(note, start=note.at).strip())

        receipt = client.submit(path, job_id=job_id, submission_id=idempotency_key, progress=progress)
        accepted = client.serves()
        if accepted:
            client.wait_accepted(receipt)
        return results.Submitted(jobs=list(receipt.jobs), submission=receipt.submission, accepted=accepted, notes=notes)

    def list_jobs(self, states: list[str] | None = None, limit: Limit = 50) -> results.JobList:
        """List jobs, newest first; `states` keeps only these states (pending, waiting, active, succeeded, ...)."""
        known = [state.value for state in JobState]
        for state in states or ():
            if state not in known:
                raise InputError(f"{state!r} is not a state; the states are {', '.join(known)}")
        now = time.time()
        found = self._site().client.jobs(states=states or (), limit=limit)
        return results.JobList(jobs=[results.job_row(job, now) for job in found])

    def job_status(self, id: str) -> results.JobDetails:
        """Show one job: facts, attempts, and the last of its history."""
        view = self._site().client.job(id)
        return results.JobDetails(
            job=jsonable(view.job),
            attempts=[jsonable(attempt) for attempt in view.attempts],
            history=[jsonable(note) for note in view.history[-_HISTORY:]],
        )

    def why_job(self, id: str) -> results.Why:
        """Say what a job waits for, pool by pool, or why it ended as it did."""
        why = self._site().client.why(id)
        return results.Why(
            job=why.job,
            state=why.state,
            headline=why.headline,
            ahead=why.ahead,
            pools=[results.pool_row(pool) for pool in why.pools],
            evidence=list(why.evidence),
        )

    def job_logs(
        self, id: str, attempt: int | None = None, worker: int | None = None, cursor: str = "", max_bytes: Bytes = 16384
    ) -> results.Logs:
        """Read a job's output: what came after `cursor`, at most max_bytes. Give back the cursor to read on."""
        found = page(self._site().client, id, attempt=attempt, worker=worker, cursor=cursor, limit=max_bytes)
        lines = [
            f"{piece.attempt}.w{piece.worker} {words.printable(line)}"
            for piece in found.pieces
            for line in piece.data.decode("utf-8", "replace").splitlines()
        ]
        return results.Logs(text="\n".join(lines), cursor=found.cursor, more=found.more)

    def cancel_job(self, id: str, confirm: bool = False) -> results.Answer:
        """Cancel a job; a running one is stopped on all workers. Needs confirm=true."""
        refuse_unconfirmed(confirm, f"cancels {id}, which cannot be taken back")
        return results.Answer(answers=dict(self._site().client.cancel((id,))))

    def retry_job(self, id: str) -> results.Answer:
        """Submit a failed or cancelled job again under a new id, with its checkpoints."""
        return results.Answer(answers={id: f"goes on as {self._site().client.retry(id)}"})

    def set_priority(self, id: str, priority: Literal["low", "normal", "high"]) -> results.Answer:
        """Change a job's place in the queue; a running job is never stopped for another."""
        return results.Answer(answers={id: self._site().client.set_priority(id, Priority[priority.upper()])})

    def fleet_status(self) -> results.Fleet:
        """Show the deployment at a glance: jobs, slots, chips, cost per hour, and each pool with its cool-down."""
        client = self._site().client
        return results.fleet_of(client.status(), client.where, client.pools())

    def validate_job(self, path: str) -> results.Validation:
        """Check a job file against the fleet without submitting it; names every problem with its fix."""
        from tpufn.spec.jobs import load_jobs

        try:
            loaded = load_jobs(path, fleet=self._fleet())
        except InputError as error:
            return results.Validation(valid=False, problems=problems(error), warnings=[], jobs=[])
        found: list[dict[str, Any]] = jsonable(loaded.normalised["jobs"])
        return results.Validation(valid=True, problems=[], warnings=list(loaded.warnings), jobs=found)

    def _fleet(self) -> Fleet | None:
        """The fleet to hold a job against; None where no deployment is chosen: the file is still checked."""
        try:
            return self._site().fleet
        except InputError:
            return None

    def simulate(
        self, deployment: str, jobs: str, days: Annotated[float, Field(gt=0, le=60)] = 14
    ) -> results.Simulation:
        """Simulate a deployment file under a load of jobs (both paths): waits, utilisation, preemptions, cost."""
        from tpufn_cli.console.children import Children

        lines: list[str] = []
        command = [sys.executable, "-m", "tpufn_cli", "simulate", deployment, jobs, "--days", f"{days:g}", "--json"]
        code = Children().run(command, line=lines.append, timeout=_SIMULATION_SECONDS)
        if code:
            raise InputError("\n".join(lines[-10:]) or f"`tpufn simulate` ended with {code}")
        return results.Simulation(report=_report(lines))


def _report(lines: list[str]) -> dict[str, Any]:
    """The JSON document among the lines: progress may come before it."""
    start = next((number for number, line in enumerate(lines) if line.startswith("{")), None)
    if start is None:
        raise CloudUnavailable("`tpufn simulate` printed no report")
    found = json.loads("\n".join(lines[start:]))
    return dict(found)
