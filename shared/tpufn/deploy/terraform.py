"""The terraform program as an object: it runs in one folder, and what it prints as JSON becomes events and errors.

The lines are those of `terraform plan|apply -json` (developer.hashicorp.com/terraform/internals/machine-readable-ui).
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpufn.domain.errors import InputError, TpufnError

LEAST = (1, 9)
"""The oldest version that reads our configuration (terraform/versions.tf)."""
_PROGRAMS = ("terraform", "tofu")
_SHOWN = frozenset({"apply_complete", "apply_errored", "refresh_complete"})


class TerraformFailed(TpufnError):
    """What Terraform could not do. `diagnostics` are its own errors, each with the resource that it is about."""

    exit_code = 5

    def __init__(self, command: str, diagnostics: Sequence[str]) -> None:
        self.diagnostics = tuple(diagnostics)
        said = "\n".join(diagnostics) or "it said nothing"
        super().__init__(f"terraform {command} failed: {said}")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One line of progress: a resource that was made, changed or deleted, and in how many seconds."""

    address: str
    action: str
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What would happen: `create`, `update`, `delete`, `replace` by address."""

    changes: Mapping[str, str] = field(default_factory=dict)

    def count(self, *actions: str) -> int:
        return sum(action in actions for action in self.changes.values())

    def __str__(self) -> str:
        made, changed = self.count("create", "replace"), self.count("update")
        return f"{made} to make, {changed} to change, {self.count('delete', 'replace')} to delete"


class Terraform:
    """`program` is a path; by default `terraform`, or `tofu` where that is what is there."""

    def __init__(self, folder: Path, *, program: str = "") -> None:
        self.folder, self._program = folder, program or find()

    def version(self) -> tuple[int, ...]:
        said = self._ask("version", "-json")
        return tuple(int(part) for part in str(json.loads(said)["terraform_version"]).split("-")[0].split("."))

    def init(self, backend: Mapping[str, str]) -> None:
        told = [f"-backend-config={name}={value}" for name, value in backend.items()]
        self._ask("init", "-input=false", "-no-color", "-reconfigure", *told)

    def plan(self, *, destroy: bool = False) -> Plan:
        """Written to the file `plan`, which `apply` takes."""
        changes: dict[str, str] = {}
        for line in self._lines("plan", "-input=false", "-out=plan", *(["-destroy"] if destroy else [])):
            if line.get("type") == "planned_change":
                change = line["change"]
                changes[str(change["resource"]["addr"])] = str(change["action"])
        return Plan(changes=changes)

    def apply(self, tell: Callable[[Change], None]) -> None:
        """Carry the plan out; `tell` is told each resource as it is done."""
        for line in self._lines("apply", "-input=false", "plan"):
            if line.get("type") in _SHOWN:
                hook = line["hook"]
                seconds = float(hook.get("elapsed_seconds", 0))
                address = str(hook["resource"]["addr"])
                tell(Change(address=address, action=str(hook.get("action", "")), seconds=seconds))

    def outputs(self) -> Mapping[str, Any]:
        said = json.loads(self._ask("output", "-json"))
        return {name: output["value"] for name, output in said.items()}

    def _ask(self, command: str, *arguments: str) -> str:
        done = subprocess.run(
            self._line(command, *arguments), capture_output=True, text=True, env=_environment(), check=False
        )
        if done.returncode:
            raise TerraformFailed(command, [(done.stderr or done.stdout).strip()])
        return done.stdout

    def _lines(self, command: str, *arguments: str) -> Iterator[Mapping[str, Any]]:
        """What it prints, line by line as it comes. Raises TerraformFailed at its end."""
        pipe = subprocess.PIPE
        errors: list[str] = []
        line = self._line(command, "-json", *arguments)
        with subprocess.Popen(line, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=_environment()) as running:
            assert running.stdout is not None
            for text in running.stdout:
                told = _read(text)
                if told.get("@level") == "error":
                    errors.append(_problem(told))
                yield told
        if running.returncode:
            raise TerraformFailed(command, errors)

    def _line(self, command: str, *arguments: str) -> list[str]:
        return [self._program, f"-chdir={self.folder}", command, *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0"}


def find() -> str:
    """The program. Raises InputError where there is none."""
    for name in _PROGRAMS:
        if path := shutil.which(name):
            return path
    raise InputError("there is no terraform on the path: install Terraform 1.9 or newer (or OpenTofu), then try again")


def _read(text: str) -> Mapping[str, Any]:
    """A line of JSON; any other line is an error in words."""
    try:
        told = json.loads(text)
    except ValueError:
        return {"@level": "error", "@message": text.strip()} if text.strip() else {}
    return told if isinstance(told, dict) else {}


def _problem(told: Mapping[str, Any]) -> str:
    diagnostic = told.get("diagnostic") or {}
    summary = str(diagnostic.get("summary") or told.get("@message") or "")
    detail, address = str(diagnostic.get("detail") or ""), str(diagnostic.get("address") or "")
    head = f"{address}: {summary}" if address else summary
    return f"{head}; {detail}" if detail and detail not in summary else head
