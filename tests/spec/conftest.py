from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file into a fresh directory and hand back its path."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return write_file


@pytest.fixture
def tpu_runner() -> Path:
    """Two files as tpu-runner's users have them: they must stay valid as they are."""
    return Path(__file__).parent / "tpu_runner"
