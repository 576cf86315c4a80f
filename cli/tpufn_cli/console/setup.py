"""The bootstrap: scripts that make a TPU comfortable for a person, copied and run on all of its workers over SSH.

They run as that person, with the agent forwarded, so private repositories can be cloned; `startup_script` of the
deployment file is the other kind (root, at each boot, without an agent). Output is kept in a file per worker, and how
it ended is remembered for the TPU, so that each generation of a slot is set up once.
"""

import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tpufn.domain.errors import InputError
from tpufn.domain.views import SlotView
from tpufn_cli.console.agent import require_agent
from tpufn_cli.console.children import Children
from tpufn_cli.console.hosts import Host
from tpufn_cli.console.memory import Memory

OK = "ok"
_AT_ONCE = 16
_DELIVER = (
    'd="$HOME/.tpufn/setup"; mkdir -p "$d" && cat > "$d/{name}" && chmod 700 "$d/{name}"'
    ' && {env} "$d/{name}" </dev/null'
)


@dataclass(frozen=True)
class Script:
    """One script to run: its name on the worker, and its text."""

    name: str
    text: bytes


@dataclass(frozen=True)
class SetUp:
    """How a set-up ended. `failed`: worker -> what went wrong. `logs`: one file per worker."""

    slot: str
    tpu: str
    failed: Mapping[int, str]
    logs: tuple[Path, ...]

    @property
    def ok(self) -> bool:
        return not self.failed

    @property
    def words(self) -> str:
        if self.ok:
            return f"{self.slot}: set up on {len(self.logs)} worker{'s' * (len(self.logs) != 1)}"
        first, cause = next(iter(self.failed.items()))
        return f"{self.slot}: set-up failed on {len(self.failed)} of {len(self.logs)} workers; worker {first}: {cause}"


def scripts(paths: Sequence[str], base: Path) -> tuple[Script, ...]:
    """The scripts of these paths, relative to `base`; the shipped default where there are none."""
    if not paths:
        return (Script("default.sh", (files("tpufn_cli") / "console" / "default-setup.sh").read_bytes()),)
    found, problems = [], []
    for number, path in enumerate(paths):
        try:
            found.append(Script(f"{number}-{Path(path).name}", (base / path).read_bytes()))
        except OSError as error:
            problems.append(f"bootstrap script {base / path}: {error.strerror}")
    if problems:
        raise InputError(problems)
    return tuple(found)


def set_up(
    slot: SlotView,
    hosts: Sequence[Host],
    wanted: Iterable[Script],
    *,
    folder: Path,
    memory: Memory,
    children: Children,
    timeout: float,
    tell: Callable[[int, str], None] = lambda worker, line: None,
    check_agent: Callable[[], None] = require_agent,
) -> SetUp:
    """Run the scripts on all workers at once, and remember the ending. `tell` gets every line with its worker."""
    if any(host.is_remote for host in hosts):
        check_agent()
    folder = folder / slot.tpu
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    order, alone = tuple(wanted), threading.Lock()

    def one(host: Host) -> str:
        with open(folder / f"w{host.worker}.log", "w", encoding="utf-8") as log:

            def line(text: str) -> None:
                log.write(f"{text}\n")
                log.flush()
                with alone:
                    tell(host.worker, text)

            return _run(host, slot, order, children, timeout, line)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        endings = dict(zip((host.worker for host in hosts), pool.map(one, hosts), strict=True))
    failed = {worker: cause for worker, cause in endings.items() if cause}
    done = SetUp(slot.name, slot.tpu, failed, tuple(folder / f"w{host.worker}.log" for host in hosts))
    memory.note_set_up(slot.tpu, OK if done.ok else done.words)
    return done


def _run(
    host: Host,
    slot: SlotView,
    order: Sequence[Script],
    children: Children,
    timeout: float,
    line: Callable[[str], None],
) -> str:
    """What went wrong on one worker; "" for nothing. A script runs only after those before it succeeded."""
    told = {"TPUFN_SLOT": slot.name, "TPUFN_TPU": slot.tpu, "TPUFN_WORKER": str(host.worker)}
    env = " ".join(f"{name}={shlex.quote(value)}" for name, value in told.items())
    for script in order:
        line(f"== {script.name}")
        deliver = _DELIVER.format(name=script.name, env=env)
        code = children.run(host.run(deliver), given=script.text, line=line, timeout=timeout)
        line(f"== {script.name} ended with {code}")
        if code:
            return f"{script.name} ended with {code}"
    return ""
