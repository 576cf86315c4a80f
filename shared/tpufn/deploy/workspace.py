"""The folder that Terraform works in: our configuration, what the deployment file says, and where its state is."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tpufn
from tpufn.deploy.terraform import Terraform
from tpufn.domain.fleet import Fleet
from tpufn.package import package

LOCAL_STATE = 'terraform {\n  backend "local" {}\n}\n'
_MORE = "tpufn.more.auto.tfvars.json"
"""Read after `package`'s own file, so what it names wins."""


def state_bucket(project: str) -> str:
    """One a project; each deployment has a prefix in it."""
    return f"{project.replace(':', '-').replace('.', '-')}-tpufn-state"


def prepare(folder: Path, fleet: Fleet, *, local_state: bool, more: Mapping[str, Any], program: str = "") -> Terraform:
    """Our configuration anew, whatever an earlier version left; state, locks and providers stay."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in (*folder.glob("*.tf"), *folder.glob("*.zip")):
        old.unlink()
    shutil.rmtree(folder / "modules", ignore_errors=True)
    packed = package(folder, fleet)
    for path in packed.terraform.glob("*.tf"):
        shutil.copyfile(path, folder / path.name)
    shutil.copytree(packed.terraform / "modules", folder / "modules")
    indexes = Path(tpufn.__file__).parent / "adapters" / "firestore_indexes.json"
    (folder / _MORE).write_text(json.dumps({"indexes_file": str(indexes), **more}, indent=2) + "\n")
    if local_state:
        (folder / "backend_override.tf").write_text(LOCAL_STATE)
    return Terraform(folder, program=program)
