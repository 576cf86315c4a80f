"""What Terraform tells the functions is what they read: a name that only one side knows is a setting without effect."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOR_TESTS = {"TPUFN_POLICY", "TPUFN_WORKERS", "TPUFN_TPU_ENDPOINT"}
"""Read, and never set in production: they stand for a simulated cloud."""


def names(path: Path, pattern: str) -> set[str]:
    return set(re.findall(pattern, path.read_text()))


def test_every_variable_is_read_and_every_other_is_for_tests() -> None:
    told = {name for path in (ROOT / "terraform").rglob("*.tf") for name in names(path, r"\b(TPUFN_[A-Z_]+)\s*=")}
    deployed = (ROOT / "shared" / "tpufn" / "settings.py").read_text()
    deployed = deployed[deployed.index("def deployed") : deployed.index("def load")]
    read = set(re.findall(r"TPUFN_[A-Z_]+", deployed))
    read |= {name for path in (ROOT / "functions").rglob("*.py") for name in names(path, r"TPUFN_[A-Z_]+")}
    assert told - read == set()
    assert read - told == FOR_TESTS
