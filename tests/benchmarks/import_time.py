"""What a function imports until it has handled its first event, beside what its Google clients cost alone.

    python tests/benchmarks/import_time.py --runs 7

Prints one JSON line: for each function `ms` (CPU time, the least of so many fresh processes), `floor`
(functions-framework and the Google clients that it uses, nothing of ours) and `over`, the difference, which is to stay
under 100 ms.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORE, BUS = "google.cloud.firestore", "google.cloud.pubsub_v1"
TPUS, FILES = "google.cloud.tpu_v2", "google.cloud.storage"
OF_CLIENT = {TPUS: "tpufn.adapters.tpu_api", FILES: "tpufn.adapters.gcs"}
HOMES = {
    "assign": "placement",
    "autoscale": "sweep",
    "capacity_race": "placement",
    "control": "attempts",
    "execute": "attempts",
    "idle_teardown": "placement",
    "notify": "notices",
    "preemption": "attempts",
    "submit": "submission",
}
PERFORMING = ("capacity_race", "execute")
OF_FUNCTION = {"submit": ["tpufn.spec.submission"]}
CLIENTS = {
    "assign": [STORE, BUS],
    "autoscale": [STORE, BUS, TPUS],
    "capacity_race": [STORE, BUS, TPUS],
    "control": [STORE, BUS, FILES],
    "execute": [STORE, BUS, TPUS, FILES],
    "idle_teardown": [STORE, BUS],
    "notify": [STORE],
    "preemption": [STORE, BUS, TPUS, FILES],
    "submit": [STORE, BUS],
}
"""What each reaches, as `reach` in terraform/main.tf says it, and the topics that all but `notify` publish to."""
_TIMED = """
import importlib, sys, time
start = time.process_time()
for name in sys.argv[1:]:
    importlib.import_module(name)
print(time.process_time() - start)
"""


def modules(function: str) -> list[str]:
    """What it has imported after its first event: main.py, what `tpufn.entry` asks for then, and its clients."""
    adapters = [OF_CLIENT[client] for client in CLIENTS[function] if client in OF_CLIENT]
    own = ["main", "tpufn.bootstrap.cloud", f"tpufn.flows.{HOMES[function]}", *OF_FUNCTION.get(function, ())]
    own += ["tpufn.flows.effects"] if function in PERFORMING else []
    return [*own, *adapters, *CLIENTS[function]]


def floor(function: str) -> list[str]:
    return ["functions_framework", "cloudevents.http", *CLIENTS[function]]


def seconds(names: Sequence[str], function: str) -> float:
    """In a process of its own, as warm as a second start: with compiled files."""
    path = os.pathsep.join([str(ROOT / "shared"), str(ROOT / "functions" / function)])
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _TIMED, *names]
    done = subprocess.run(command, env={**env, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    return float(done.stdout)


def measured(function: str, runs: int) -> dict[str, float]:
    """Alternating, so that a busy moment of the machine meets both."""
    seconds(modules(function), function)
    pairs = [(seconds(modules(function), function), seconds(floor(function), function)) for _ in range(runs)]
    ms, alone = (min(each) * 1000 for each in zip(*pairs, strict=True))
    return {"ms": round(ms, 1), "floor": round(alone, 1), "over": round(ms - alone, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    result = {function: measured(function, runs) for function in CLIENTS}
    print(json.dumps({"functions": result, "worst": max(each["over"] for each in result.values()), "runs": runs}))


if __name__ == "__main__":
    main()
