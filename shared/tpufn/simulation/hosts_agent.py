"""Running the agent on simulated hosts: the same program and the same orders as on a TPU, without SSH in between."""

import compileall
import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpufn.worker.archive import modules, version

CONCURRENCY = 32
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One command of the agent on one host."""

    host: Path
    verb: str
    body: Mapping[str, Any]


def install(directory: Path) -> Path:
    """The agent below `directory`, unpacked and compiled once per version. Returns what Python runs."""
    target = directory / version()
    if not target.exists():
        directory.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=directory))
        for name, source in modules().items():
            path = scratch / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(source, encoding="utf-8")
        compileall.compile_dir(scratch, quiet=2, stripdir=str(scratch), prependdir=str(target))
        try:
            scratch.rename(target)
        except OSError:
            shutil.rmtree(scratch)  # somebody else was faster
    return target


def login_environment(host: Path) -> dict[str, str]:
    """What sshd would give to a session there: none of the engine's own variables reaches a job."""
    user = pwd.getpwuid(os.getuid()).pw_name
    names = {"USER": user, "LOGNAME": user, "HOME": str(host / "home"), "SHELL": "/bin/bash"}
    return {**names, "PATH": _SYSTEM_PATH, "LANG": "C.UTF-8", "TPUFN_HOST": str(host)}


def make_home(host: Path) -> None:
    """The user's home on a host: clean as on a TPU, with this Python behind those that the machine has."""
    home = host / "home"
    home.mkdir(parents=True, exist_ok=True)
    (home / ".bash_profile").write_text(f"export PATH=$PATH:{shlex.quote(str(Path(sys.executable).parent))}\n")


def ask(
    agent: Path, calls: Mapping[int, Call], login: Mapping[str, str], *, timeout: float
) -> dict[int, dict[str, Any]]:
    """Every call's answer; {"answer": "none", "cause": ...} where there was none in time. All at once, up to 32."""
    answers: dict[int, dict[str, Any]] = {}
    indexes = sorted(calls)
    for start in range(0, len(indexes), CONCURRENCY):
        deadline = time.monotonic() + timeout
        started = {i: _start(agent, calls[i], login) for i in indexes[start : start + CONCURRENCY]}
        answers |= {i: _answer(process, deadline) for i, process in started.items()}
    return answers


def _start(agent: Path, call: Call, login: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """The order goes through a nameless file: nothing of it is in an argument, and no pipe can fill up."""
    with tempfile.TemporaryFile() as order:
        order.write(json.dumps(call.body).encode())
        order.seek(0)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-E", str(agent), call.verb, "--home", str(call.host)],
            stdin=order,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**login_environment(call.host), **login},
            start_new_session=True,
        )


def _answer(process: subprocess.Popen[bytes], deadline: float) -> dict[str, Any]:
    with process:
        try:
            output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            answer = json.loads(output)
        except subprocess.TimeoutExpired:
            process.kill()
            return {"answer": "none", "cause": "the worker did not answer in time"}
        except ValueError:
            words = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
            return {"answer": "none", "cause": f"the agent ended with {process.returncode}: {' '.join(words)}"}
    return dict(answer)
