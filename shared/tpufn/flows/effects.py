"""How each kind of effect is performed, and which pure decision records its result."""

import uuid
from collections.abc import Mapping

from tpufn.decide import records
from tpufn.decide.decision import Retry, Step
from tpufn.decide.records import Accepted, Deleted, Reached, Result, SaidNo, SlotRecord, Unanswered
from tpufn.domain.attempt import Attempt, AttemptState
from tpufn.domain.cloud import LABEL_GENERATION, LABEL_NONCE, CreateOrder, ownership_labels
from tpufn.domain.effects import Effect, Kind, Row
from tpufn.domain.errors import Refused, Unknown
from tpufn.domain.fleet import Fleet, Pool
from tpufn.domain.job import JobSpec
from tpufn.domain.orders import LaunchOrder, StopOrder
from tpufn.domain.policy import Policy
from tpufn.domain.slot import Slot
from tpufn.ports import Cut, Ports, Site
from tpufn.runner import Performer

_ALREADY_EXISTS = (6, 409)


def create(ports: Ports, effect: Effect, policy: Policy) -> Result:
    """Ask for the TPU. "Already exists" is success only if its labels say this deployment, slot and generation."""
    with ports.store.cut() as cut:
        slot, fleet = cut.slot(effect.name), cut.fleet()
    pool = fleet.pool(slot.pool) if slot and fleet else None
    if slot is None or fleet is None or pool is None or slot.generation != effect.generation:
        return Accepted()
    try:
        ports.cloud.create(create_order(slot, pool, fleet, ports.site))
    except Unknown as error:
        return Unanswered(text=str(error))
    except Refused as error:
        if error.code in _ALREADY_EXISTS and _is_ours(ports, slot, pool, fleet):
            return Accepted()
        return SaidNo(code=error.code, text=error.text)
    return Accepted()


def create_order(slot: Slot, pool: Pool, fleet: Fleet, site: Site) -> CreateOrder:
    """The same order, with the same request id, however often it is made for one generation."""
    seed = f"{fleet.nonce}/{slot.name}/{slot.generation}"
    settings = fleet.settings
    return CreateOrder(
        name=slot.tpu,
        zone=pool.zone,
        type=pool.type,
        runtime=pool.runtime,
        model=pool.model.value,
        request_id=str(uuid.uuid5(uuid.NAMESPACE_URL, seed)),
        labels=ownership_labels(fleet.name, fleet.nonce, slot.name, slot.generation),
        network=settings.get("network", ""),
        subnetwork=pool.subnetwork or settings.get("subnetwork", ""),
        external_ips=settings.get("ssh_transport", "direct") != "iap",
        reservation=pool.reservation,
        startup_script=site.startup_script(slot, fleet),
        service_account=site.service_account,
    )


def _is_ours(ports: Ports, slot: Slot, pool: Pool, fleet: Fleet) -> bool:
    try:
        tpu = ports.cloud.get(slot.tpu, pool.zone)
    except (Refused, Unknown):
        return False
    labels = tpu.labels if tpu else {}
    return labels.get(LABEL_NONCE) == fleet.nonce and labels.get(LABEL_GENERATION) == str(slot.generation)


def delete(ports: Ports, effect: Effect, policy: Policy) -> Result:
    """Delete a slot's TPU and look whether it is gone."""
    with ports.store.cut() as cut:
        slot, fleet = cut.slot(effect.name), cut.fleet()
    if slot is None or fleet is None or slot.generation != effect.generation:
        return Deleted(gone=True)
    return _delete(ports, slot.tpu, slot.zone, nonce=fleet.nonce)


def sweep(ports: Ports, effect: Effect, policy: Policy) -> Result:
    """Delete a stray."""
    zone, _, name = effect.name.partition("/")
    with ports.store.cut() as cut:
        fleet = cut.fleet()
    return _delete(ports, name, zone, nonce=fleet.nonce) if fleet else Deleted(gone=True)


def _delete(ports: Ports, name: str, zone: str, *, nonce: str) -> Deleted:
    """Delete it, if it is this deployment's: of somebody else's TPU of that name ours is gone already."""
    try:
        tpu = ports.cloud.get(name, zone)
        if tpu is None or tpu.labels.get(LABEL_NONCE) != nonce:
            return Deleted(gone=True)
        ports.cloud.delete(name, zone)
        return Deleted(gone=ports.cloud.get(name, zone) is None)
    except (Refused, Unknown) as error:
        return Deleted(gone=False, text=str(error))


