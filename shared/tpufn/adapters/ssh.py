"""Workers over SSH: one connection per worker and call, over which the agent is delivered and told its order.

The command on the worker is one constant Python program, whatever the order: it reads the order from its standard
input, asks for the agent if a file of that hash is not there yet, and runs it. Arguments hold the agent's hash, the
verb and the directory, nothing of the job. The agent answers with one line and leaves the work to a process that
outlives the connection; what becomes of it is in the bucket.
"""

import json
import random
import shlex
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from tpufn.adapters.ssh_adoption import Adoption, is_foreign
from tpufn.adapters.ssh_connection import Connector, Dialer, Direct, Login, Talk
from tpufn.adapters.ssh_hosts import Identity
from tpufn.adapters.ssh_target import Deadline, Host, Unreached, hosts_of
from tpufn.domain.attempt import split_attempt_id
from tpufn.domain.cloud import Tpu
from tpufn.domain.orders import LaunchOrder, StopOrder
from tpufn.ports import Blobs
from tpufn.worker.archive import archive, version

T = TypeVar("T")

_NEED = b"need\n"
_BOOT = """\
import io, os, sys
version, verb, home = sys.argv[1:]
home = os.path.expanduser(home)
source = sys.stdin.buffer
order = source.read(int(source.readline()))
agent = os.path.join(home, ".tpufn", "agent-" + version + ".pyz")
if not os.path.exists(agent):
    print("need", flush=True)
    size = int(source.readline())
    data = source.read(size)
    import hashlib
    if len(data) != size or hashlib.sha256(data).hexdigest()[:12] != version:
        sys.exit("the agent did not arrive whole")
    os.makedirs(os.path.dirname(agent), mode=0o700, exist_ok=True)
    scratch = agent + "." + str(os.getpid())
    with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    os.replace(scratch, agent)
sys.path.insert(0, agent)
sys.stdin = io.TextIOWrapper(io.BytesIO(order))
from tpufn_worker.agent import main
sys.exit(main([verb, "--home", home]))
"""


@dataclass(frozen=True, kw_only=True)
class SshSite:
    """What TPUs have in common, in the agent's words (`tpufn.worker.protocol.Order`), and how long we try.

    `bucket`, `secret_source` and `metadata` are sources as the agent takes them; a bucket's name, and the project, are
    added. `topics` is the prefix of the Pub/Sub topics' names; None where the bucket alone has to do.
    """

    project: str = ""
    topics: str | None = None
    home: str = "~/tpufn"  # on the worker
    python: str = "python3"
    devices: tuple[str, ...] = ("/dev/accel*", "/dev/vfio/*")
    lock_files: tuple[str, ...] = ("/tmp/libtpu_lockfile",)
    jax_platforms: str = "tpu,cpu"  # a TPU that does not start is an error, not a slow run on the CPU
    bucket: Mapping[str, Any] = field(default_factory=lambda: {"kind": "gcs"})
    secret_source: Mapping[str, Any] = field(default_factory=lambda: {"kind": "secret-manager"})
    metadata: Mapping[str, Any] = field(default_factory=lambda: {"kind": "server"})
    settings: Mapping[str, Any] = field(default_factory=dict)  # more keys of an order, over those of this site
    width: int = 32  # connections at a time
    connect: float = 15.0
    tries: int = 3
    launch_budget: float = 200.0  # a handler ends at 240 s
    probe_budget: float = 15.0


