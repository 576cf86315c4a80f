"""Launch: one attempt on many workers over SSH, against the same number of plain parallel `ssh` connections.

python tests/benchmarks/launch.py --workers 64

Every worker is a real sshd on a loopback address of its own. `ratio` is the launch (agent delivered, order accepted,
supervisor left behind) over `ssh HOST true`, all of them at once with OpenSSH's own defaults; `ratio_fast_kex` is
against the same ssh with the key exchange that we use, which is the cheaper one. Medians over the rounds. All hosts
share this machine: what the agents compute, real ones do on their own. Prints one JSON line last.
"""

import argparse
import contextlib
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("shared", ".")]

_site = importlib.import_module("tests.ssh.site")
_sshd = importlib.import_module("tests.ssh.sshd")
_FAST = ["-o", "KexAlgorithms=curve25519-sha256"]


def plain(site, identity: Path, options: list[str]) -> float:
    """Seconds for `ssh HOST true` on all hosts at once."""
    begin = time.perf_counter()
    common = ["-F", "none", "-i", str(identity), "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    common += ["-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes", *options]
    calls = [
        subprocess.Popen(["ssh", *common, "-p", str(s.port), f"{_sshd.USER}@{s.address}", "true"]) for s in site.servers
    ]
    codes = [call.wait() for call in calls]  # all of them, before the clock is read
    seconds = time.perf_counter() - begin
    assert not any(codes), codes
    return seconds


def launch(site, number: int) -> float:
    """Seconds until all have accepted; then they are stopped."""
    order = site.order("sleep 1000", number=number)
    begin = time.perf_counter()
    missing = site.again().launch(order)
    seconds = time.perf_counter() - begin
    assert missing == {}, missing
    assert site.workers.stop(site.stop_order(order)) == {}
    _sshd.until(lambda: len(site.results(order, "closed")) == len(site.hosts), 120)
    return seconds


def forget_agents(site) -> None:
    """As on new TPUs: the agent is not there yet."""
    for home in site.homes:
        for agent in (home / ".tpufn").glob("agent-*"):
            agent.unlink()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    launches, agents_there, plains, fast = [], [], [], []
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        site = stack.enter_context(_site.ssh_site(Path(name), chosen.workers))
        identity = Path(name) / "id"
        identity.touch(0o600)
        identity.write_bytes(site.private)
        for number in range(chosen.rounds):
            plains.append(plain(site, identity, []))
            fast.append(plain(site, identity, _FAST))
            forget_agents(site)
            launches.append(launch(site, 2 * number + 1))
            agents_there.append(launch(site, 2 * number + 2))
    middle = {
        "launch_seconds": statistics.median(launches),
        "launch_again_seconds": statistics.median(agents_there),
        "ssh_seconds": statistics.median(plains),
        "ssh_fast_kex_seconds": statistics.median(fast),
    }
    ratios = {
        "ratio": middle["launch_seconds"] / middle["ssh_seconds"],
        "ratio_fast_kex": middle["launch_seconds"] / middle["ssh_fast_kex_seconds"],
    }
    figures = {key: round(value, 3) for key, value in {**middle, **ratios}.items()}
    print(json.dumps({"benchmark": "launch", "workers": chosen.workers, "cores": os.cpu_count(), **figures}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
