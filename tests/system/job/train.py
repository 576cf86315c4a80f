"""A training job that keeps its progress in Cloud Storage: worker 0 writes a checkpoint after each step."""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

BUCKET, _, FOLDER = os.environ["CHECKPOINT_GCS_DIR"].removeprefix("gs://").partition("/")
OBJECT, SERVER = f"{FOLDER}/step.json", os.environ["STORAGE"]


def main() -> None:
    worker, steps = int(os.environ["JOB_WORKER_ID"]), int(os.environ["STEPS"])
    first = read()
    print(f"attempt {os.environ['ATTEMPT_NUMBER']} worker {worker} begins after step {first}", flush=True)
    for step in range(first + 1, steps + 1):
        time.sleep(0.1)
        if worker == 0:
            write(step)
    print(f"worker {worker} is done", flush=True)


def read() -> int:
    """The last step that is kept; 0 for none."""
    url = f"{SERVER}/storage/v1/b/{BUCKET}/o/{urllib.parse.quote(OBJECT, safe='')}?alt=media"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(json.load(answer)["step"])
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return 0
        sys.exit(f"no answer from {SERVER}: {error}")


def write(step: int) -> None:
    query = urllib.parse.urlencode({"uploadType": "media", "name": OBJECT})
    body = json.dumps({"step": step}).encode()
    with urllib.request.urlopen(f"{SERVER}/upload/storage/v1/b/{BUCKET}/o?{query}", body, timeout=10):
        pass


main()
