"""`tpufn destroy`: first the jobs and the TPUs, then the infrastructure; what is somebody's data stays.

The functions do the draining as long as they are there. What they do not know, or no longer can release, is deleted by
its labels: no TPU of ours may outlive the thing that would have torn it down.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tpufn.client import Client
from tpufn.deploy.steps import Told, Tools, Wish, without_protection
from tpufn.deploy.terraform import Terraform
from tpufn.deploy.workspace import prepare, state_bucket
from tpufn.domain.accelerators import FAMILIES
from tpufn.domain.cloud import LABEL_DEPLOYMENT, Tpu
from tpufn.domain.errors import Conflict, InputError, NotFound, Refused, Unknown
from tpufn.domain.fleet import Fleet
from tpufn.domain.job import TERMINAL, JobState

PAUSE = 5.0
"""Seconds between two looks at what is still there."""
_LIVE = tuple(state for state in JobState if state not in TERMINAL)


class Tpus(Protocol):
    """Of `ports.TpuCloud` what is needed here."""

    def list(self, zone: str) -> Sequence[Tpu]: ...
    def delete(self, name: str, zone: str) -> None: ...


Empty = Callable[[Fleet], None]
"""Declares a fleet: here one without pools, so that every slot is released when its job has ended."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Seconds: for jobs to end by themselves, and for TPUs to go."""

    jobs: float = 7 * 86400.0
    tpus: float = 1800.0


def destroy(
    wish: Wish,
    tools: Tools,
    told: Told,
    *,
    client: Client,
    tpus: Tpus,
    empty: Empty,
    force: bool,
    patience: Patience = Patience(),  # frozen
) -> tuple[str, ...]:
    """What is left, in words. Raises InputError where it is not agreed to, Conflict where something stays."""
    fleet = wish.fleet
    if not told.agree(f"destroy {fleet.name} in project {fleet.project}, with its TPUs, database and history"):
        raise InputError("nothing was destroyed: not agreed to; `--yes` agrees beforehand")
    _drain(client, tools, told, empty, force=force, patience=patience)
    _sweep(fleet, tpus, tools, told, patience.tpus)
    _infrastructure(without_protection(wish), tools, told)
    return _left(fleet, local_state=wish.local_state)


def _drain(client: Client, tools: Tools, told: Told, empty: Empty, *, force: bool, patience: Patience) -> None:
    told.begin("jobs")
    try:
        fleet = client.fleet()
    except NotFound:
        told.end("nothing is declared: there are none")
        return
    live = [job.id for job in client.jobs(states=_LIVE, limit=1000)]
    if force:
        for id in live:
            _cancel(client, id)
    if live and not force:
        told.end(f"waits for {len(live)} to end; `--force` cancels them")
        told.begin("jobs")
    _until(lambda: not client.jobs(states=_LIVE, limit=1), tools, patience.jobs, "jobs are still unfinished")
    told.end(f"{len(live)} cancelled" if force else "none is left")
    told.begin("slots")
    empty(replace(fleet, pools=()))
    adopted = {pool.id for pool in fleet.pools if pool.existing}
    _until(lambda: not _held(client, adopted), tools, patience.tpus, "slots still hold TPUs")
    told.end("all are released")


def _held(client: Client, adopted: Collection[str]) -> bool:
    return any(slot.tpu for slot in client.slots() if slot.pool not in adopted)


def _cancel(client: Client, id: str) -> None:
    try:
        client.cancel([id])
    except Conflict:
        return  # it has ended


def _sweep(fleet: Fleet, tpus: Tpus, tools: Tools, told: Told, patience: float) -> None:
    """By label, in every zone that sells TPUs: the file may have named others before."""
    told.begin("tpus")
    zones = sorted({*fleet.zones, *(zone for family in FAMILIES.values() for zone in family.zones)})
    deleted: set[str] = set()

    def gone() -> bool:
        ours = list(_ours(fleet.name, tpus, zones))
        for tpu in ours:
            deleted.add(tpu.name)
            _delete(tpus, tpu)
        return not ours

    _until(gone, tools, patience, "TPUs are still being deleted")
    told.end(f"deleted: {', '.join(sorted(deleted))}" if deleted else "none is left")


def _ours(name: str, tpus: Tpus, zones: Collection[str]) -> Iterator[Tpu]:
    for zone in zones:
        try:
            found = tpus.list(zone)
        except (Refused, Unknown):
            continue  # a zone that we may not use has nothing of ours
        yield from (tpu for tpu in found if tpu.labels.get(LABEL_DEPLOYMENT) == name)


def _delete(tpus: Tpus, tpu: Tpu) -> None:
    try:
        tpus.delete(tpu.name, tpu.zone)
    except (Refused, Unknown):
        return  # on its way, or again at the next look


def _infrastructure(wish: Wish, tools: Tools, told: Told) -> None:
    """Twice: what is protected must first be allowed to go."""
    told.begin("terraform")
    terraform = prepare(
        wish.folder, wish.fleet, local_state=wish.local_state, more=wish.variables, program=tools.program
    )
    backend = (
        {} if wish.local_state else {"bucket": state_bucket(wish.fleet.project), "prefix": f"tpufn/{wish.fleet.name}"}
    )
    terraform.init(backend)
    told.end("ready")
    for step, is_end in (("protection", False), ("destroy", True)):
        told.begin(step)
        _carry_out(terraform, told, is_end=is_end)


def _carry_out(terraform: Terraform, told: Told, *, is_end: bool) -> None:
    plan = terraform.plan(destroy=is_end)
    if plan.changes:
        terraform.apply(told.change)
    told.end(str(plan) if plan.changes else "nothing to change")


def _left(fleet: Fleet, *, local_state: bool) -> tuple[str, ...]:
    buckets = [f"gs://{bucket}: the jobs' data" for bucket in sorted(fleet.buckets)]
    state = [] if local_state else [f"gs://{state_bucket(fleet.project)}: Terraform's state, also of other deployments"]
    return (*buckets, *state, "the project's APIs stay switched on")


def _until(is_done: Callable[[], bool], tools: Tools, patience: float, problem: str) -> None:
    waited = 0.0
    while not is_done():
        if waited >= patience:
            raise Conflict(f"{problem} after {patience:.0f} s; try again, or look with `tpufn slots` and `tpufn jobs`")
        tools.sleep(PAUSE)
        waited += PAUSE
