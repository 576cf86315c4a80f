"""Runs the real Terraform over copies of `terraform/`, offline, with the stand-in for the google provider."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "terraform"
VERSION: str = json.loads((HERE / "schema.json").read_text())["source"]["version"]

FUNCTIONS = tuple(sorted(path.parent.name for path in (ROOT / "functions").glob("*/main.py")))

_LOCAL_STATE = 'terraform {\n  backend "local" {}\n}\n'
"""An override file: a plan needs a state, and the real one is in a bucket."""


_NEEDS = 'terraform {\n  required_providers {\n    google = { source = "hashicorp/google" }\n  }\n}\n'


class TerraformError(Exception):
    """Terraform's own words, on one line: it breaks and frames them to the width of a terminal."""


def install(folder: Path) -> dict[str, str]:
    """Put the stand-in where Terraform finds it. Returns the environment that says so."""
    system = f"{platform.system().lower()}_{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'amd64'}"
    address = _address(folder)
    program = folder / "mirror" / address / VERSION / system / f"terraform-provider-google_v{VERSION}"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "provider" / "server.py"}" "$@"\n')
    program.chmod(0o755)
    config = folder / "terraform.rc"
    config.write_text(
        f'provider_installation {{\n  filesystem_mirror {{\n    path = "{folder / "mirror"}"\n  }}\n}}\n'
        "disable_checkpoint = true\n"
    )
    own = {key: value for key, value in os.environ.items() if not key.startswith("TF_")}
    return {**own, "TF_CLI_CONFIG_FILE": str(config), "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}


def _address(folder: Path) -> str:
    """The provider's full address, host included: Terraform completes the one that is written."""
    (folder / "needs.tf").write_text(_NEEDS)
    told = subprocess.run(
        ["terraform", "providers"], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    found = re.search(r"provider\[(\S+)\]", told.stdout)
    assert found, told.stdout
    return found[1]


@dataclass(frozen=True)
class Workspace:
    """A copy of `terraform/` that is initialised and may be changed."""

    path: Path
    env: Mapping[str, str]

    def run(self, *arguments: str, **env: str) -> str:
        """Standard output. Raises TerraformError with what Terraform said."""
        done = subprocess.run(
            ["terraform", *arguments],
            cwd=self.path,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            raise TerraformError(" ".join((done.stdout + done.stderr).replace("│", " ").split()))
        return done.stdout

    def plan(self, variables: Mapping[str, Any], **env: str) -> "Plan":
        (self.path / "test.tfvars.json").write_text(json.dumps(variables))
        self.run("plan", "-input=false", "-no-color", "-var-file=test.tfvars.json", "-out=plan", **env)
        return Plan(json.loads(self.run("show", "-json", "plan", **env)))

    def edit(self, file: str, old: str, new: str) -> None:
        """One change, which has to hit exactly one place."""
        path = self.path / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} has {text.count(old)} times: {old}"
        path.write_text(text.replace(old, new))


def workspace(folder: Path, env: Mapping[str, str]) -> Workspace:
    path = folder / "terraform"
    shutil.copytree(SOURCE, path, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*", "*.tfvars"))
    (path / "backend_override.tf").write_text(_LOCAL_STATE)
    made = Workspace(path, env)
    made.run("init", "-input=false", "-no-color")
    return made


@dataclass(frozen=True)
class Resource:
    """One planned resource. Values that are known only after an apply are missing."""

    address: str
    type: str
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str) -> Any:
        return self.values.get(name)


@dataclass(frozen=True)
class Plan:
    """A plan, as `terraform show -json` tells it."""

    json: Mapping[str, Any]

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        return tuple(_resources(self.json["planned_values"]["root_module"]))

    def of(self, *types: str) -> tuple[Resource, ...]:
        return tuple(r for r in self.resources if r.type in types)

    def one(self, address: str) -> Resource:
        return next(r for r in self.resources if r.address == address)

    @property
    def outputs(self) -> Mapping[str, Any]:
        return {name: output.get("value") for name, output in self.json["planned_values"]["outputs"].items()}


def _resources(module: Mapping[str, Any]) -> list[Resource]:
    own = [
        Resource(each["address"], each["type"], each["values"])
        for each in module.get("resources", ())
        if each["mode"] == "managed"
    ]
    return own + [r for child in module.get("child_modules", ()) for r in _resources(child)]


def variables(folder: Path, **more: Any) -> dict[str, Any]:
    """What a deployment says at least, with archives that hold nothing."""
    archives = {}
    for name in FUNCTIONS:
        path = folder / f"{name}.zip"
        path.write_bytes(f"the source of {name}".encode())
        archives[name] = str(path)
    indexes = ROOT / "shared" / "tpufn" / "adapters" / "firestore_indexes.json"
    return {
        "name": "lab",
        "project": "my-project",
        "archives": archives,
        "indexes_file": str(indexes),
        **more,
    }
