"""From `submit` to the first line of the command on an idle TPU, in the sandbox. Prints one JSON line last.

    python tests/benchmarks/submit_latency.py --jobs 30

`p50` and `p95`: seconds until the command ran its first line on the first worker, by the machine's clock;
`visible_p50`: until that line could be read with `tpufn logs`.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "shared"), str(ROOT / "cli")]

from tpufn.client import Client, open_engine

DEPLOYMENT = """
name: latency
project: sandbox
idle_timeout_seconds: 600
tpus: [{type: v6e-16, zone: us-east5-a, count: 1}]
"""
JOB = """
jobs:
  - tpu: v6e-16
    buckets: [gs://latency-us-east5]
    bundle: src
    command: echo "$EPOCHREALTIME"
"""


def one(client: Client, path: str) -> tuple[float, float]:
    """(until the first line ran, until it could be read)."""
    start = time.time()
    receipt = client.submit(path)
    client.wait_accepted(receipt)
    (id,) = receipt.jobs
    for piece in filter(lambda piece: piece.data, client.logs(id, worker=0, follow=True)):
        seen = time.time() - start
        ran = float(piece.data.split()[0]) - start
        break
    for _ in client.watch([id]):
        continue
    return ran, seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=30)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        (home / "src").mkdir()
        (home / "src" / "main.py").write_text("print('hello')\n")
        (home / "deployment.yaml").write_text(DEPLOYMENT)
        (home / "job.yaml").write_text(JOB)
        engine = open_engine(home=str(home / "state"), deployment=str(home / "deployment.yaml"), sandbox=True)
        engine.start()
        try:
            one(engine.client, str(home / "job.yaml"))  # brings the TPU up
            figures = [_settled(engine.client, str(home / "job.yaml")) for _ in range(args.jobs)]
        finally:
            engine.drain()
            engine.stop()
    ran, seen = sorted(f[0] for f in figures), sorted(f[1] for f in figures)
    result = {
        "p50": round(statistics.median(ran), 3),
        "p95": round(ran[int(len(ran) * 0.95)], 3),
        "visible_p50": round(statistics.median(seen), 3),
        "jobs": args.jobs,
        "workers": 4,
    }
    print(json.dumps(result))


def _settled(client: Client, path: str) -> tuple[float, float]:
    """One measurement, begun when the TPU is idle again."""
    while not any(slot.state == "idle" for slot in client.slots()):
        time.sleep(0.005)
    return one(client, path)


if __name__ == "__main__":
    main()