def launch(ports: Ports, effect: Effect, policy: Policy) -> Result:
    """Tell the workers, unless the attempt has come past its launch meanwhile."""
    with ports.store.cut() as cut:
        attempt = cut.attempt(effect.name)
        spec, fleet = (cut.spec(attempt.job), cut.fleet()) if attempt else (None, None)
    if attempt is None or spec is None or fleet is None or attempt.state is not AttemptState.LAUNCHING:
        return Reached(missing={})
    return Reached(missing=ports.workers.launch(launch_order(attempt, spec, fleet, policy)))


def launch_order(attempt: Attempt, spec: JobSpec, fleet: Fleet, policy: Policy) -> LaunchOrder:
    pool = fleet.pool(attempt.pool)
    return LaunchOrder(
        attempt=attempt.id,
        job=attempt.job,
        number=attempt.number,
        name=spec.name,
        lease=attempt.lease,
        tpu=attempt.tpu,
        type=pool.type if pool else "",
        zone=attempt.zone,
        project=fleet.project,
        workers=attempt.workers,
        bucket=attempt.bucket,
        prefix=attempt.prefix,
        checkpoints=spec.checkpoints,
        command=spec.command,
        bundle_key=spec.bundle.key if spec.bundle.sha256 and not spec.bundle.uri else "",
        bundle_uri=spec.bundle.uri,
        bundle_sha256=spec.bundle.sha256,
        env=spec.env,
        secrets=spec.secrets,
        caches=spec.caches,
        grace=policy.grace,
        heartbeat=policy.heartbeat,
    )


def go(ports: Ports, effect: Effect, policy: Policy) -> Result:
    """The object that lets the command start, written once; not after a verdict."""
    with ports.store.cut() as cut:
        attempt = cut.attempt(effect.name)
    if attempt is not None and attempt.outcome is None:
        ports.blobs.put(attempt.bucket, f"{attempt.prefix}/go", b"{}", once=True)
    return Reached(missing={})


def stop(ports: Ports, effect: Effect, policy: Policy) -> Result:
    """Tombstone, TERM, grace, KILL, verify on every worker. A node that is gone needs no telling."""
    with ports.store.cut() as cut:
        attempt = cut.attempt(effect.name)
    if attempt is None or attempt.state is not AttemptState.STOPPING:
        return Reached(missing={})
    order = StopOrder(
        attempt=attempt.id,
        lease=attempt.lease,
        tpu=attempt.tpu,
        workers=attempt.workers,
        reason=effect.reason,
        bucket=attempt.bucket,
        prefix=attempt.prefix,
        zone=attempt.zone,
        grace=policy.grace,
    )
    return Reached(missing=ports.workers.stop(order))


def _slot_record(cut: Cut, row: Row) -> SlotRecord | None:
    slot, fleet = cut.slot(row.effect.name), cut.fleet()
    if slot is None or fleet is None:
        return None
    return SlotRecord(now=cut.now, fleet=fleet, slot=slot, row=row, scopes={s.id: s for s in cut.scopes()})


def _record_create(cut: Cut, row: Row, result: Result, policy: Policy) -> Step | Retry:
    record = _slot_record(cut, row)
    return records.created(record, result, policy=policy) if record else Step()


def _record_delete(cut: Cut, row: Row, result: Result, policy: Policy) -> Step | Retry:
    record = _slot_record(cut, row)
    return records.deleted(record, result, policy=policy) if record else Step()


def _record_sweep(cut: Cut, row: Row, result: Result, policy: Policy) -> Step | Retry:
    gone = isinstance(result, Deleted) and result.gone
    return Step(reason="the stray is gone") if gone else Retry(after=policy.delete_backoff)


def _record_launch(cut: Cut, row: Row, result: Result, policy: Policy) -> Step | Retry:
    attempt = cut.attempt(row.effect.name)
    return records.launched(attempt, result, now=cut.now, policy=policy) if attempt else Step()


def _record_told(cut: Cut, row: Row, result: Result, policy: Policy) -> Step | Retry:
    return records.told(result, policy=policy)


PERFORMERS: Mapping[Kind, Performer] = {
    Kind.CREATE: Performer(perform=create, record=_record_create),
    Kind.DELETE: Performer(perform=delete, record=_record_delete),
    Kind.SWEEP: Performer(perform=sweep, record=_record_sweep),
    Kind.LAUNCH: Performer(perform=launch, record=_record_launch),
    Kind.GO: Performer(perform=go, record=_record_told),
    Kind.STOP: Performer(perform=stop, record=_record_told),
}
