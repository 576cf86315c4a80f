"""Settings: one frozen value, made once from the environment. No other module reads it."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`home` holds the embedded state; `deployment` is a path or gs:// URL, "" where nothing says."""

    home: Path
    deployment: str = ""
    debug: bool = False
    user: str = ""


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """What a deployed function is told. Empty endpoints are Google's own; others serve tests.

    `workers`: "ssh", or "local:DIR" for the local workers of a simulated cloud on the same machine.
    """

    name: str
    project: str
    policy: str = "production"
    workers: str = "ssh"
    tpu_endpoint: str = ""
    storage_endpoint: str = ""


def deployed() -> Deployed:
    """From the function's environment, which Terraform writes. Raises KeyError where that is not done."""
    env = os.environ
    return Deployed(
        name=env["TPUFN_NAME"],
        project=env["TPUFN_PROJECT"],
        policy=env.get("TPUFN_POLICY", "production"),
        workers=env.get("TPUFN_WORKERS", "ssh"),
        tpu_endpoint=env.get("TPUFN_TPU_ENDPOINT", ""),
        storage_endpoint=env.get("STORAGE_EMULATOR_HOST", ""),
    )


def load(*, home: str | None = None, deployment: str | None = None) -> Settings:
    """Flags win over the environment: TPUFN_HOME, TPUFN_DEPLOYMENT, TPUFN_DEBUG."""
    env = os.environ
    return Settings(
        home=Path(home or env.get("TPUFN_HOME") or default_home()).expanduser().absolute(),
        deployment=deployment or env.get("TPUFN_DEPLOYMENT", ""),
        debug=debug(),
        user=env.get("USER") or env.get("USERNAME") or "somebody",
    )


def debug() -> bool:
    """Whether errors show their traceback: TPUFN_DEBUG=1."""
    return os.environ.get("TPUFN_DEBUG", "") not in ("", "0")


def default_home() -> Path:
    """The XDG state directory, `~/.local/state/tpufn` on Linux; the platform's own elsewhere."""
    import platformdirs

    return platformdirs.user_state_path("tpufn", appauthor=False)
