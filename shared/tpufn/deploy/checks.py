"""`tpufn doctor`: what a deployment needs, one check after the other, each with what mends it.

A check never raises: what cannot be looked at is a finding, too, and the others go on.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tpufn
from tpufn.client import Client
from tpufn.deploy.project import Project
from tpufn.deploy.quota import fits
from tpufn.deploy.steps import APIS
from tpufn.deploy.teardown import Tpus
from tpufn.domain.accelerators import FAMILIES, accelerator
from tpufn.domain.cloud import LABEL_DEPLOYMENT
from tpufn.domain.errors import TpufnError
from tpufn.domain.fleet import Fleet, Mode, Pool

NEEDED = (
    *APIS,
    "artifactregistry.googleapis.com",
    "cloudbuild.googleapis.com",
    "cloudfunctions.googleapis.com",
    "cloudscheduler.googleapis.com",
    "compute.googleapis.com",
    "eventarc.googleapis.com",
    "firestore.googleapis.com",
    "pubsub.googleapis.com",
    "run.googleapis.com",
    "secretmanager.googleapis.com",
    "tpu.googleapis.com",
)
LAPTOP = (*APIS, "compute.googleapis.com", "secretmanager.googleapis.com", "tpu.googleapis.com")
USE = ("datastore.entities.get", "pubsub.topics.publish", "storage.objects.create", "tpu.nodes.list")
"""What a person needs to submit and to look."""
LAPTOP_USE = ("storage.objects.create", "tpu.nodes.create", "tpu.nodes.delete", "secretmanager.versions.access")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check's outcome. `mend` is a command or a sentence; `fixed` says that `--fix` has just run it."""

    check: str
    ok: bool
    text: str
    mend: str = ""
    fixed: bool = False


Indexes = Callable[[], set[tuple[str, tuple[str, ...]]]]
"""The composite indexes that the database has, each as (collection, fields in order)."""


@dataclass(frozen=True, kw_only=True)
class Patient:
    """Whom the doctor looks at. `fix`: mend what can be mended without asking."""

    fleet: Fleet
    project: Project
    client: Client
    tpus: Tpus
    indexes: Indexes
    fix: bool = False

    @property
    def is_cloud(self) -> bool:
        return self.fleet.mode is Mode.CLOUD


Check = Callable[[Patient], Iterator[Finding]]


def examine(patient: Patient) -> Iterator[Finding]:
    """Each finding as it is made; without a login, or a project, nothing else can be looked at."""
    for name, check in CHECKS.items():
        if name in _CLOUD_ONLY and not patient.is_cloud:
            continue
        worst = True
        for finding in _guarded(name, check, patient):
            worst = worst and finding.ok
            yield finding
        if not worst and name in _FIRST:
            return


def _guarded(name: str, check: Check, patient: Patient) -> Iterator[Finding]:
    try:
        yield from check(patient)
    except TpufnError as error:
        text, _, mend = str(error).partition("; ")
        yield Finding(check=name, ok=False, text=text, mend=mend)


def _login(patient: Patient) -> Iterator[Finding]:
    yield Finding(check="login", ok=True, text=patient.project.caller())


def _project(patient: Patient) -> Iterator[Finding]:
    yield Finding(check="project", ok=True, text=f"{patient.project.id} ({patient.project.number()})")


def _apis(patient: Patient) -> Iterator[Finding]:
    wanted = NEEDED if patient.is_cloud else LAPTOP
    missing = sorted(set(wanted) - patient.project.enabled(wanted))
    if not missing:
        yield Finding(check="apis", ok=True, text=f"all {len(wanted)} are on")
        return
    if patient.fix:
        patient.project.enable(missing)
    mend = f"gcloud services enable {' '.join(missing)} --project {patient.project.id}"
    yield Finding(check="apis", ok=False, text=f"off: {', '.join(missing)}", mend=mend, fixed=patient.fix)


def _roles(patient: Patient) -> Iterator[Finding]:
    wanted = USE if patient.is_cloud else LAPTOP_USE
    lacking = sorted(set(wanted) - patient.project.granted(wanted))
    mend = "have an operator add you to `submitters` of the deployment" if patient.is_cloud else "ask an owner for them"
    text = f"lacks {', '.join(lacking)}" if lacking else "sufficient"
    yield Finding(check="roles", ok=not lacking, text=text, mend=mend if lacking else "")


def _quotas(patient: Patient) -> Iterator[Finding]:
    mend = f"ask for quota: https://console.cloud.google.com/iam-admin/quotas?project={patient.project.id}"
    for fit in fits(patient.fleet, patient.project.tpu_quotas()):
        yield Finding(check="quota", ok=fit.ok, text=str(fit), mend="" if fit.ok else mend)


