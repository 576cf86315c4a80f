"""Settings: one frozen value, made once from the environment. No other module reads it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`home` holds the embedded state; `deployment` is a path or gs:// URL, "" where nothing says."""

    home: Path
    deployment: str = ""
    debug: bool = False
    user: str = ""
    database: str = ""  # a Firestore database that is not the deployment's own
    storage_endpoint: str = ""  # empty endpoints are Google's own; others serve tests
    scheduler_endpoint: str = ""
    tpu_endpoint: str = ""


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """What a deployed function is told (terraform/main.tf), and the engine of laptop mode. Empty endpoints are Google's
    own; others serve tests. `publishes`: whether workers have topics to report to; else their bucket alone has to do.

    `workers`: "ssh", or "local:DIR" for the local workers of a simulated cloud on the same machine.
    """

    name: str
    project: str
    region: str = ""
    database: str = ""  # "": the deployment's own
    bucket: str = ""  # the deployment's own, not one of the jobs'
    ssh_secret: str = ""
    ssh_transport: str = "direct"
    worker_account: str = ""
    policy: str = "production"
    workers: str = "ssh"
    tpu_endpoint: str = ""
    storage_endpoint: str = ""
    pubsub_endpoint: str = ""
    publishes: bool = True

    @property
    def local_home(self) -> Path | None:
        """Where the hosts of a simulated cloud are; None where TPUs are real."""
        kind, _, place = self.workers.partition(":")
        return Path(place) if kind == "local" else None


def deployed() -> Deployed:
    """From the function's environment, which Terraform writes. Raises KeyError where that is not done."""
    env = os.environ
    pubsub = env.get("PUBSUB_EMULATOR_HOST", "")
    return Deployed(
        name=env["TPUFN_NAME"],
        project=env["TPUFN_PROJECT"],
        region=env.get("TPUFN_REGION", ""),
        database=env.get("TPUFN_DATABASE", ""),
        bucket=env.get("TPUFN_BUCKET", ""),
        ssh_secret=env.get("TPUFN_SSH_SECRET", ""),
        ssh_transport=env.get("TPUFN_SSH_TRANSPORT", "direct"),
        worker_account=env.get("TPUFN_WORKER_ACCOUNT", ""),
        pubsub_endpoint=f"http://{pubsub}" if pubsub else "",
        **_surroundings(),
    )


def laptop(name: str, project: str, *, ssh_transport: str) -> Deployed:
    """The same for an engine on this machine: the deployment file says it all."""
    return Deployed(name=name, project=project, ssh_transport=ssh_transport, publishes=False, **_surroundings())


def _surroundings() -> dict[str, Any]:
    env = os.environ
    return {
        "policy": env.get("TPUFN_POLICY", "production"),
        "workers": env.get("TPUFN_WORKERS", "ssh"),
        "tpu_endpoint": env.get("TPUFN_TPU_ENDPOINT", ""),
        "storage_endpoint": env.get("STORAGE_EMULATOR_HOST", ""),
    }


def load(*, home: str | None = None, deployment: str | None = None) -> Settings:
    """Flags win over the environment: TPUFN_HOME, TPUFN_DEPLOYMENT, TPUFN_DEBUG."""
    env = os.environ
    return Settings(
        home=Path(home or env.get("TPUFN_HOME") or default_home()).expanduser().absolute(),
        deployment=deployment or env.get("TPUFN_DEPLOYMENT", ""),
        debug=debug(),
        database=env.get("TPUFN_DATABASE", ""),
        storage_endpoint=env.get("STORAGE_EMULATOR_HOST", ""),
        scheduler_endpoint=env.get("TPUFN_SCHEDULER_ENDPOINT", ""),
        tpu_endpoint=env.get("TPUFN_TPU_ENDPOINT", ""),
        user=_user(),
    )


def _user() -> str:
    """Who asks, as history tells it: $LOGNAME, $USER, ..., else the account's name."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


def debug() -> bool:
    """Whether errors show their traceback: TPUFN_DEBUG=1."""
    return os.environ.get("TPUFN_DEBUG", "") not in ("", "0")


def default_home() -> Path:
    """The XDG state directory, `~/.local/state/tpufn` on Linux; the platform's own elsewhere."""
    import platformdirs

    return platformdirs.user_state_path("tpufn", appauthor=False)
