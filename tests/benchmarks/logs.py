"""Logs: what a job writes against what arrives in the bucket, case by case, with the agent's peak memory.

python tests/benchmarks/logs.py

Each case is a whole attempt of the real agent with a directory as its bucket. `exact`: byte for byte what was written;
`marker`: where more was written than may be kept, it says so. Prints one JSON line last.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "shared"))

from tpufn.simulation import hosts_processes
from tpufn.simulation.hosts_agent import install, login_environment
from tpufn.worker.protocol import read_json
from tpufn.worker.workspace import remove_shared_memory

MIB = 1 << 20
_WRITER = "import sys, time, hashlib\nseen = hashlib.sha256()\nsize = 0\n"
_WRITER += "def w(data):\n global size\n seen.update(data); size += len(data)\n sys.stdout.buffer.write(data)\n"
_WRITER += "{body}\nsys.stdout.flush()\nopen('../../written', 'w').write('%d %s' % (size, seen.hexdigest()))\n"
_PACED = """\
begin = time.monotonic()
for batch in range({batches}):
    w(b"step %09d loss 0.123456 and some more words to make a line of eighty bytes..\\n" % batch * 1000)
    sys.stdout.flush()
    time.sleep(max(0, begin + batch / 100 - time.monotonic()))
"""


@dataclass(frozen=True)
class Case:
    """`body` writes with `w`. `order`: more keys of the order. `broken`: the bucket takes no logs at all."""

    body: str
    order: Mapping[str, Any] = field(default_factory=dict)
    broken: bool = False


def cases(scale: float) -> dict[str, Case]:
    size = int(100 * MIB * scale)
    return {
        "one line of 100 MB": Case(f"for _ in range({size // MIB}): w(b'x' * {MIB})"),
        "100,000 lines a second": Case(_PACED.format(batches=int(300 * scale))),
        "as fast as it can": Case(
            f"for _ in range({2 * size // MIB}): w(b'a line of thirty-two bytes.....\\n' * 32768)"
        ),
        "progress bar": Case("for i in range(20000): w(b'\\r%5d/20000 [=====>     ]' % i)"),
        "invalid UTF-8 and NUL": Case(f"for _ in range({size // MIB // 4}): w(b'\\xff\\x00\\xc3(\\xed\\xa0' * 174762)"),
        "single bytes": Case("for i in range(50000): w(b'.'); sys.stdout.flush()"),
        "over the limit": Case(f"for _ in range({2 * size // MIB}): w(b'y' * {MIB})", {"log_limit": size // 4}),
        "a bucket that takes nothing": Case(
            f"for _ in range({size // MIB}): w(b'z' * {MIB})", {"drain_timeout": 1.0, "spool_limit": 32 * MIB}, True
        ),
    }


class Memory(threading.Thread):
    """The agent's peak resident memory while it lives, in KiB."""

    def __init__(self, state: Path) -> None:
        super().__init__(daemon=True)
        self.state, self.peak, self.done = state, 0, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.01):
            pid = read_json(str(self.state)).get("pid", 0)
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
            self.peak = max([self.peak, *(int(line.split()[1]) for line in lines)])


def run(root: Path, agent: Path, case: Case) -> dict[str, Any]:
    host, prefix = root / "host", "jobs/job/attempts/1"
    (host / "home").mkdir(parents=True)
    logs = root / "blobs" / "b" / prefix / "logs"
    logs.parent.mkdir(parents=True)
    (logs.parent / "go").touch()
    if case.broken:
        logs.write_text("a file where a directory is needed")
    memory = Memory(host / ".tpufn/attempts/job.1/state.json")
    memory.start()
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-I", "-S", str(agent), "launch", "--home", str(host)],
        input=json.dumps(_order(root, prefix, case)).encode(),
        env=login_environment(host),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    status = logs.parent / "status"
    while not (status / "worker-0.closed.json").exists():
        time.sleep(0.01)
    seconds = time.perf_counter() - begin
    memory.done.set()
    size, digest = (host / "written").read_text().split()
    found = _read(logs / "worker-0")
    exited = json.loads((status / "worker-0.exited.json").read_bytes())
    assert exited["code"] == 0, exited
    assert hosts_processes.kill([host])
    remove_shared_memory(str(host))
    took = {"seconds": round(seconds, 2), "peak_memory_mib": round(memory.peak / 1024, 1)}
    is_exact = found.pop("sha256") == digest
    return {"bytes_in": int(size), **found, "exact": is_exact, **took}


def _order(root: Path, prefix: str, case: Case) -> dict[str, Any]:
    lease = {"slot": "s", "generation": 1, "fence": 1, "attempt": "job.1"}
    plain = {"attempt": "job.1", "job": "job", "number": 1, "lease": lease, "worker": 0, "linger": 0.1}
    bucket = {"kind": "directory", "root": str(root / "blobs"), "bucket": "b"}
    command = f'exec {sys.executable} -I -c "$BODY"'
    body = _WRITER.replace("{body}", case.body)
    more = {"prefix": prefix, "checkpoints": "jobs/job/checkpoints", "cache_reserve": 0, "log_interval": 1.0}
    return {**plain, **more, "bucket": bucket, "command": command, "env": {"BODY": body}, **case.order}


def _read(directory: Path) -> dict[str, Any]:
    digest, size, count, has_marker = hashlib.sha256(), 0, 0, False
    for piece in sorted(directory.glob("*.log")) if directory.is_dir() else ():
        data = piece.read_bytes()
        digest.update(data)
        size, count = size + len(data), count + 1
        has_marker = has_marker or b"bytes of output dropped here" in data
    return {"bytes_out": size, "objects": count, "marker": has_marker, "sha256": digest.hexdigest()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0, help="of the amounts, for a quick look")
    chosen = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        agent = install(Path(name) / "agent")
        for number, (label, case) in enumerate(cases(chosen.scale).items()):
            figures[label] = run(Path(name).resolve() / str(number), agent, case)
            print(f"{label}: {figures[label]}", flush=True)
    peak = max(each["peak_memory_mib"] for each in figures.values())
    print(json.dumps({"benchmark": "logs", "peak_memory_mib": peak, "cases": figures}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