class SshWorkers:
    """The port `Workers` over SSH. `pause(n)` waits between the n-th try and the next, with jitter."""

    def __init__(
        self,
        site: SshSite,
        *,
        blobs: Blobs,
        login: Login,
        identity: Identity,
        dialer: Dialer | None = None,
        adoption: Adoption | None = None,
        pause: Callable[[int], None] | None = None,
    ) -> None:
        self._site, self._blobs, self._pause = site, blobs, pause or pause_with_jitter
        self._identity, self._adoption = identity, adoption
        self._connector = Connector(dialer or Direct(), identity, login, connect=site.connect)

    def usable(self, tpu: Tpu) -> frozenset[int]:
        hosts, adoption = hosts_of(tpu.name, tpu.zone, tpu.workers), self._adoption if is_foreign(tpu) else None
        ask = adoption.prepared(self._connector, tpu.name) if adoption else self._say_true
        answers = self._each(hosts, ask, self._site.probe_budget)
        if adoption:
            adoption.admit(tpu, answers)
        return frozenset(index for index, answer in answers.items() if answer == 0)

    def launch(self, order: LaunchOrder) -> Mapping[int, str]:
        accepted = self._accepted(order)
        hosts = [h for h in hosts_of(order.tpu, order.zone, order.workers) if h.worker not in accepted]
        body = {**msgspec.to_builtins(order), **self._common(), "bucket": self._bucket(order.bucket)}
        body["secret_source"] = {"project": self._site.project, **self._site.secret_source}
        return self._causes("launch", hosts, body, self._site.launch_budget)

    def stop(self, order: StopOrder) -> Mapping[int, str]:
        job, number = split_attempt_id(order.attempt)
        body = {**msgspec.to_builtins(order), **self._common()}
        body |= {"bucket": self._bucket(order.bucket), "prefix": order.prefix or f"jobs/{job}/attempts/{number}"}
        hosts = hosts_of(order.tpu, order.zone, order.workers)
        return self._causes("stop", hosts, body, self._site.probe_budget)

    def alive(self, tpu: Tpu, attempt: str) -> Mapping[int, bool]:
        states = {i: answer["attempts"] for i, answer in self.status(tpu).items() if "attempts" in answer}
        return {index: bool(each.get(attempt, {}).get("alive")) for index, each in states.items()}

    def introduce(self, tpu: str, worker: int, host_key: str) -> None:
        self._identity.introduce(tpu, worker, host_key)

    def status(self, tpu: Tpu) -> Mapping[int, Mapping[str, Any]]:
        """The agent's own view on every worker that answers: attempts, device holders, caches, fence."""
        hosts = hosts_of(tpu.name, tpu.zone, tpu.workers)
        answers = self._ask("status", hosts, self._common(), self._site.probe_budget)
        return {index: answer for index, answer in answers.items() if not isinstance(answer, Unreached)}

    def _accepted(self, order: LaunchOrder) -> Collection[int]:
        """The workers whose acks are in the bucket: a predecessor reached them."""
        names = {each.key for each in self._blobs.list(order.bucket, f"{order.prefix}/status/")}
        status = f"{order.prefix}/status/worker-"
        return {i for i in range(len(order.workers)) if f"{status}{i}.accepted.json" in names}

    def _common(self) -> dict[str, Any]:
        site = self._site
        publish = {"kind": "pubsub", "project": site.project, "prefix": site.topics or ""}
        return {
            "devices": site.devices,
            "lock_files": site.lock_files,
            "jax_platforms": site.jax_platforms,
            "metadata": site.metadata,
            "publish": publish if site.topics is not None else {"kind": "none"},
            **site.settings,
        }

    def _bucket(self, name: str) -> dict[str, Any]:
        return {**self._site.bucket, "bucket": name} if name else {"kind": "none"}

    def _causes(self, verb: str, hosts: Sequence[Host], body: Mapping[str, Any], seconds: float) -> dict[int, str]:
        answers = self._ask(verb, hosts, body, seconds)
        causes = {index: _refusal(answer) for index, answer in answers.items()}
        return {index: cause for index, cause in causes.items() if cause}

    def _ask(
        self, verb: str, hosts: Sequence[Host], body: Mapping[str, Any], seconds: float
    ) -> dict[int, dict[str, Any] | Unreached]:
        """One order for all; each worker's has its own number in front."""
        common = json.dumps(body)[1:].encode()
        command = self._command(version(), verb, self._site.home)

        def ask(host: Host, deadline: Deadline) -> dict[str, Any]:
            with self._connector.run(host, command, deadline) as talk:
                return _converse(host, talk, b'{"worker": %d, ' % host.worker + common)

        return self._each(hosts, ask, seconds)

    def _command(self, *arguments: str) -> str:
        return "exec " + shlex.join([self._site.python, "-I", "-S", "-c", _BOOT, *arguments])

    def _say_true(self, host: Host, deadline: Deadline) -> int:
        with self._connector.run(host, "true", deadline) as talk:
            return talk.end()

    def _each(
        self, hosts: Iterable[Host], work: Callable[[Host, Deadline], T], seconds: float
    ) -> dict[int, T | Unreached]:
        """Do it for every worker, so many at a time; who is not done in time is left for the next performer."""
        deadline, places = Deadline(seconds), list(hosts)
        with _Pool(min(self._site.width, len(places) or 1)) as pool:
            futures = {host.worker: pool.submit(self._persist, work, host, deadline) for host in places}
            done, _ = wait(futures.values(), timeout=deadline.left)
        late = Unreached(f"not reached within {seconds:g} s")
        return {index: future.result() if future in done else late for index, future in sorted(futures.items())}

    def _persist(self, work: Callable[[Host, Deadline], T], host: Host, deadline: Deadline) -> T | Unreached:
        """A few tries, where trying again can help."""
        for attempt in range(1, self._site.tries + 1):
            try:
                return work(host, deadline)
            except Unreached as error:
                if not error.again or attempt == self._site.tries or not deadline.left:
                    return error
            self._pause(attempt)
        raise AssertionError("the last try returns")


class _Pool(ThreadPoolExecutor):
    """Leaving it does not wait for the stragglers: each has a deadline of its own."""

    def __exit__(self, *_: object) -> None:
        self.shutdown(wait=False, cancel_futures=True)


def pause_with_jitter(attempt: int) -> None:
    """0.25-0.75 s, then twice as long: refused connections and MaxStartups pass within seconds."""
    threading.Event().wait(random.uniform(0.25, 0.75) * 2 ** (attempt - 1))


def _converse(host: Host, talk: Talk, order: bytes) -> dict[str, Any]:
    """Order in, answer out; the agent in between, if it is asked for. Raises Unreached."""
    talk.send(b"%d\n" % len(order) + order)
    line = talk.line()
    if line == _NEED:
        talk.send(b"%d\n" % len(archive()) + archive())
        line = talk.line()
    try:
        answer = json.loads(line)
    except ValueError:
        raise _no_answer(host, talk) from None
    return dict(answer)


def _no_answer(host: Host, talk: Talk) -> Unreached:
    """An exit status of the remote shell is never the job's; without one it was the connection that ended."""
    status = talk.end()
    if status < 0:
        return Unreached(f"the connection to {host} ended before the answer came", again=True)
    return Unreached(f"the agent on {host} ended with {status}: {talk.complaint()}")


def _refusal(answer: Mapping[str, Any] | Unreached) -> str:
    """ "" for what was accepted, else the cause."""
    if isinstance(answer, Unreached):
        return answer.cause
    return "" if answer.get("answer") == "accepted" else str(answer.get("cause") or "the agent refused")
