"""Writes requirements.txt, the lock of what functions run with: exact versions, with the hashes of all their files.

    python -m pip install uv && python functions/lock.py

It holds for CPython 3.11 to 3.13 on Linux: what differs between them has a marker. Which distributions functions need
follows from pyproject.toml: all that the project depends on, but for what only people's machines use.
"""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
LOCK = HERE / "requirements.txt"
LEFT_OUT = frozenset(
    {
        "click",  # comes with functions-framework anyway
        "google-cloud-scheduler",
        "libtmux",
        "platformdirs",
        "psutil",
        "rich",
        "textual",
        "websockets",
    }
)
"""The command line's, the terminal UI's, and what people's own SSH through IAP needs."""
_HEAD = "# Written by lock.py. Do not edit: `python -m pip install uv && python functions/lock.py`\n"


def needed() -> list[str]:
    """The project's dependencies that functions have, as pyproject.toml writes them."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    return [each for each in project["dependencies"] if name_of(each) not in LEFT_OUT]


def name_of(requirement: str) -> str:
    return requirement.partition(">")[0].partition("=")[0].partition(";")[0].partition("[")[0].strip()


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        wanted, locked = Path(scratch) / "requirements.in", Path(scratch) / "requirements.txt"
        wanted.write_text("\n".join([*needed(), ""]))
        how = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", *how, str(wanted), "-o", str(locked)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        LOCK.write_text(_HEAD + locked.read_text())


if __name__ == "__main__":
    main()
