"""`tpufn deploy`: from a deployment file to a running system, a step after the other. Each can be done again.

What can be known beforehand is checked beforehand: a Terraform run that fails in its middle is the slowest way to learn
of a missing role. What Terraform must not see (the SSH key) and what is no infrastructure (the fleet) comes after it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tpufn.deploy.project import Project
from tpufn.deploy.quota import fits
from tpufn.deploy.terraform import LEAST, Change, Plan, Terraform, TerraformFailed
from tpufn.deploy.workspace import prepare, state_bucket
from tpufn.domain.errors import CloudUnavailable, InputError, TpufnError
from tpufn.domain.fleet import Fleet, Mode

APIS = (
    "cloudresourcemanager.googleapis.com",
    "iam.googleapis.com",
    "serviceusage.googleapis.com",
    "storage.googleapis.com",
)
"""Without these Terraform cannot even look; it switches the others on itself."""
PERMISSIONS = (
    "cloudfunctions.functions.create",
    "cloudscheduler.jobs.create",
    "datastore.databases.create",
    "eventarc.triggers.create",
    "iam.roles.create",
    "iam.serviceAccounts.actAs",
    "iam.serviceAccounts.create",
    "pubsub.subscriptions.create",
    "pubsub.topics.create",
    "resourcemanager.projects.setIamPolicy",
    "secretmanager.secrets.create",
    "secretmanager.versions.add",
    "serviceusage.services.enable",
    "storage.buckets.create",
)
"""One of each kind that is made."""
_AGENT_DELAY = ("Eventarc Service Agent", "recently started to use Eventarc", "service agent")
AGENT_TRIES = 5
AGENT_PAUSE = 60.0
"""Google takes some minutes to let Eventarc's service agent in, the first time that a project uses it."""
API_TRIES, API_PAUSE = 12, 10.0


class KeyPair(Protocol):
    """The runner's key pair in Secret Manager (`adapters.ssh_key.RunnerKey`)."""

    def ensure(self) -> bool: ...
    def begin_rotation(self) -> str: ...


class Told(Protocol):
    """Hears what is done. `begin` and `end` frame a step; `change` is one resource; `agree` asks."""

    def begin(self, step: str) -> None: ...
    def end(self, text: str) -> None: ...
    def change(self, change: Change) -> None: ...
    def plan(self, plan: Plan) -> None: ...
    def agree(self, question: str) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What the steps work with, replaceable one by one. `declare` writes the fleet's document."""

    project: Project
    key: KeyPair
    declare: Callable[[], object]
    sleep: Callable[[float], None] = time.sleep
    program: str = ""  # Terraform's


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked for. `folder` is where Terraform works; `variables` go on top of what the file says."""

    fleet: Fleet
    folder: Path
    plan_only: bool = False
    rotate_key: bool = False
    local_state: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """What is there now. `changed` says whether there was anything to do; `outputs` are Terraform's."""

    changed: bool
    outputs: Mapping[str, Any] = field(default_factory=dict)


def deploy(wish: Wish, tools: Tools, told: Told) -> Deployed:
    """Raises InputError before anything is touched, CloudUnavailable or TerraformFailed where it is stopped."""
    _file(wish.fleet, told)
    _project(wish.fleet, tools, told)
    terraform = _workspace(wish, tools, told)
    plan = _planned(terraform, told)
    if wish.plan_only:
        return Deployed(changed=bool(plan.changes))
    if plan.changes:
        if not told.agree(f"{plan} in project {wish.fleet.project}"):
            raise InputError("nothing was changed: not agreed to; `--yes` agrees beforehand")
        _apply(terraform, tools, told)
    _key(wish, tools, told)
    told.begin("fleet")
    tools.declare()
    told.end(f"{len(wish.fleet.pools)} pools, {sum(1 for _ in wish.fleet.slots())} slots declared")
    return Deployed(changed=bool(plan.changes), outputs=terraform.outputs())


def _file(fleet: Fleet, told: Told) -> None:
    told.begin("file")
    if fleet.mode is not Mode.CLOUD:
        raise InputError(f"`mode: {fleet.mode}` deploys nothing: `tpufn up` is its engine; write `mode: cloud`")
    if not fleet.buckets:
        raise InputError("`buckets` is missing: the workers' account may read only what is listed there; list them")
    told.end(f"{fleet.name} in project {fleet.project}")


