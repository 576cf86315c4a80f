"""The typed face of tpufn: what the command line, the terminal UI and the MCP server use, and all that they use."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tpufn.domain.capacity import CreateOutcome
from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet, Mode
from tpufn.domain.job import Job, Priority
from tpufn.domain.notes import Note
from tpufn.domain.views import DeadLetter, Explanation, JobView, LogPiece, PoolOutlook, Receipt, SlotView, Status

if TYPE_CHECKING:
    from tpufn.place import Place
    from tpufn.settings import Settings


class Client(Protocol):
    """One deployment, seen by a person. Raises only TpufnError subclasses (domain/errors.py)."""

    @property
    def mode(self) -> Mode: ...
    @property
    def where(self) -> str:
        """Mode and place in words, a command's first line: `sandbox lab in ~/.local/state/tpufn/sandbox/lab`."""

    def fleet(self) -> Fleet: ...
    def serves(self) -> bool:
        """Whether somebody is there to act on what is sent: an engine that runs, or the functions."""

    def submit(
        self, path: str, *, job_id: str = "", submission_id: str = "", progress: Callable[[Note], None] | None = None
    ) -> Receipt:
        """Validate a job file, bundle and upload once per candidate bucket, publish. `progress` is told
        `job.validated`, `bundle.built` (data: files, size, sha256), `bundle.uploaded` (bucket, sent) as notes."""

    def wait_accepted(self, receipt: Receipt, *, timeout: float = 30.0) -> tuple[Job, ...]:
        """The jobs once they exist. A rejected one raises InputError with its reason; a time-out CloudUnavailable."""

    def jobs(self, *, states: Collection[str] = (), limit: int = 100) -> tuple[Job, ...]: ...
    def job(self, id: str) -> JobView: ...
    def why(self, id: str) -> Explanation: ...
    def watch(self, ids: Collection[str], *, stop: Callable[[], bool] | None = None) -> Iterator[Note]:
        """Notes of these jobs from their beginning, in order; ends when all are terminal."""

    def logs(
        self,
        id: str,
        *,
        attempt: int | None = None,
        worker: int | None = None,
        follow: bool = False,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[LogPiece]:
        """What the workers wrote, in the order of its writing. With `follow` until the job ends or `stop`; an empty
        piece after each look then says that there is no more for now."""

    def slots(self) -> tuple[SlotView, ...]: ...
    def status(self) -> Status: ...
    def cancel(self, ids: Collection[str], *, if_pending: bool = False) -> Mapping[str, str]:
        """id -> what will happen, in words. Raises NotFound, Conflict (already ended), and of several PartlyDone: the
        others are cancelled all the same."""

    def set_priority(self, id: str, priority: Priority) -> str: ...
    def retry(self, id: str) -> str:
        """The id of the new job that continues a failed or cancelled one with its checkpoints."""

    def interrupt(self, slot: str) -> str:
        """Give a busy TPU up; its job retries. In words what will happen."""

    def queue(self, names: Collection[str]) -> Mapping[str, str]:
        """Ask for these free slots' TPUs, each held for the person. slot -> what will happen, in words."""

    def race(self, names: Collection[str]) -> str:
        """Ask for all of these at once; the first that is granted is kept, held, and the others are released."""

    def hold(self, names: Collection[str]) -> Mapping[str, str]:
        """Keep slots for the person: never assigned to jobs, never torn down as idle."""

    def release(self, names: Collection[str]) -> Mapping[str, str]:
        """Give held slots back to the jobs."""

    def delete(self, names: Collection[str]) -> Mapping[str, str]:
        """Cancel or delete these slots' TPUs; Conflict where a job runs (interrupt it first)."""

    def pools(self) -> tuple[PoolOutlook, ...]:
        """Every pool with its slots, its last outcome and its cool-down."""

    def outcomes(self, *, limit: int = 1000) -> tuple[CreateOutcome, ...]:
        """How the latest requests for capacity ended, newest first."""

    def advice(self) -> tuple[str, ...]:
        """What a person should know before anything else: versions that do not fit, each with the command that mends
        it. One read in the cloud, none elsewhere."""

    def caution(self) -> str:
        """What would go wrong if one went on as one is, in words; "" for nothing."""

    def left_behind(self) -> Mapping[str, str]:
        """Other runs of this deployment on this machine that are unfinished, and that no engine goes on with: name ->
        what is left there, in words."""

    def apply(self, path: str = "") -> Fleet:
        """Declare what the deployment file says (the chosen one by default). What the project refused for good is
        asked for again. Conflict for another's."""

    def tick(self) -> str:
        """Compare what is with what should be, now. In words what will happen; InputError where the engine ticks."""

    def pause(self) -> str:
        """Stop the ticks: nothing is reconciled or torn down until they are resumed."""

    def resume(self) -> str: ...

    def dead_letters(self) -> tuple[DeadLetter, ...]:
        """Messages that could not be delivered or read, oldest first."""

    def replay(self, ids: Collection[str]) -> Mapping[str, str]:
        """Send dead letters again, all of them where none is named. id -> what happened, in words."""

    def feed(self, *, after: str = "", limit: int = 200) -> tuple[Note, ...]:
        """The newest notes of everything, oldest first; `after` the id of the last one seen."""


class Engine(Protocol):
    """The embedded engine: all functions in this process, over the embedded store and bus."""

    @property
    def client(self) -> Client: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def drain(self) -> int:
        """Cancel nothing, release every TPU that no live job uses; the number of TPUs still provisioned."""

    def subscribe(self, listener: Callable[[Note], None]) -> None:
        """Every note of every commit, in order, slots' too (`slot.requesting`, `race.won`, ...)."""

    @property
    def simulation(self) -> Any:
        """The simulated cloud in the sandbox (fault injection), None elsewhere."""


def open_client(*, home: str | None = None, deployment: str | None = None, sandbox: bool = False) -> Client:
    """The client of the deployment that flags, environment and files choose. Raises InputError where none do."""
    from tpufn import settings
    from tpufn.place import choose

    chosen = settings.load(home=home, deployment=deployment)
    place = choose(chosen, sandbox=sandbox, starts=False)
    if place.mode is Mode.CLOUD:
        from tpufn.bootstrap import cloud_client

        return cloud_client.client(place, chosen)
    if place.mode is Mode.LAPTOP:
        from tpufn.bootstrap import laptop

        return laptop.client(place, chosen)
    from tpufn.bootstrap import sandbox as embedded

    return embedded.parts(place, chosen).client


def open_engine(
    *,
    home: str | None = None,
    deployment: str | None = None,
    sandbox: bool = False,
    seed: int | None = None,
    speed: float = 1.0,
    fresh: bool = False,
) -> Engine:
    """An embedded engine, not started yet. `fresh` gives it a state directory of its own."""
    from tpufn import settings
    from tpufn.place import choose

    chosen = settings.load(home=home, deployment=deployment)
    place = choose(chosen, sandbox=sandbox, starts=True, fresh=fresh)
    if place.mode is Mode.LAPTOP:
        return _laptop(place, chosen, seed=seed)
    from tpufn.bootstrap import sandbox as embedded

    return embedded.Sandbox(place, chosen, seed=seed, speed=speed)


def _laptop(place: "Place", settings: "Settings", *, seed: int | None) -> Engine:
    from tpufn.bootstrap.laptop import Laptop

    if seed is not None:
        raise InputError("--seed is for simulated TPUs: add --sandbox, or leave it out")
    return Laptop(place, settings)
