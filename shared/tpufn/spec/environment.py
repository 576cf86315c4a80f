"""What a job's command finds in its environment, and what a job may add to it."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tpufn.spec.problems import Loc, raise_faults
from tpufn.spec.scalars import text

MAX_VALUE = 128 * 1024
"""Bytes of one `NAME=value` with its end mark: Linux gives a program no longer one (MAX_ARG_STRLEN)."""
MAX_TOTAL = 256 * 1024
"""Bytes of all names and values of one job."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

PROVIDED: Mapping[str, str] = MappingProxyType(
    {
        "JOB_ID": "The job's id.",
        "JOB_NAME": "The job's `name`, or its id.",
        "ATTEMPT_ID": "The attempt's id: job id, a dot, the attempt's number.",
        "ATTEMPT_NUMBER": "1 for the first attempt.",
        "JOB_DIR": "The working directory: a fresh copy of the bundle, with the declared caches in it.",
        "JOB_SHM_DIR": "A fresh directory in shared memory.",
        "CACHE_ROOT": "Where caches live on this worker.",
        "JOB_BUCKET": "The bucket of the region that the job runs in, as `gs://name`.",
        "JOB_GCS_DIR": "The job's own prefix in that bucket.",
        "ATTEMPT_GCS_DIR": "The attempt's own prefix in that bucket.",
        "CHECKPOINT_GCS_DIR": "Where checkpoints belong. The same for every attempt of the job.",
        "RUNNER_PROJECT": "The Google Cloud project.",
        "TPU_NAME": "The TPU's name in the cloud.",
        "TPU_ZONE": "Its zone.",
        "TPU_TYPE": "Its accelerator type, such as `v6e-64`.",
        "TPU_WORKER_HOST": "This worker's address.",
        "TPU_WORKER_COUNT": "The number of workers.",
        "JOB_WORKER_ID": "This worker's index, from 0.",
        "JOB_WORKER_ADDRESSES": "The addresses of all workers, in the order of their indices, with commas between.",
        "BUNDLE_SHA256": "The hash of the bundle; empty without one.",
    }
)
"""Names that tpufn sets, with their meaning. A job may set none of them."""


def env_name(value: object) -> str:
    """A name that a shell can use and that tpufn does not set itself."""
    name = str(value)
    if not _NAME.fullmatch(name):
        raise ValueError("is not a variable's name; use letters, digits and `_`, and no digit first")
    if name in PROVIDED:
        raise ValueError("is set by tpufn for every job; choose another name")
    return name


def check_env(value: object) -> object:
    """Every name and value of a job's `env`, and their sizes. Raises Faults."""
    if not isinstance(value, dict):
        return value
    env: dict[str, str] = {}
    faults = [fault for name, given in value.items() for fault in _take(env, name, given)]
    raise_faults((*faults, *_oversize(env)))
    return env


def _take(env: dict[str, str], name: str, given: object) -> Iterator[tuple[Loc, str]]:
    for check, value in ((env_name, name), (text, given)):
        try:
            found = check(value)
        except ValueError as error:
            yield (name,), str(error)
            return
    env[name] = found


def _oversize(env: Mapping[str, str]) -> Iterator[tuple[Loc, str]]:
    sizes = {name: len(name.encode()) + len(value.encode()) + 2 for name, value in env.items()}
    for name, size in sizes.items():
        if size > MAX_VALUE:
            yield (name,), f"is {size} bytes long, over 128 KiB; put it into a file of the bundle"
    if sum(sizes.values()) > MAX_TOTAL:
        yield (), f"is {sum(sizes.values())} bytes in all, over 256 KiB; put the longest into files of the bundle"
