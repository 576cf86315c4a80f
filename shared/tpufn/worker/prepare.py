"""What comes before the command: free devices, workspace, bundle, caches, secrets, environment.

`check` and `pause` come from the supervisor: they raise when the attempt is stopped meanwhile.
"""

from __future__ import annotations

import time

from . import caches, devices, environment, workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .bucket import Bucket
    from .protocol import Order, Place

_DEVICE_POLL = 0.25


class DeviceBusy(Exception):
    """Somebody else holds the TPU, and does not let go of it."""


def await_devices(order: Order, pause: Callable[[float], None]) -> None:
    """Until nobody holds the TPU, but no longer than the order says; then stale lock files go."""
    deadline = time.monotonic() + order.device_timeout
    found = devices.holders(order.devices)
    while found:
        if time.monotonic() >= deadline:
            raise DeviceBusy(devices.describe(found))
        pause(_DEVICE_POLL)
        found = devices.holders(order.devices)
    devices.remove_stale_locks(order.lock_files)


def command_environment(place: Place, order: Order, bucket: Bucket, check: Callable[[], None]) -> dict[bytes, bytes]:
    """Makes everything ready and returns what the command is started with. Raises SetupError or OSError."""
    workspace.make(place, order)
    for prefix in (order.prefix, order.checkpoints):
        bucket.make_prefix(prefix)
    sha256 = _install_bundle(place, order, bucket, check)
    caches.link(place, order)
    secrets = environment.resolve_secrets(order)
    ready = environment.for_bash(place, environment.of_job(place, order, bucket, secrets, sha256))
    check()
    return ready


def _install_bundle(place: Place, order: Order, bucket: Bucket, check: Callable[[], None]) -> str:
    """Its hash. Where the job has no bundle: "", and no archive code is loaded."""
    if not order.bundle_key and not order.bundle_uri:
        return ""
    from .bundle import install

    return install(place, order, bucket, check)
