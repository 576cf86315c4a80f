"""Runs command lines on all workers at once: with prefixed output, or to ask for the holders of the TPU devices."""

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tpufn.remote import TRANSPORT_FAILED, Holder, Remote, devices_command, merged_known_hosts, read_holders

_PIECE = 1 << 16


def pin(path: Path, all: Sequence[Remote]) -> None:
    """Write the workers' host keys into our own known_hosts file, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    present = path.read_text() if path.exists() else ""
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_text(merged_known_hosts(present, all))
    scratch.replace(path)


def run_all(calls: Mapping[int, Sequence[str]], *, output: BinaryIO, errors: BinaryIO) -> Mapping[int, int]:
    """A command line for each worker, all at once; whole lines come out, with the worker's number in front. Exit codes
    by worker."""
    lock = threading.Lock()
    running = {
        worker: subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for worker, arguments in calls.items()
    }
    copies = [
        threading.Thread(target=_copy, args=(source, _prefixed(worker, target, lock)))
        for worker, call in running.items()
        for source, target in ((call.stdout, output), (call.stderr, errors))
    ]
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.join()
    return {worker: call.wait() for worker, call in running.items()}


def devices(calls: Mapping[int, Sequence[str]]) -> tuple[Mapping[int, tuple[Holder, ...]], Mapping[int, str]]:
    """Who holds the TPU devices, by worker, from command lines that run `devices_command`; and for the workers that did
    not say, why not."""
    _, source = devices_command()
    pipe = subprocess.PIPE
    running = {
        worker: subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe) for worker, arguments in calls.items()
    }
    for call in running.values():
        _feed(call, source)
    found: dict[int, tuple[Holder, ...]] = {}
    causes: dict[int, str] = {}
    for worker, call in running.items():
        output, errors = call.communicate()
        try:
            found[worker] = read_holders(worker, output)
        except ValueError:
            causes[worker] = _last_line(errors) or ended(call.returncode)
    return found, causes


def ended(code: int) -> str:
    """An exit code in words: ssh's own failure is not the command's."""
    return "ssh could not connect" if code == TRANSPORT_FAILED else f"ended with {code}"


def worst(codes: Mapping[int, int]) -> int:
    """One exit code for all: 0 only if all are; a command's own failure before ssh's."""
    failed = [code for code in codes.values() if code]
    own = [code for code in failed if code != TRANSPORT_FAILED]
    return max(own) if own else TRANSPORT_FAILED if failed else 0


def _feed(call: subprocess.Popen[bytes], source: bytes) -> None:
    """Small enough for a pipe: nobody waits."""
    if call.stdin:
        with suppress(BrokenPipeError):
            call.stdin.write(source)
            call.stdin.close()
        call.stdin = None


def _prefixed(worker: int, target: BinaryIO, lock: threading.Lock) -> Callable[[bytes], None]:
    """Writes whole lines with the worker's number in front; one writer at a time."""
    prefix = b"%d| " % worker

    def write(lines: bytes) -> None:
        with lock:
            target.write(b"".join(prefix + line for line in lines.splitlines(keepends=True)))
            target.flush()

    return write


def _copy(source: BinaryIO | None, write: Callable[[bytes], None]) -> None:
    """Line by line; a last line without its end gets one."""
    if source is None:
        return
    with source:
        rest = b""
        while data := source.read1(_PIECE):  # type: ignore[attr-defined]  # a buffered pipe has it
            whole, newline, rest = (rest + data).rpartition(b"\n")
            if newline:
                write(whole + newline)
        if rest:
            write(rest + b"\n")


def _last_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
