"""The steps' real tools: the caller's own login, and the deployment's own database."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tpufn import settings
from tpufn.client import Client, open_client
from tpufn.deploy.checks import Patient
from tpufn.deploy.project import Project
from tpufn.deploy.steps import Tools, Wish
from tpufn.deploy.teardown import Tpus
from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet
from tpufn.settings import Deployed, Settings

_DEFAULT = "deployment.yaml"


@dataclass(frozen=True, kw_only=True)
class Target:
    """One deployment file of mode cloud."""

    path: str
    fleet: Fleet
    settings: Settings

    @property
    def folder(self) -> Path:
        """Where Terraform works for it."""
        return self.settings.home / "deploy" / self.fleet.name

    def wish(self, *, local_state: bool, plan_only: bool = False, rotate_key: bool = False) -> Wish:
        return Wish(
            fleet=self.fleet,
            folder=self.folder,
            plan_only=plan_only,
            rotate_key=rotate_key,
            local_state=local_state,
        )

    def client(self) -> Client:
        return open_client(home=str(self.settings.home), deployment=self.path)

    def tools(self) -> Tools:
        from tpufn.bootstrap.remote import runner_key

        told = Deployed(name=self.fleet.name, project=self.fleet.project)
        return Tools(
            project=Project(self.fleet.project),
            key=runner_key(told),
            declare=lambda: self.client().apply(self.path),
        )

    def tpus(self) -> Tpus:
        from tpufn.adapters.tpu_api import CloudTpu, connect
        from tpufn.simulation.clock import WallClock

        endpoint = self.settings.tpu_endpoint
        return CloudTpu(self.fleet.project, clock=WallClock(), client=lambda: connect(endpoint))

    def patient(self, *, fix: bool) -> Patient:
        return Patient(
            fleet=self.fleet,
            project=Project(self.fleet.project),
            client=self.client(),
            tpus=self.tpus(),
            indexes=self._indexes,
            fix=fix,
        )

    def _indexes(self) -> set[tuple[str, tuple[str, ...]]]:
        from tpufn.adapters.firestore_database import database_id

        return Project(self.fleet.project).indexes(self.settings.database or database_id(self.fleet.name))

    def declare(self) -> Callable[[Fleet], None]:
        """Puts a fleet into the deployment's database, and has it looked at at once."""

        def put(fleet: Fleet) -> None:
            from tpufn.adapters.firestore import FirestoreStore
            from tpufn.declare import apply_fleet

            store = FirestoreStore(fleet.project, fleet.name, database=self.settings.database)
            apply_fleet(store, fleet, anew=True)
            self.client().tick()

        return put


def target(path: str = "", *, home: str | None = None, deployment: str | None = None) -> Target:
    """The file that is named, or that flags and environment choose. Raises InputError."""
    from tpufn.spec.deployment import load_deployment

    chosen = settings.load(home=home, deployment=path or deployment)
    named = chosen.deployment or _DEFAULT
    fleet = load_deployment(named).fleet
    if not fleet.project:
        raise InputError(f"{named}: `project` is missing: name the Google Cloud project")
    return Target(path=named, fleet=fleet, settings=chosen)
