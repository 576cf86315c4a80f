"""A job against the fleet: what it names that is not there (wrong), and what cannot run now (a warning)."""

from collections.abc import Iterator, Mapping

from tpufn.domain.fleet import Fleet, Pool, accepting_pools, job_keys
from tpufn.spec.job_model import JobKeys
from tpufn.spec.problems import Loc, did_you_mean

Fault = tuple[Loc, str]


def misfits(job: JobKeys, fleet: Fleet | None) -> Iterator[Fault]:
    """What the job names and the deployment does not have, or has differently."""
    if fleet is None:
        return
    yield from _unlisted_secrets(job, fleet)
    yield from _unlisted_buckets(job, fleet)
    if job.tpu_name:
        yield from _wrong_slot(job, fleet)


def unlikely(job: JobKeys, fleet: Fleet | None) -> Iterator[Fault]:
    """Types, zones and buckets that no pool serves now."""
    if fleet is None or job.tpu_name:
        return
    pools = [pool for pool in fleet.pools if _fits(job, pool)]
    if not pools:
        yield ("tpu",), f"nothing in {fleet.name} can run this: {_offer(fleet)}. The job waits until that changes"
        return
    served = {pool.type for pool in pools}
    missing = [kind for kind in job.tpu if kind not in served and kind != "any"]
    if missing:
        yield ("tpu",), f"{fleet.name} has no pool for {', '.join(missing)}; {', '.join(sorted(served))} will be used"
    for index, (name, region) in enumerate(_bucket_regions(job, fleet)):
        if region and region not in {pool.region for pool in pools}:
            yield ("buckets", index), f"gs://{name} is in {region}, where no pool can run this job; it is not used now"


def slot_pool(fleet: Fleet, name: str) -> Pool | None:
    """The pool of the slot, or of the `existing` TPU, of that name."""
    return next((pool for slot, pool in fleet.slots() if slot == name), None)


def candidate_pools(job: JobKeys, fleet: Fleet, regions: Mapping[str, str]) -> tuple[Pool, ...]:
    """The pools that can run the job now, given its bucket in each region."""
    keys = job_keys(
        job.tpu,
        tuple(regions),
        zone=job.zone or "",
        slot=job.tpu_name,
        model=job.provisioning_model or "",
    )
    return accepting_pools(fleet, keys)


def _fits(job: JobKeys, pool: Pool) -> bool:
    return (
        ("any" in job.tpu or pool.type in job.tpu)
        and job.zone in (None, pool.zone)
        and job.provisioning_model in (None, str(pool.model))
        and bool(pool.slots)
    )


def _offer(fleet: Fleet) -> str:
    offers = dict.fromkeys(f"{p.model} {p.type} in {p.zone}" for p in fleet.pools if p.slots)
    shown = list(offers)[:6]
    return f"it has {', '.join(shown)}{' and more' if len(offers) > 6 else ''}" if shown else "it has no pools"


def _unlisted_secrets(job: JobKeys, fleet: Fleet) -> Iterator[Fault]:
    for variable, reference in job.secrets.items():
        secret = reference.partition("@")[0]
        if secret not in fleet.worker_secrets:
            near = did_you_mean(secret, fleet.worker_secrets)
            fix = near or f"; add {secret} to `worker_secrets` there and deploy it"
            yield ("secrets", variable), f"{fleet.name} does not let workers read {secret}{fix}"


def _unlisted_buckets(job: JobKeys, fleet: Fleet) -> Iterator[Fault]:
    for key, name in bucket_names(job):
        if fleet.buckets and name not in fleet.buckets:
            near = did_you_mean(name, fleet.buckets) or f"; add gs://{name} to `buckets` there and deploy it"
            yield ("buckets", key), f"{fleet.name} does not let workers use gs://{name}{near}"


def bucket_names(job: JobKeys) -> Iterator[tuple[str | int, str]]:
    """(index or region, bare name) of each bucket of a job, from a file or from a message."""
    given = getattr(job, "buckets", ())
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
    return ((key, uri.removeprefix("gs://")) for key, uri in pairs)


def _bucket_regions(job: JobKeys, fleet: Fleet) -> Iterator[tuple[str, str]]:
    return ((name, fleet.buckets.get(name, "")) for _, name in bucket_names(job))


def _wrong_slot(job: JobKeys, fleet: Fleet) -> Iterator[Fault]:
    pool = slot_pool(fleet, job.tpu_name)
    if pool is None:
        names = [slot for slot, _ in fleet.slots()]
        near = did_you_mean(job.tpu_name, names) or f"; it has {', '.join(names[:6]) or 'none'}"
        yield ("tpu_name",), f"{fleet.name} has no TPU slot {job.tpu_name}{near}"
        return
    if "any" not in job.tpu and pool.type not in job.tpu:
        yield ("tpu_name",), f"{job.tpu_name} is a {pool.type}, which `tpu` does not list; write `tpu: {pool.type}`"
    if job.zone not in (None, pool.zone):
        yield ("zone",), f"{job.tpu_name} is in {pool.zone}, not in {job.zone}; drop `zone`"
    if job.provisioning_model not in (None, str(pool.model)):
        yield ("provisioning_model",), f"{job.tpu_name} is {pool.model}; drop `provisioning_model`"
