"""A tiny training job that survives preemptions: fits a line to noisy points by gradient descent.

Every worker runs it and computes the same, as data-parallel replicas do. Worker 0 writes checkpoints and reports.
When its TPU is reclaimed, a worker gets SIGTERM: worker 0 writes a last checkpoint, and all exit with a code other
than zero. The next attempt goes on from the newest checkpoint.

Standard library only. STEPS and STEP_SECONDS set how long it takes.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TypedDict

WORKER = int(os.environ.get("JOB_WORKER_ID", "0"))
WORKERS = int(os.environ.get("TPU_WORKER_COUNT", "1"))
STEPS = int(os.environ.get("STEPS", "40"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0.15"))
CHECKPOINT_EVERY = 5
RATE = 0.3

Points = list[tuple[float, float]]


class State(TypedDict):
    """The model, and how far its training has come."""

    step: int
    slope: float
    offset: float


def main() -> None:
    folder = checkpoint_folder(arguments().checkpoints)
    stop = Stop()
    state = resume(folder)
    points = data()
    for step in range(state["step"] + 1, STEPS + 1):
        state = train_step(state, points, step)
        time.sleep(STEP_SECONDS)
        if stop.asked:
            leave(folder, state)
        if WORKER == 0:
            report(folder, state)
    say(f"done: y = {state['slope']:.3f} x + {state['offset']:.3f}, loss={loss(state, points):.4f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoints", required=True, help="directory, or gs:// path")
    return parser.parse_args()


def checkpoint_folder(path: str) -> Path:
    """The directory for checkpoints; the same for all attempts of the job."""
    if path.startswith("gs://"):
        sys.exit(
            "this example writes checkpoints to a directory; for gs:// install a library that can write there: "
            "`pip install gcsfs` (fsspec), or orbax-checkpoint or tensorstore for JAX arrays"
        )
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def resume(folder: Path) -> State:
    """The state of the newest checkpoint, or a fresh one."""
    newest = max(folder.glob("step-*.json"), default=None)
    state: State = json.loads(newest.read_text()) if newest else {"step": 0, "slope": 0.0, "offset": 0.0}
    if WORKER != 0:
        say(f"joined as worker {WORKER} of {WORKERS}")
    elif newest:
        say(f"resumed from checkpoint step={state['step']}")
    else:
        say(f"starting on {os.environ.get('TPU_TYPE', 'this machine')} with {WORKERS} workers")
    return state


def save(folder: Path, state: State) -> None:
    """Write a checkpoint so that it is there as a whole or not at all."""
    path = folder / f"step-{state['step']:06d}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(state))
    os.replace(part, path)
    say(f"checkpoint step={state['step']}")


def data() -> Points:
    """The same noisy points on every worker and in every attempt."""
    noise = random.Random(1)
    xs = [i / 32 for i in range(64)]
    return [(x, 3.0 * x - 1.0 + noise.gauss(0, 0.1)) for x in xs]


def train_step(state: State, points: Points, step: int) -> State:
    """One step of gradient descent on the mean squared error."""
    errors = [(state["slope"] * x + state["offset"] - y, x) for x, y in points]
    slope = state["slope"] - RATE * 2 * sum(e * x for e, x in errors) / len(points)
    offset = state["offset"] - RATE * 2 * sum(e for e, _ in errors) / len(points)
    return {"step": step, "slope": slope, "offset": offset}


def loss(state: State, points: Points) -> float:
    return sum((state["slope"] * x + state["offset"] - y) ** 2 for x, y in points) / len(points)


def report(folder: Path, state: State) -> None:
    """Progress after every few steps, and a checkpoint with it."""
    if state["step"] % CHECKPOINT_EVERY == 0 or state["step"] == STEPS:
        say(f"step={state['step']}/{STEPS} loss={loss(state, data()):.4f}")
        save(folder, state)


def leave(folder: Path, state: State) -> None:
    """The TPU is being taken away: keep what there is."""
    if WORKER == 0:
        save(folder, state)
    sys.exit(f"stopped by SIGTERM at step={state['step']}")


class Stop:
    """Whether somebody asked us to stop. The step that runs is finished first."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_: object) -> None:
        self.asked = True


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