def _addresses(patient: Patient) -> Iterator[Finding]:
    """With public addresses each host takes one; most projects may have 8 in a region."""
    if patient.fleet.settings.get("ssh_transport") == "iap":
        yield Finding(check="addresses", ok=True, text="not needed: TPUs are private")
        return
    for region in patient.fleet.regions:
        pools = [pool for pool in _bought(patient.fleet) if pool.region == region]
        need = max((accelerator(pool.type).hosts for pool in pools), default=0)
        limit, used = patient.project.addresses(region)
        text = f"{region}: {used} of {limit} in use, the largest slice needs {need}"
        mend = "" if limit - used >= need else "write `ssh_transport: iap`, or ask for quota of IN_USE_ADDRESSES"
        yield Finding(check="addresses", ok=not mend, text=text, mend=mend)


def _firewall(patient: Patient) -> Iterator[Finding]:
    network = patient.fleet.settings.get("network") or "default"
    ok = patient.project.allows_ssh(network)
    source = "35.235.240.0/20" if patient.fleet.settings.get("ssh_transport") == "iap" else "0.0.0.0/0"
    mend = (
        f"gcloud compute firewall-rules create {network}-ssh --network {network} --allow tcp:22 "
        f"--source-ranges {source} --project {patient.project.id}"
    )
    text = f"SSH into {network} is {'allowed' if ok else 'not allowed'}"
    yield Finding(check="firewall", ok=ok, text=text, mend="" if ok else mend)


def _offers(patient: Patient) -> Iterator[Finding]:
    """The live API's answer wins over our catalogue."""
    zones = {pool.zone for pool in _bought(patient.fleet)}
    types = {zone: patient.project.tpu_types(zone) for zone in zones}
    runtimes = {zone: patient.project.runtimes(zone) for zone in zones}
    for pool in _bought(patient.fleet):
        wrong = [
            f"{pool.zone} does not offer {what}"
            for what, offered in ((pool.type, types[pool.zone]), (f"runtime {pool.runtime}", runtimes[pool.zone]))
            if what.removeprefix("runtime ") not in offered
        ]
        near = ", ".join(
            sorted(r for r in runtimes[pool.zone] if r in FAMILIES[accelerator(pool.type).family].runtimes)
        )
        mend = f"choose another zone, or a runtime of {near or 'the zone'}"
        text = "; ".join(wrong) or f"{pool.id}: offered"
        yield Finding(check="offers", ok=not wrong, text=text, mend=mend if wrong else "")


def _indexes(patient: Patient) -> Iterator[Finding]:
    lacking = shipped_indexes() - patient.indexes()
    text = f"{len(lacking)} are missing" if lacking else "all are there"
    yield Finding(check="indexes", ok=not lacking, text=text, mend="tpufn deploy" if lacking else "")


def _dead_letters(patient: Patient) -> Iterator[Finding]:
    number = patient.client.status().dead_letters
    mend = "tpufn dead-letters list, then `tpufn dead-letters replay`" if number else ""
    yield Finding(
        check="dead letters", ok=not number, text=f"{number} wait to be looked at" if number else "none", mend=mend
    )


def _ticks(patient: Patient) -> Iterator[Finding]:
    state = patient.client.status().engine
    mend = {"paused": "tpufn resume", "late": "look at the functions' logs; then `tpufn tick`"}.get(state, "")
    yield Finding(check="ticks", ok=not mend, text=state, mend=mend)


def _strays(patient: Patient) -> Iterator[Finding]:
    known = {slot.tpu for slot in patient.client.slots()}
    ours = [
        tpu.name
        for zone in patient.fleet.zones
        for tpu in patient.tpus.list(zone)
        if tpu.labels.get(LABEL_DEPLOYMENT) == patient.fleet.name and tpu.name not in known
    ]
    text = f"TPUs of ours that no slot knows: {', '.join(ours)}" if ours else "none"
    yield Finding(
        check="strays", ok=not ours, text=text, mend="tpufn tick: they are adopted or deleted" if ours else ""
    )


def _bought(fleet: Fleet) -> Sequence[Pool]:
    return [pool for pool in fleet.pools if not pool.existing]


def shipped_indexes() -> set[tuple[str, tuple[str, ...]]]:
    """Those that every query needs (adapters/firestore_indexes.json)."""
    file = Path(tpufn.__file__).parent / "adapters" / "firestore_indexes.json"
    listed = json.loads(file.read_text())["indexes"]
    return {(each["collectionGroup"], tuple(f["fieldPath"] for f in each["fields"])) for each in listed}


CHECKS: Mapping[str, Check] = {
    "login": _login,
    "project": _project,
    "apis": _apis,
    "roles": _roles,
    "quota": _quotas,
    "addresses": _addresses,
    "firewall": _firewall,
    "offers": _offers,
    "indexes": _indexes,
    "ticks": _ticks,
    "dead letters": _dead_letters,
    "strays": _strays,
}
_FIRST = frozenset({"login", "project"})
_CLOUD_ONLY = frozenset({"indexes", "ticks", "dead letters"})
