"""Mode and deployment: where a command's state is, and which fleet is declared there."""

import re
import shutil
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tpufn.adapters.lock import EngineLock
from tpufn.domain.accelerators import FAMILIES
from tpufn.domain.errors import InputError, StateUnusable
from tpufn.domain.fleet import Fleet, Mode, Pool, pool_id
from tpufn.domain.job import TERMINAL, JobState
from tpufn.settings import Settings
from tpufn.simulation.clock import WallClock

_KEEP_RUNS = 10
"""States of finished runs that are kept."""
_SIGNED = "declared-by"
_BORN = "born"
"""An empty file whose time is when a run's state was made."""
_BEGINNING = 3600.0
"""Seconds in which a state without jobs may be that of a run that is just beginning."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A state directory and the fleet that the deployment file `source` declares for it (None: only what is stored)."""

    mode: Mode
    directory: Path
    fleet: Fleet | None
    source: str = ""

    @property
    def where(self) -> str:
        if self.mode is Mode.CLOUD and self.fleet is not None:
            return f"cloud {self.fleet.name} in project {self.fleet.project}"
        shown = str(self.directory).replace(str(Path.home()), "~", 1)
        return f"{self.mode} {self.directory.name} in {shown}"


def choose(settings: Settings, *, sandbox: bool, starts: bool, fresh: bool = False) -> Place:
    """Mode and deployment: --deployment, TPUFN_DEPLOYMENT, ./deployment.yaml; else only a sandbox is left.

    A file of mode cloud means the cloud, unless a sandbox engine of that name runs here, or is about to.

    Where nothing is named, the one sandbox engine that runs here is meant.

    `starts`: the command starts an engine (demo, run, up). `fresh`: with a state directory of its own.
    """
    named = settings.home / "sandbox" / settings.deployment if settings.deployment else None
    if named is not None and not Path(settings.deployment).exists() and (named / "state.sqlite").exists():
        return Place(mode=Mode.SANDBOX, directory=named, fleet=None)
    path = _file(settings)
    fleet = _declared(settings, path)
    source = str(Path(path).absolute()) if path and not path.startswith("gs://") else ""
    if fleet is None and not (sandbox or starts):
        return _running(settings.home / "sandbox")
    if fleet is not None and fleet.mode is Mode.LAPTOP and not sandbox:
        directory = settings.home / "laptop" / fleet.name
        return Place(mode=Mode.LAPTOP, directory=directory, fleet=fleet, source=source)
    fleet = fleet or default_fleet()
    place = Place(mode=Mode.SANDBOX, directory=settings.home / "sandbox" / fleet.name, fleet=fleet, source=source)
    if fresh:
        return replace(place, directory=_fresh(settings.home / "sandbox", fleet.name))
    if not sandbox and not starts and not EngineLock(place.directory / "engine.lock").is_held():
        return Place(mode=Mode.CLOUD, directory=settings.home / "cloud" / fleet.name, fleet=fleet)
    return place


def _running(parent: Path) -> Place:
    """The sandbox whose engine runs, if there is a single one. Raises InputError."""
    states = parent.iterdir() if parent.is_dir() else ()
    served = [directory for directory in states if EngineLock(directory / "engine.lock").is_held()]
    if len(served) != 1:
        raise InputError(_NOTHING_SAYS)
    return Place(mode=Mode.SANDBOX, directory=served[0], fleet=None)


_NOTHING_SAYS = (
    "nothing says which deployment is meant: write one with `tpufn init`, name one with --deployment PATH, "
    "or add --sandbox to use simulated TPUs on this machine"
)


def _file(settings: Settings) -> str:
    return settings.deployment or ("deployment.yaml" if Path("deployment.yaml").exists() else "")


def _declared(settings: Settings, path: str) -> Fleet | None:
    if not path:
        return None
    if re.fullmatch(r"[\w-]+-run\d+", path) and not Path(path).exists():
        raise InputError(_no_run(path, settings.home / "sandbox"))
    from tpufn.spec.deployment import load_deployment

    return load_deployment(path).fleet


def sign(place: Place) -> None:
    """Note in the state by which file it is declared from now on."""
    if place.source:
        (place.directory / _SIGNED).write_text(place.source)


def other_source(place: Place) -> str:
    """The file of the same name that has declared this state, where it is another than ours; "" for none."""
    try:
        signed = (place.directory / _SIGNED).read_text()
    except OSError:
        return ""
    return signed if place.source and signed != place.source and Path(signed).exists() else ""