def _project(fleet: Fleet, tools: Tools, told: Told) -> None:
    """Login, APIs and permissions: what Terraform would find out in its middle."""
    told.begin("login")
    told.end(tools.project.caller())
    told.begin("apis")
    missing = set(APIS) - tools.project.enabled(APIS)
    if missing:
        tools.project.enable(missing)
        _wait_enabled(tools)
    told.end(f"switched on: {', '.join(sorted(missing))}" if missing else "on")
    told.begin("permissions")
    lacking = sorted(set(PERMISSIONS) - tools.project.granted(PERMISSIONS))
    if lacking:
        raise CloudUnavailable(
            f"the login may not do all of this in {fleet.project}: it lacks {', '.join(lacking)}; ask an owner for: "
            f"gcloud projects add-iam-policy-binding {fleet.project} --member user:YOU --role roles/owner"
        )
    told.end("sufficient")
    told.begin("quotas")
    told.end(_quotas(fleet, tools.project))


def _quotas(fleet: Fleet, project: Project) -> str:
    """A hint: what is too small now may be asked for later, and not everybody may look."""
    try:
        small = [str(fit) for fit in fits(fleet, project.tpu_quotas()) if not fit.ok]
    except TpufnError:
        return "cannot be read; `tpufn doctor` says more"
    return "; ".join(small) if small else "large enough for one TPU of every pool"


def _wait_enabled(tools: Tools) -> None:
    for _ in range(API_TRIES):
        if not set(APIS) - tools.project.enabled(APIS):
            return
        tools.sleep(API_PAUSE)
    raise CloudUnavailable("the APIs were asked for and are not on after two minutes: try again")


def _workspace(wish: Wish, tools: Tools, told: Told) -> Terraform:
    told.begin("sources")
    more = wish.variables
    terraform = prepare(wish.folder, wish.fleet, local_state=wish.local_state, more=more, program=tools.program)
    told.end(f"{len(list(wish.folder.glob('*.zip')))} archives in {wish.folder}")
    told.begin("terraform")
    if (version := terraform.version()) < LEAST:
        raise InputError(f"Terraform {'.'.join(map(str, version))} is too old: install 1.9 or newer")
    terraform.init(_backend(wish, tools))
    told.end("state in a file" if wish.local_state else f"state in gs://{state_bucket(wish.fleet.project)}")
    return terraform


def _backend(wish: Wish, tools: Tools) -> dict[str, str]:
    if wish.local_state:
        return {}
    bucket, region = state_bucket(wish.fleet.project), wish.fleet.settings.get("controller_region") or "us-central1"
    tools.project.ensure_bucket(bucket, region)
    return {"bucket": bucket, "prefix": f"tpufn/{wish.fleet.name}"}


def _planned(terraform: Terraform, told: Told) -> Plan:
    told.begin("plan")
    plan = terraform.plan()
    told.plan(plan)
    told.end(str(plan) if plan.changes else "nothing to change")
    return plan


def _apply(terraform: Terraform, tools: Tools, told: Told) -> None:
    """Again for as long as nothing stands in the way but Eventarc's agent, which is let in some minutes later."""
    told.begin("apply")
    done = 0

    def count(change: Change) -> None:
        nonlocal done
        done += 1
        told.change(change)

    for attempt in range(1, AGENT_TRIES + 1):
        try:
            terraform.apply(count)
            break
        except TerraformFailed as error:
            if attempt == AGENT_TRIES or not _is_agent_delay(error):
                raise
            told.end(f"Google has not let Eventarc's agent in yet: again in {AGENT_PAUSE:.0f} s")
            tools.sleep(AGENT_PAUSE)
            told.begin("apply")
            terraform.plan()
    told.end(f"{done} resources done")


def _is_agent_delay(error: TerraformFailed) -> bool:
    """Whether every problem is that one."""
    return bool(error.diagnostics) and all(
        any(words in problem for words in _AGENT_DELAY) and "ventarc" in problem for problem in error.diagnostics
    )


def _key(wish: Wish, tools: Tools, told: Told) -> None:
    told.begin("key")
    if tools.key.ensure():
        told.end("made, straight into Secret Manager")
    elif wish.rotate_key:
        version = tools.key.begin_rotation()
        told.end(f"version {version} is new; the former one stays valid until every TPU of today is gone")
    else:
        told.end("there")


def without_protection(wish: Wish) -> Wish:
    """The same, with a database and a bucket that may be deleted."""
    return replace(wish, variables={**wish.variables, "delete_protection": False})
