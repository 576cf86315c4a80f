"""From `submit` to the first line of the command on an idle TPU, through all real processes. Prints one JSON line last.

    python tests/benchmarks/system_latency.py --jobs 30

Functions on functions-framework, Firestore with its triggers, Pub/Sub pushing, Cloud Storage, the TPU server, workers
that really run; the client in this process, as a person's that is warm. `p50` and `p95`: seconds until the command ran
its first line, by the machine's clock; `parts`: the medians of the way there, by the store's clock. The workers look
for `go` every 0.1 s here, and Eventarc and Pub/Sub are a thread and an emulator on the same machine.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "shared"), str(ROOT / "cli"), str(ROOT)]

from tests.emulators import run_firestore, run_pubsub
from tests.system.deployment import Deployment, run_cloud

FLEET = """
idle_timeout_seconds: 600
tpus: [{type: v6e-8, zone: us-east5-a, count: 1}]
"""
STEPS = ("attempt.assigned", "attempt.launching", "attempt.running")


@contextmanager
def deployment() -> Iterator[Deployment]:
    with tempfile.TemporaryDirectory() as directory, run_firestore() as firestore, run_pubsub() as pubsub:
        os.environ |= {"FIRESTORE_EMULATOR_HOST": firestore.host, "PUBSUB_EMULATOR_HOST": pubsub.host}
        home = Path(directory)
        with run_cloud(firestore, pubsub, home) as cloud:
            os.environ["STORAGE_EMULATOR_HOST"] = cloud.located
            with Deployment(cloud, home, FLEET).running() as running:
                yield running


def write_job(running: Deployment) -> str:
    source = running.home / "src"
    source.mkdir()
    (source / "main.py").write_text("print('hello')\n")
    path = running.home / "job.yaml"
    bucket = running.buckets["us-east5"]
    command = 'echo "$EPOCHREALTIME"'
    path.write_text(f"jobs:\n  - {{tpu: v6e-8, buckets: ['gs://{bucket}'], bundle: src, command: '{command}'}}\n")
    return str(path)


def one(running: Deployment, path: str) -> tuple[float, list[float]]:
    """Seconds until the first line ran, and until each step before it."""
    client = running.client()
    client.slots()  # connected, as a console is
    start = time.time()
    (id,) = client.submit(path).jobs
    running.until_ended(id)
    ran = float(b"".join(piece.data for piece in client.logs(id)).split()[0]) - start
    at = {note.event: note.at - start for note in running.history(id)}
    running.until(lambda: all(slot.state in ("idle", "free") for slot in running.slots().values()))
    return ran, [at[step] for step in STEPS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=30)
    jobs = parser.parse_args().jobs
    with deployment() as running:
        path = write_job(running)
        for _ in range(3):  # the first brings the TPU up; then every process is warm
            one(running, path)
        figures = [one(running, path) for _ in range(jobs)]
    ran = sorted(each[0] for each in figures)
    parts = {step: round(statistics.median(each[1][i] for each in figures), 3) for i, step in enumerate(STEPS)}
    p95 = ran[min(len(ran) - 1, int(len(ran) * 0.95))]
    print(json.dumps({"p50": round(statistics.median(ran), 3), "p95": round(p95, 3), "parts": parts, "jobs": jobs}))


if __name__ == "__main__":
    main()
