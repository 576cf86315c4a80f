"""The command's environment: login, then JAX_PLATFORMS, the job's own, its secrets, and the reserved names.

`bash -l` runs the machine's profile files, which may set any of these anew (PATH, for one). A non-interactive bash
reads the file that BASH_ENV names *after* its profile files and before its command: that file exports all of them anew.
In this way the command still is one untouched argument of `bash -lc`, no value passes through any quoting but single
quotes in that file, and the file (it may hold secrets) is readable for its owner alone.
"""

from __future__ import annotations

import os
import re

from . import workspace
from .workspace import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .bucket import Bucket
    from .protocol import Order, Place

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_READ_ONLY = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID", "_"})
_FOR_THE_SHELL = frozenset({"HOME", "BASH_ENV", "ENV"})  # the profile files are to see the login's


def of_job(place: Place, order: Order, bucket: Bucket, secrets: Mapping[str, str], sha256: str) -> dict[str, str]:
    """What the job's command finds, on top of the login environment."""
    platforms = {"JAX_PLATFORMS": order.jax_platforms} if order.jax_platforms else {}
    return {**platforms, **order.env, **secrets, **_reserved(place, order, bucket, sha256)}


def for_bash(place: Place, variables: Mapping[str, str]) -> dict[bytes, bytes]:
    """The environment to start bash with; also writes the file that it reads after the profile."""
    for name, value in variables.items():
        if "\0" in name + value or "=" in name or not name:
            raise SetupError(f"the variable {name!r} cannot be in an environment")
    login_bash_env = variables.get("BASH_ENV", os.environ.get("BASH_ENV", ""))
    descriptor = os.open(place.bash_env, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(_script(variables, login_bash_env))
    early = {name: value for name, value in variables.items() if name not in _FOR_THE_SHELL}
    merged = {**os.environ, **early, "BASH_ENV": place.bash_env}
    return {_bytes(name): _bytes(value) for name, value in merged.items()}


def resolve_secrets(order: Order) -> dict[str, str]:
    """The secrets' values: as they came, or read with the machine's identity, which keeps them on this machine."""
    if order.secret_source.get("kind") != "secret-manager" or not order.secrets:
        return dict(order.secrets)
    from .google import HttpError, Session, read_secret

    session = Session(order.secret_source)
    try:
        return {name: read_secret(session, order.secret_source, ref) for name, ref in order.secrets.items()}
    except (HttpError, KeyError, ValueError) as error:
        raise SetupError(f"a secret cannot be read: {error}") from error


def _reserved(place: Place, order: Order, bucket: Bucket, sha256: str) -> dict[str, str]:
    addresses = [str(worker["address"]) for worker in order.workers]
    return {
        "JOB_ID": order.job,
        "JOB_NAME": order.name,
        "ATTEMPT_ID": order.attempt,
        "ATTEMPT_NUMBER": str(order.number),
        "JOB_DIR": place.job_dir,
        "JOB_SHM_DIR": workspace.shared_memory(place, order),
        "CACHE_ROOT": place.cache_root,
        "JOB_BUCKET": bucket.url(),
        "JOB_GCS_DIR": bucket.url(os.path.dirname(os.path.dirname(order.prefix))),
        "ATTEMPT_GCS_DIR": bucket.url(order.prefix),
        "CHECKPOINT_GCS_DIR": bucket.url(order.checkpoints),
        "RUNNER_PROJECT": order.project,
        "TPU_NAME": order.tpu,
        "TPU_ZONE": order.zone,
        "TPU_TYPE": order.type,
        "TPU_WORKER_HOST": addresses[order.worker] if order.worker < len(addresses) else "",
        "TPU_WORKER_COUNT": str(len(addresses)),
        "JOB_WORKER_ID": str(order.worker),
        "JOB_WORKER_ADDRESSES": ",".join(addresses),
        "BUNDLE_SHA256": sha256,
        "TPUFN_ATTEMPT": order.attempt,
        "TPUFN_HOST": place.home,
    }


def _script(variables: Mapping[str, str], login_bash_env: str) -> bytes:
    lines = [b"unset BASH_ENV"]
    for name, value in variables.items():
        if _IDENTIFIER.match(name) and name not in _READ_ONLY:
            lines.append(b"export " + _bytes(name) + b"=" + _quoted(value))
    if login_bash_env:
        lines.append(b"export BASH_ENV=" + _quoted(login_bash_env))
        lines.append(b'if [ -r "$BASH_ENV" ]; then . "$BASH_ENV"; fi')
    return b"\n".join([*lines, b""])


def _quoted(value: str) -> bytes:
    return b"'" + _bytes(value).replace(b"'", b"'\\''") + b"'"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
