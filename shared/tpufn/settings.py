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
