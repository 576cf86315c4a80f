"""The start-up script of our TPUs: what root does at every boot of a worker, so that it is usable seconds later.

One Bash script, the node's `startup-script` metadata. Doing it again changes nothing. It holds nothing secret: metadata
can be read by every process on the machine. TPUFN_ROOT is a prefix of every path, for tests.

The deployment's own script runs last, before the report. If it fails, or does not end in time, the TPU is reported all
the same, with the exit code and the last words: in the message, in the guest attribute, on the serial console.
"""

import base64
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from tpufn.worker.archive import archive, version
from tpufn.worker.google import METADATA

_LINE = 100
LIMIT = 256 * 1024
"""Bytes that one metadata value may have (https://cloud.google.com/compute/docs/metadata/setting-custom-metadata)."""


@dataclass(frozen=True, kw_only=True)
class Startup:
    """`generation` 0: of a TPU that we did not make; leases of any are taken there. `keys` are public. With OS Login
    the account comes from it: no user and no key is made here.

    `home` is the agent's directory below the user's home, as in `SshSite.home` without its `~/`. `publish` is a source
    as the agent takes it. `script` is the deployment's own; `patience` its time in seconds.
    """

    slot: str
    generation: int
    tpu: str
    user: str
    keys: tuple[str, ...] = ()
    os_login: bool = False
    home: str = "tpufn"
    publish: Mapping[str, Any] = field(default_factory=lambda: {"kind": "none"})
    script: str = ""
    patience: int = 1800
    metadata_url: str = METADATA
    python: str = "python3"


def startup_script(settings: Startup) -> str:
    """The script. Raises ValueError where it would be larger than metadata may be."""
    report = {
        "slot": settings.slot,
        "generation": settings.generation,
        "tpu": settings.tpu,
        "publish": {"tries": 6, **settings.publish} if settings.publish.get("kind") == "pubsub" else settings.publish,
        "metadata_url": settings.metadata_url,
    }
    names = {
        "USER": settings.user,
        "MAKE_USER": "" if settings.os_login else "yes",
        "HOME_NAME": settings.home,
        "GENERATION": str(settings.generation or ""),
        "AGENT": version(),
        "PYTHON": settings.python,
        "PATIENCE": str(settings.patience),
        "KEYS": "\n".join(_marked(key) for key in settings.keys),
        "REPORT": json.dumps(report),
    }
    head = "\n".join(f"readonly TPUFN_{name}={shlex.quote(value)}" for name, value in names.items())
    data = {"AGENT_DATA": _wrapped(archive()), "SCRIPT_DATA": _wrapped(settings.script.encode())}
    tail = "\n".join(f"readonly TPUFN_{name}='{value}'" for name, value in data.items())
    body = files(__package__).joinpath("startup.sh").read_text(encoding="utf-8")
    script = body.replace("# SETTINGS\n", f"{head}\n{tail}\n", 1)
    if len(script.encode()) > LIMIT:
        raise ValueError(f"the start-up script has {len(script.encode())} bytes, metadata takes {LIMIT}")
    return script


def _marked(key: str) -> str:
    """The comment of a key of ours tells it from the others in the file."""
    return " ".join(key.split()[:2]) + " tpufn"


def _wrapped(data: bytes) -> str:
    text = base64.b64encode(data).decode()
    return "\n".join(text[i : i + _LINE] for i in range(0, len(text), _LINE))
