"""A project that answers as Google's APIs do, and a terraform that plays what it is told."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions

from tpufn.deploy.project import Project
from tpufn.deploy.steps import Tools, Wish
from tpufn.deploy.terraform import Change, Plan
from tpufn.domain.fleet import Fleet, Mode, Pool

FLEET = Fleet(
    name="lab",
    project="my-project",
    mode=Mode.CLOUD,
    pools=(
        Pool(id="spot-v6e8-ue1d", type="v6e-8", zone="us-east1-d", count=2, runtime="v2-alpha-tpuv6e"),
        Pool(id="spot-v5p16-ue5a", type="v5p-16", zone="us-east5-a", count=1, runtime="v2-alpha-tpuv5"),
    ),
    buckets={"my-data-us-east1": "us-east1"},
    settings={"ssh_transport": "direct", "network": "default", "controller_region": "us-central1"},
)

_PLAYER = '''#!{python}
"""Writes down how it was called, and plays the next recorded answer for that command."""
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words = [word for word in sys.argv[1:] if not word.startswith("-chdir")]
folder = next(word for word in sys.argv if word.startswith("-chdir=")).partition("=")[2]
tfvars = json.loads((pathlib.Path(folder) / "tpufn.more.auto.tfvars.json").read_text())
with (here / "calls").open("a") as calls:
    calls.write(json.dumps([*words, "protected" if tfvars.get("delete_protection", True) else "free"]) + "\\n")
answers = sorted(here.glob(words[0] + ".*"))
answer = json.loads(answers[0].read_text()) if answers else {{"code": 0, "text": ""}}
if len(answers) > 1:
    answers[0].unlink()
print(answer["text"], end="")
sys.exit(answer["code"])
'''


@dataclass
class FakeTerraform:
    """The program `path`. `play` says what a command answers; the last answer of a command is played for ever."""

    folder: Path
    plays: int = 0

    @property
    def path(self) -> str:
        return str(self.folder / "terraform")

    def play(self, command: str, lines: Sequence[Mapping[str, Any]] | str, *, code: int = 0) -> None:
        text = lines if isinstance(lines, str) else "".join(f"{json.dumps(line)}\n" for line in lines)
        self.plays += 1
        (self.folder / f"{command}.{self.plays:03}").write_text(json.dumps({"text": text, "code": code}))

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    def commands(self) -> list[str]:
        return [call[0] for call in self.calls()]


def planned(address: str, action: str = "create") -> dict[str, Any]:
    change = {"resource": {"addr": address}, "action": action}
    return {"@level": "info", "@message": f"{address}: Plan to {action}", "type": "planned_change", "change": change}


def applied(address: str, action: str = "create", seconds: int = 3) -> dict[str, Any]:
    hook = {"resource": {"addr": address}, "action": action, "elapsed_seconds": seconds}
    return {"@level": "info", "@message": f"{address}: complete", "type": "apply_complete", "hook": hook}


def failed(address: str, summary: str, detail: str = "") -> dict[str, Any]:
    diagnostic = {"severity": "error", "summary": summary, "detail": detail, "address": address}
    return {"@level": "error", "@message": f"Error: {summary}", "type": "diagnostic", "diagnostic": diagnostic}


OUTPUTS = {
    "functions": {"value": {"submit": {"uri": "https://submit"}}},
    "topics": {"value": {"submissions": "projects/my-project/topics/tpufn-lab-submissions"}},
    "database": {"value": "tpufn-lab"},
}


@pytest.fixture
def terraform(tmp_path: Path) -> FakeTerraform:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "terraform"
    program.write_text(_PLAYER.format(python=sys.executable))
    program.chmod(0o755)
    fake = FakeTerraform(folder)
    fake.play("version", json.dumps({"terraform_version": "1.9.8"}))
    fake.play("output", json.dumps(OUTPUTS))
    return fake


@dataclass
class FakeGoogle:
    """Every API that is asked: the answers by a part of the address; an exception is raised."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, str, Mapping[str, Any] | None]] = field(default_factory=list)

    def __call__(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        self.asked.append((method, url, body))
        for part, answer in self.answers.items():
            if part in f"{method} {url}":
                found = answer(url, body) if callable(answer) else answer
                if isinstance(found, Exception):
                    raise found
                return dict(found)
        raise exceptions.NotFound(f"nothing is known of {url}")

    def healthy(self) -> "FakeGoogle":
        """A project in which nothing is wrong."""
        self.answers = {
            "userinfo": {"email": "ada@example.org"},
            ":testIamPermissions": lambda url, body: {"permissions": body["permissions"]},
            "services:batchGet": _all_enabled,
            "services:batchEnable": {},
            "storage.googleapis.com": {"name": "there"},
            "consumerQuotaMetrics": {
                "metrics": [_quota("Preemptible TPU v6e chips", 64), _quota("TPU v5p preemptible chips", 64)]
            },
            "/regions/": {"quotas": [{"metric": "IN_USE_ADDRESSES", "limit": 8, "usage": 1}]},
            "/firewalls": {"items": [SSH]},
            "/acceleratorTypes": {"acceleratorTypes": [{"type": "v6e-8"}, {"type": "v5p-16"}]},
            "/runtimeVersions": {"runtimeVersions": [{"version": "v2-alpha-tpuv6e"}, {"version": "v2-alpha-tpuv5"}]},
            "cloudresourcemanager.googleapis.com/v1/projects/my-project": {"projectNumber": "42"},
        }
        return self


SSH = {
    "direction": "INGRESS",
    "network": "https://compute.googleapis.com/compute/v1/projects/my-project/global/networks/default",
    "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}],
}


def _quota(name: str, limit: int) -> dict[str, Any]:
    buckets = [{"effectiveLimit": str(limit), "dimensions": {"region": region}} for region in ("us-east1", "us-east5")]
    return {"displayName": name, "consumerQuotaLimits": [{"quotaBuckets": buckets}]}


def _all_enabled(url: str, body: object) -> dict[str, Any]:
    return {"services": [{"name": part, "state": "ENABLED"} for part in url.partition("?")[2].split("&")]}


@pytest.fixture
def google() -> FakeGoogle:
    return FakeGoogle().healthy()


class FakeKey:
    """The runner's pair."""

    def __init__(self) -> None:
        self.versions = 0

    def ensure(self) -> bool:
        if self.versions:
            return False
        self.versions = 1
        return True

    def begin_rotation(self) -> str:
        self.versions += 1
        return str(self.versions)


class Heard:
    """What was told, in order."""

    def __init__(self, *, agrees: bool = True) -> None:
        self.agrees, self.lines, self.plans = agrees, [], []
        self.questions: list[str] = []
        self.lines: list[str]
        self.plans: list[Plan]
        self._step = ""

    def begin(self, step: str) -> None:
        self._step = step

    def end(self, text: str) -> None:
        self.lines.append(f"{self._step}: {text}")

    def change(self, change: Change) -> None:
        self.lines.append(f"{change.action} {change.address}")

    def plan(self, plan: Plan) -> None:
        self.plans.append(plan)

    def agree(self, question: str) -> bool:
        self.questions.append(question)
        return self.agrees


@dataclass
class Bench:
    """A wish with its tools, and what became of them."""

    wish: Wish
    tools: Tools
    key: FakeKey
    slept: list[float]
    declared: list[str]


@pytest.fixture
def bench(tmp_path: Path, terraform: FakeTerraform, google: FakeGoogle) -> Callable[..., Bench]:
    def make(fleet: Fleet = FLEET, **wish: Any) -> Bench:
        key, slept, declared = FakeKey(), [], []
        tools = Tools(
            project=Project("my-project", call=google),
            key=key,
            declare=lambda: declared.append(f"{fleet.name} after {terraform.commands()[-1]}"),
            sleep=slept.append,
            program=terraform.path,
        )
        made = Wish(fleet=fleet, folder=tmp_path / "work", **wish)
        return Bench(wish=made, tools=tools, key=key, slept=slept, declared=declared)

    return make
