"""A whole deployment on this machine: every function a process of its own, woken as Terraform's table says.

A `Cloud` is what deployments of one project share: Firestore with its triggers, Pub/Sub, Cloud Storage, and the
simulated TPUs whose workers really run. A `Deployment` is one name in it. Its ticks come from a thread, as they come
from Cloud Scheduler in production, only more often.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from google.cloud.pubsub_v1 import PublisherClient, SubscriberClient

from tpufn.adapters.firestore import FirestoreStore
from tpufn.adapters.firestore_database import database_id
from tpufn.adapters.pubsub import PubSubBus, topic_id
from tpufn.client import Client, open_client
from tpufn.declare import apply_fleet
from tpufn.domain.attempt import Attempt
from tpufn.domain.events import Tick
from tpufn.domain.job import Job
from tpufn.domain.notes import Note
from tpufn.domain.slot import Slot
from tpufn.simulation.server_door import Door
from tpufn.spec.deployment import load_deployment
from tpufn.wire import to_body

from ..contracts.storage_server import make_bucket, storage_server
from ..emulators import FirestoreEmulator, PubSubEmulator, free_port, fresh_name
from . import wakeups
from .eventarc import Backoff, Eventarc
from .locations import located
from .processes import FunctionProcess, Process, until
from .pushes import Pushes
from .scheduler import Beat, scheduler

SHARED = wakeups.ROOT / "shared"
SOURCE = {"PYTHONPATH": f"{SHARED}{os.pathsep}{wakeups.ROOT / 'cli'}"}
REGIONS = ("us-central1", "us-east5", "europe-west4")
TICK = 0.5
"""Seconds between two ticks; a minute in production."""
RETRY = {"minimum_backoff": {"nanos": 200_000_000}, "maximum_backoff": {"seconds": 2}}
"""Between two deliveries of a message that failed; 10 s and minutes in production."""


@dataclass
class Cloud:
    """One project. `tpus` is the side door of its simulated TPUs, `located` the storage that knows regions."""

    firestore: FirestoreEmulator
    pubsub: PubSubEmulator
    eventarc: Eventarc
    storage: str
    located: str
    tpu_endpoint: str
    tpus: Door
    workers: Path
    scheduler: str
    beats: dict[str, Beat]

    @property
    def project(self) -> str:
        return self.firestore.project


@contextmanager
def run_cloud(firestore: FirestoreEmulator, pubsub: PubSubEmulator, home: Path) -> Iterator[Cloud]:
    with ExitStack() as stack:
        storage = stack.enter_context(storage_server())
        regional = stack.enter_context(located(storage, REGIONS))
        beats: dict[str, Beat] = {}
        clockwork = stack.enter_context(scheduler(beats))
        eventarc = stack.enter_context(Eventarc(firestore, backoff=Backoff(first=0.1, most=2.0, tries=100)))
        workers = home / "workers"
        tpus, door = stack.enter_context(run_tpus(firestore.project, workers, home / "tpus.log"))
        yield Cloud(firestore, pubsub, eventarc, storage, regional, tpus, door, workers, clockwork, beats)


@contextmanager
def run_tpus(project: str, workers: Path, log: Path) -> Iterator[tuple[str, Door]]:
    """Simulated TPUs behind the real API, whose hosts are below `workers`: the endpoint, and the side door."""
    port = free_port()
    own = ["--port", str(port), "--project", project, "--workers", str(workers), "--speed", "3"]
    server = Process("tpus", [sys.executable, "-m", "tpufn.simulation.server", *own], env=SOURCE, log=log)
    try:
        server.wait_ready(lambda: str(port) in server.tail())
        with Door(f"127.0.0.1:{port}") as door:
            yield f"127.0.0.1:{port}", door
    finally:
        server.stop()


class Deployment:
    """One deployment. Use `running` for one with its functions started: all, or the named ones in so many instances
    each, of which only the first is woken by itself."""

    def __init__(self, cloud: Cloud, home: Path, fleet: str, functions: Mapping[str, int] | None = None) -> None:
        self.cloud, self.home, self.name = cloud, home, fresh_name()
        cloud.firestore.deployments.append(self.name)
        self.instances = dict.fromkeys(wakeups.functions(), 1) if functions is None else functions
        self.rows = {name: row for name, row in wakeups.functions().items() if name in self.instances}
        self.file = home / "deployment.yaml"
        self.buckets = {region: f"{self.name}-{region}" for region in REGIONS}
        self.file.write_text(self._head() + fleet)
        self.processes: dict[str, FunctionProcess] = {}
        self.pushes = Pushes({}, prefix=topic_id(self.name, ""))
        self.ticks = Ticker(lambda body: self.bus.publish("ticks", body))

    def _head(self) -> str:
        listed = "".join(f"  gs://{bucket}: {region}\n" for region, bucket in self.buckets.items())
        own = f"bucket: gs://{self.own_bucket}\n"
        return f"name: {self.name}\nproject: {self.cloud.project}\n{own}buckets:\n{listed}"

    @property
    def own_bucket(self) -> str:
        return f"{self.name}-own"

    @cached_property
    def store(self) -> FirestoreStore:
        return FirestoreStore(self.cloud.project, self.name)

    @cached_property
    def bus(self) -> PubSubBus:
        return PubSubBus(self.cloud.project, self.name)

    @contextmanager
    def running(self, *, ticking: bool = True) -> Iterator["Deployment"]:
        with ExitStack() as stack:
            for bucket in (*self.buckets.values(), self.own_bucket):
                make_bucket(self.cloud.storage, bucket)
            self._stack = stack
            self._start(stack)
            self.pushes.targets = {name: process.port for name, process in self.processes.items()}
            stack.enter_context(self.pushes)
            stack.callback(self.bus.close)
            stack.callback(self.store.close)
            self._connect()
            apply_fleet(self.store, load_deployment(self.file).fleet)
            stack.enter_context(self.ticks)
            self.ticks.on = ticking
            self.cloud.beats |= {topic_id(self.name, job): self.ticks for job in ("tick", "sweep")}
            yield self

    def _start(self, stack: ExitStack) -> None:
        for name, row in self.rows.items():
            env = {**self.environment(), "THREADS": str(row.concurrency)}
            source = wakeups.ROOT / "functions" / name / "main.py"
            for instance in range(self.instances[name]):
                key = f"{name}#{instance}" if instance else name
                process = FunctionProcess(name, source, free_port(), env=env, log=self.home / f"{key}.log")
                self.processes[key] = process
                stack.callback(process.stop)
        for process in self.processes.values():
            stack.callback(process.terminate)  # all at once, before each is waited for
            process.wait_ready(process.answers)

    def upgrade(self, shared: Path) -> None:
        """Every function anew, one half after the other, from other sources; where each listens stays the same."""
        keys = list(self.processes)
        for half in (keys[::2], keys[1::2]):
            for key in half:
                self._renew(key, shared)
            for key in half:
                self.processes[key].wait_ready(self.processes[key].answers)

    def _renew(self, key: str, shared: Path) -> None:
        former = self.processes[key]
        former.stop()
        env = {**self.environment(), "THREADS": str(self.rows[former.name].concurrency), "PYTHONPATH": str(shared)}
        self.processes[key] = FunctionProcess(former.name, Path(former.source), former.port, env=env, log=former.log)
        self._stack.callback(self.processes[key].stop)

    def environment(self) -> dict[str, str]:
        """What Terraform tells a function, and where this machine's stand-ins are."""
        return {
            "TPUFN_NAME": self.name,
            "TPUFN_PROJECT": self.cloud.project,
            "TPUFN_REGION": "us-central1",
            "TPUFN_DATABASE": database_id(self.name),
            "TPUFN_BUCKET": self.own_bucket,
            "TPUFN_SSH_SECRET": "",
            "TPUFN_SSH_TRANSPORT": "direct",
            "TPUFN_WORKER_ACCOUNT": "",
            "TPUFN_POLICY": "sandbox",
            "TPUFN_WORKERS": f"local:{self.cloud.workers}",
            "TPUFN_TPU_ENDPOINT": self.cloud.tpu_endpoint,
            "STORAGE_EMULATOR_HOST": self.cloud.storage,
            "FIRESTORE_EMULATOR_HOST": self.cloud.firestore.host,
            "PUBSUB_EMULATOR_HOST": self.cloud.pubsub.host,
            "PYTHONPATH": str(SHARED),
        }

    def _connect(self) -> None:
        """Topics, subscriptions and triggers."""
        with PublisherClient() as publisher:
            for topic in (*wakeups.topics(), "dead-letters"):
                publisher.create_topic(name=self.topic(topic))
        with SubscriberClient() as subscriber:
            self._pull(subscriber, "dead-letters")
            self._pull(subscriber, "notices", name="feed")
            for name, row in self.rows.items():
                for topic in row.topics:
                    self._subscribe(subscriber, name, row, topic)
        for name, row in self.rows.items():
            for document in row.documents:
                where = {"database": database_id(self.name), "document": document}
                self.cloud.eventarc.connect(f"{name}-{document.count('/')}-{document[:4]}", self.url(name), **where)

    def _pull(self, subscriber: Any, topic: str, *, name: str = "") -> None:
        names = {"name": self.subscription(name or topic), "topic": self.topic(topic)}
        subscriber.create_subscription(request={**names, "ack_deadline_seconds": 60})

    def _subscribe(self, subscriber: Any, function: str, row: wakeups.Row, topic: str) -> None:
        subscriber.create_subscription(
            request={
                "name": self.subscription(f"{function}-{topic}".replace("_", "-")),
                "topic": self.topic(topic),
                "ack_deadline_seconds": min(600, row.timeout + 30),
                "push_config": {"push_endpoint": self.pushes.endpoint(function, self.topic(topic))},
                "retry_policy": RETRY,
                "dead_letter_policy": {
                    "dead_letter_topic": self.topic("dead-letters"),
                    "max_delivery_attempts": wakeups.tries(topic),
                },
            }
        )

    def url(self, function: str) -> str:
        return f"{self.processes[function].url}/"

    def urls(self, function: str) -> list[str]:
        """Of all its instances."""
        return [f"{process.url}/" for process in self.processes.values() if process.name == function]

    def topic(self, topic: str) -> str:
        return f"projects/{self.cloud.project}/topics/{topic_id(self.name, topic)}"

    def subscription(self, name: str) -> str:
        return f"projects/{self.cloud.project}/subscriptions/{topic_id(self.name, name)}"

    # What people do

    def client(self) -> Client:
        """A person's, as the command line has it."""
        return open_client(home=str(self.home / "person"), deployment=str(self.file))

    def tpufn(self, *arguments: str, seconds: float = 60.0) -> "subprocess.CompletedProcess[str]":
        """A command line in a process of its own."""
        env = {**os.environ, **self.environment(), "STORAGE_EMULATOR_HOST": self.cloud.located}
        env["TPUFN_SCHEDULER_ENDPOINT"] = self.cloud.scheduler
        env["PYTHONPATH"] = f"{SHARED}{os.pathsep}{wakeups.ROOT / 'cli'}"
        own = ["--home", str(self.home / "person"), "-d", str(self.file)]
        command = [sys.executable, "-m", "tpufn_cli", *own, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=seconds, check=False)

    # What it holds

    def get(self, bucket: str, key: str) -> bytes:
        """An object; nothing where there is none."""
        url = f"{self.cloud.storage}/storage/v1/b/{bucket}/o/{urllib.parse.quote(key, safe='')}?alt=media"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            error.close()
            return b""

    def tpus(self) -> list[str]:
        """The names of the deployment's TPUs that the cloud has."""
        names = (str(each["order"]["name"]) for each in self.cloud.tpus.snapshot()["resources"])
        return [name for name in names if f"-{self.name}-" in name]

    def notes(self) -> Sequence[Note]:
        """Everything that happened."""
        with self.store.cut() as cut:
            return cut.feed(limit=1000)

    def job(self, id: str) -> Job | None:
        with self.store.cut() as cut:
            return cut.job(id)

    def slots(self) -> Mapping[str, Slot]:
        with self.store.cut() as cut:
            return {slot.name: slot for slot in cut.slots()}

    def attempts(self, job: str) -> Sequence[Attempt]:
        with self.store.cut() as cut:
            return cut.attempts(job)

    def history(self, job: str) -> Sequence[Note]:
        with self.store.cut() as cut:
            return cut.history(job)

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Return as soon as it holds; what the deployment looks like is said where it does not."""
        until(condition, seconds, what=self.describe)

    def until_ended(self, *jobs: str, seconds: float = 90.0) -> None:
        self.until(lambda: all((job := self.job(id)) is not None and job.is_terminal for id in jobs), seconds)

    def describe(self) -> str:
        with self.store.cut() as cut:
            jobs = [
                f"{j.id} {j.state} {j.cause}" for j in cut.jobs_in(list(type(Job(id="").state)), limit=20, newest=True)
            ]
            slots = [f"{s.name} {s.state} {s.cause}" for s in cut.slots()]
            rows = [f"{r.entity} {r.effect.kind} tries {r.tries}" for r in cut.rows()]
        errors = [line for p in self.processes.values() for line in p.tail().splitlines() if "ERROR" in line][-20:]
        return "\n".join(("", *jobs, *slots, *rows, *errors))

    def logged(self, function: str) -> list[dict[str, Any]]:
        """The function's structured log."""
        lines = self.processes[function].log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def pulled(self, name: str, *, seconds: float = 1.0) -> list[tuple[dict[str, str], bytes]]:
        """What a pull subscription has: attributes and data of each message, acknowledged."""
        found: list[tuple[dict[str, str], bytes]] = []
        deadline = time.monotonic() + seconds
        request = {"subscription": self.subscription(name), "max_messages": 100, "return_immediately": True}
        with SubscriberClient() as subscriber, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a pull that waits would keep what comes later
            while time.monotonic() < deadline:
                held = subscriber.pull(request=request).received_messages
                if held:
                    names = [each.ack_id for each in held]
                    subscriber.acknowledge(subscription=self.subscription(name), ack_ids=names)
                found += [(dict(each.message.attributes), each.message.data) for each in held]
                time.sleep(0.05)
        return found


class Ticker:
    """Ticks, as long as `on`. Every twentieth lists the cloud in full, as every tenth minute's does."""

    def __init__(self, publish: Callable[[dict[str, Any]], object]) -> None:
        self.on, self.last, self._publish = True, 0.0, publish
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticks", daemon=True)

    def __enter__(self) -> "Ticker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(TICK):
            if self.on:
                self._publish(to_body(Tick(full=number % 20 == 0)))
                number, self.last = number + 1, time.time()