def default_fleet() -> Fleet:
    """The sandbox's fleet where no file declares one: two slots of the usual types, in every zone that sells them."""
    sizes = {"v4": (8, 16, 32, 64), "v5e": (4, 8, 16, 64), "v5p": (8, 16, 32), "v6e": (1, 4, 8, 16, 32, 64)}
    pools = [
        Pool(
            id=pool_id(Pool.model, f"{family.prefix}-{size}", zone),
            type=f"{family.prefix}-{size}",
            zone=zone,
            count=2,
            runtime=family.runtimes[0],
        )
        for name, family in FAMILIES.items()
        for size in sizes.get(name, ())
        for zone in family.zones
    ]
    return Fleet(name="sandbox", project="sandbox", mode=Mode.SANDBOX, pools=tuple(pools), idle_timeout=60.0)


def _fresh(parent: Path, name: str) -> Path:
    """A new state directory `<name>-run<n>`, n counting up. Of the earlier ones, the oldest finished ones go, and those
    of runs that were refused, which never had a job."""
    parent.mkdir(parents=True, exist_ok=True)
    runs = _runs(parent, name)
    looks = {directory: look(directory) for directory in runs.values()}
    finished = [directory for directory, seen in looks.items() if seen.is_finished]
    refused = [directory for directory in finished if not looks[directory].jobs]
    ran = [directory for directory in finished if looks[directory].jobs]
    for old in [*ran[: max(0, len(ran) - _KEEP_RUNS)], *filter(_is_old, refused)]:
        shutil.rmtree(old, ignore_errors=True)
    number = max(runs, default=0)
    while True:
        number += 1
        directory = parent / f"{name}-run{number}"
        with suppress(FileExistsError):
            directory.mkdir()
            (directory / _BORN).touch()
            return directory


def _runs(parent: Path, name: str) -> dict[int, Path]:
    """number -> state directory, from the oldest on."""
    pattern = re.compile(rf"{re.escape(name)}-run(\d+)")
    found = ((pattern.fullmatch(directory.name), directory) for directory in parent.iterdir())
    return dict(sorted((int(match[1]), directory) for match, directory in found if match))


def _is_old(directory: Path) -> bool:
    """By when it was made: to look at a state touches its files, and so the directory."""
    born = directory / _BORN
    with suppress(OSError):
        return (born if born.exists() else directory).stat().st_mtime < WallClock().now() - _BEGINNING
    return False


def _no_run(name: str, parent: Path) -> str:
    """What to do about a run whose state is not there."""
    runs = _runs(parent, name.rpartition("-run")[0]) if parent.is_dir() else {}
    there = ", ".join(directory.name for directory in runs.values())
    kept = f"those that are kept: {there}" if there else "none is kept"
    return f"there is no state of a run {name}; only the last {_KEEP_RUNS} finished ones stay, {kept}"


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a state holds: jobs of any kind (0 or 1 and more), unfinished ones, TPUs, messages that nobody has taken;
    and whether an engine runs on it, or nobody can say."""

    jobs: int = 0
    live: int = 0
    tpus: int = 0
    waiting: int = 0
    is_served: bool = False
    is_damaged: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether nothing would be lost with it but the account of what was."""
        return not (self.live or self.tpus or self.waiting or self.is_served or self.is_damaged)

    @property
    def is_left(self) -> bool:
        """Whether something is unfinished there that nobody goes on with."""
        return bool(self.live or self.tpus or self.waiting) and not self.is_served

    @property
    def words(self) -> str:
        counts = ((self.live, "unfinished job"), (self.tpus, "TPU"), (self.waiting, "message"))
        return ", ".join(f"{number} {noun}{'s' * (number > 1)}" for number, noun in counts if number)


def look(directory: Path) -> Look:
    if EngineLock(directory / "engine.lock").is_held():
        return Look(is_served=True)
    if not (directory / "state.sqlite").exists():
        return Look()
    from tpufn.adapters.sqlite import SqliteStore

    try:
        with closing(SqliteStore(directory / "state.sqlite", WallClock())) as store, store.cut() as cut:
            live = len(cut.jobs_in(set(JobState) - TERMINAL, limit=1000))
            jobs = live or len(cut.jobs_in(set(JobState), limit=1))
            tpus = sum(slot.holds_chips for slot in cut.slots())
        return Look(jobs=jobs, live=live, tpus=tpus, waiting=_waiting(directory))
    except StateUnusable:
        return Look(is_damaged=True)


def _waiting(directory: Path) -> int:
    from tpufn.adapters.local_bus import LocalBus

    path = directory / "bus.sqlite"
    return len(LocalBus(path, WallClock()).waiting()) if path.exists() else 0


def left_behind(place: Place) -> dict[str, str]:
    """Each run of the same deployment whose engine ended before its work (killed, or left in a hurry): name -> what is
    left there, in words."""
    parent, name = place.directory.parent, re.sub(r"-run\d+$", "", place.directory.name)
    others = {} if place.mode is not Mode.SANDBOX or not parent.is_dir() else _runs(parent, name)
    looks = {directory.name: look(directory) for directory in others.values() if directory != place.directory}
    return {run: seen.words for run, seen in looks.items() if seen.is_left}
