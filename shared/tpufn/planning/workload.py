"""A workload file: what will be wanted, and when. Either single jobs, or a rate with a mix of kinds.

    jobs: [{at: 2h, tpu: [v6e-16, v5p-16], duration: 6h, checkpoint_every: 10m, priority: high, count: 3}]
    rate: {per_hour: 4, mix: [{share: 3, tpu: v6e-8, duration: 1h, duration_max: 8h}, {tpu: v6e-64, duration: 12h}]}

Of a rate the arrivals are a Poisson process, and durations between the two that are given are log-uniform.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from tpufn.domain.accelerators import accelerator
from tpufn.domain.errors import InputError
from tpufn.domain.job import Priority
from tpufn.spec import scalars
from tpufn.spec.checked import Keys, check
from tpufn.spec.fields import Duration, Positive, PriorityName
from tpufn.spec.job_values import TpuTypes
from tpufn.spec.problems import Report
from tpufn.spec.yaml_source import load

MOST = 100_000
"""Jobs in one plan."""
_DAY = 86400.0


def _moment(value: object) -> float:
    """A duration from the start; 0 is the start itself."""
    return 0.0 if scalars.text(value).strip("smhd") == "0" else scalars.seconds(value)


def _rate(value: object) -> float:
    found = float(scalars.text(value))
    if not 0 < found <= 10_000:
        raise ValueError("must be more than 0 and at most 10000")
    return found


def _known(types: tuple[str, ...]) -> tuple[str, ...]:
    for type in types:
        if type != "any":
            accelerator(type)
    return types


class KindKeys(Keys):
    """What jobs of one kind are like."""

    tpu: Annotated[TpuTypes, AfterValidator(_known)] = Field(
        description="A type, types that will all do, or `any`.", examples=["[v6e-16, v5p-16]"]
    )
    duration: Duration = Field(description="How long the work takes without interruption.", examples=["6h"])
    duration_max: Duration | None = Field(default=None, description="... or up to this long.")
    checkpoint_every: Duration = Field(default=600.0, description="How much work a preemption may cost.")
    priority: PriorityName = Field(default=Priority.NORMAL, description="low, normal or high.")


class JobKeys(KindKeys):
    """One job, or several alike."""

    at: Annotated[float, BeforeValidator(_moment)] = Field(default=0.0, description="When it is submitted.")
    count: Positive = Field(default=1, description="How many of them.")


class MixKeys(KindKeys):
    """One kind of a mix."""

    share: Annotated[float, BeforeValidator(_rate)] = Field(default=1.0, description="Its weight in the mix.")


class RateKeys(Keys):
    """Jobs that keep coming."""

    per_hour: Annotated[float, BeforeValidator(_rate)] = Field(description="Jobs an hour.", examples=["4"])
    mix: tuple[MixKeys, ...] = Field(description="Kinds of jobs.", examples=["[{tpu: v6e-8, duration: 2h}]"])


class WorkloadKeys(Keys):
    """The top of the file."""

    jobs: tuple[JobKeys, ...] = Field(default=(), description="Single jobs.")
    rate: RateKeys | None = Field(default=None, description="Jobs that keep coming.")


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One job of a plan. Times in seconds, `at` from the start."""

    id: str
    at: float
    tpu: tuple[str, ...]
    duration: float
    checkpoint: float
    priority: Priority = Priority.NORMAL


def read_workload(path: str | PathLike[str]) -> WorkloadKeys:
    """Raises InputError with every problem of the file."""
    source = load(path)
    report = source.report()
    keys = check(WorkloadKeys, source.data, report) or WorkloadKeys()
    report.close()
    _whole(keys, report)
    report.close()
    return keys


def _whole(keys: WorkloadKeys, report: Report) -> None:
    if bool(keys.jobs) == bool(keys.rate):
        report.add((), "needs either `jobs`, a list, or `rate`, with `per_hour` and `mix`")
    if keys.rate and not keys.rate.mix:
        report.add(("rate", "mix"), "is empty; name one kind of job at least")


def planned(keys: WorkloadKeys, *, days: float, seed: int) -> tuple[Planned, ...]:
    """The jobs that are submitted within so many days, in order. Raises InputError for too many."""
    rng = random.Random(f"{seed}:workload")
    made = list(_coming(keys.rate, days * _DAY, rng)) if keys.rate else list(_listed(keys.jobs, rng))
    found = [job for job in sorted(made, key=lambda job: (job.at, job.id)) if job.at < days * _DAY]
    if len(found) > MOST:
        raise InputError(f"{len(found)} jobs in {days:g} days are too many to play: at most {MOST}")
    return tuple(found)


def _listed(jobs: tuple[JobKeys, ...], rng: random.Random) -> Iterator[Planned]:
    numbers = iter(range(1, MOST + 2))
    for kind in jobs:
        for _ in range(kind.count):
            yield _job(f"job-{next(numbers):05}", kind.at, kind, rng)


def _coming(rate: RateKeys, until: float, rng: random.Random) -> Iterator[Planned]:
    shares, at = [kind.share for kind in rate.mix], 0.0
    for number in range(1, MOST + 2):
        at += rng.expovariate(rate.per_hour / 3600.0)
        if at >= until:
            return
        yield _job(f"job-{number:05}", at, rng.choices(rate.mix, shares)[0], rng)


def _job(id: str, at: float, kind: KindKeys, rng: random.Random) -> Planned:
    low, high = kind.duration, kind.duration_max or kind.duration
    duration = math.exp(rng.uniform(math.log(low), math.log(high))) if high > low else low
    return Planned(
        id=id, at=at, tpu=kind.tpu, duration=duration, checkpoint=kind.checkpoint_every, priority=kind.priority
    )
