"""One deployment as a person's machine sees it: the client and all around it. Commands, TUI and MCP share it."""

import getpass
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tpufn.client import Client
from tpufn.domain.errors import Conflict, NotFound
from tpufn.domain.fleet import Fleet, Mode
from tpufn.domain.views import SlotView
from tpufn_cli.console import setup, tailscale
from tpufn_cli.console.children import Children, answer
from tpufn_cli.console.config import Config, resolve
from tpufn_cli.console.hosts import Host, Way, hosts_of
from tpufn_cli.console.memory import Memory
from tpufn_cli.console.tmux import Tmux, TmuxMirror

Tell = Callable[[int, str], None]


def quiet(worker: int, line: str) -> None:
    """For callers that show a set-up's ending alone."""


class Site:
    """`base`: the directory that the deployment's scripts are relative to."""

    def __init__(
        self,
        client: Client,
        *,
        home: Path,
        base: Path,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.client, self.home, self.base = client, home, base
        self.environment, self._flags = environment, flags
        self.children = Children()
        self.memory = Memory(home, client.where)

    @cached_property
    def fleet(self) -> Fleet:
        return self.client.fleet()

    @cached_property
    def config(self) -> Config:
        return resolve(fleet=self.fleet, flags=self._flags, environment=self.environment)

    @cached_property
    def personal(self) -> Config:
        """The configuration without the deployment's part: no cloud is asked for it."""
        return resolve(flags=self._flags, environment=self.environment)

    @cached_property
    def mirror(self) -> TmuxMirror:
        return TmuxMirror(Tmux(self.config.text("tmux.socket")), self.fleet, self.shell)

    @property
    def keys(self) -> tailscale.KeyStore:
        return tailscale.KeyStore(self.home, self.config.text("tailscale.secret"), self.fleet.project)

    def slot(self, name: str) -> SlotView:
        """Raises NotFound."""
        return self.slots_named((name,))[0]

    def slots_named(self, names: Collection[str]) -> tuple[SlotView, ...]:
        known = {slot.name: slot for slot in self.client.slots()}
        for name in names:
            if name not in known:
                raise NotFound(f"there is no slot {name}; `tpufn slots` lists them")
        return tuple(known[name] for name in names)

    def hosts(self, slot: SlotView) -> tuple[Host, ...]:
        local = self.client.mode is Mode.SANDBOX
        way = Way(
            fleet=self.fleet,
            mode=self.client.mode,
            where=self.client.where,
            home=self.home,
            user="" if local else self.login(),
            options=tuple(self.config.text("ssh.options").split()),
        )
        return hosts_of(slot, way)

    def place_of(self, name: str) -> SlotView:
        """The slot of that name, or the one that the job of that name is on. Raises NotFound, Conflict."""
        slots = {slot.name: slot for slot in self.client.slots()}
        if name in slots:
            return slots[name]
        try:
            job = self.client.job(name).job
        except NotFound:
            raise NotFound(f"there is no slot and no job {name}; `tpufn slots` and `tpufn jobs` list them") from None
        if job.slot not in slots:
            raise Conflict(f"{name} is {job.state} and has no TPU; `tpufn why {name}` says what it waits for")
        return slots[job.slot]

    def shell(self, slot: SlotView, worker: int = 0) -> list[str]:
        """The command line of a shell on a worker. Raises NotFound for a worker that it does not have."""
        hosts = self.hosts(slot)
        if not 0 <= worker < len(hosts):
            raise NotFound(f"{slot.name} has no worker {worker}: it has {len(hosts)}, counted from 0")
        return hosts[worker].shell()

    def login(self) -> str:
        """The name on the TPUs: configured, remembered, gcloud's OS Login name, else the one on this machine."""
        if known := self.config.text("ssh.user") or self.memory.login:
            return known
        wanted = "value(posixAccounts[0].username)"
        code, name = answer(["gcloud", "compute", "os-login", "describe-profile", f"--format={wanted}"])
        if code == 0 and name and " " not in name and "\n" not in name:
            self.memory.set_login(name)
            return name
        return getpass.getuser()

    def set_up(self, slot: SlotView, *, tell: Tell = quiet) -> setup.SetUp:
        """Run the pool's, else the deployment's, else the shipped bootstrap script on all workers."""
        pool = self.fleet.pool(slot.pool)
        paths = (pool.bootstrap if pool else ()) or json.loads(self.fleet.settings.get("bootstrap") or "[]")
        return setup.set_up(
            slot,
            self.hosts(slot),
            setup.scripts(paths, self.base),
            folder=self.home / "console" / "setup",
            memory=self.memory,
            children=self.children,
            timeout=self.config.number("setup.timeout"),
            tell=tell,
        )

    def join_tailnet(self, slot: SlotView, *, tell: Tell = quiet) -> dict[int, str]:
        """Join all workers to the tailnet; worker -> what went wrong."""
        return tailscale.join(slot, self.hosts(slot), self.keys.read(), children=self.children, tell=tell)

    def after_delete(self, names: Collection[str], *, close_tmux: bool) -> dict[str, str]:
        """What becomes of the slots' tmux windows, in words; "" where there is none."""
        try:
            slots = self.client.slots()
            windows = self.mirror.look(slots)
            shown = {*windows.shown, *(w.name for w in windows.orphaned)}
            return {name: self._leave_or_close(name, slots, close_tmux) if name in shown else "" for name in names}
        except NotFound:
            return dict.fromkeys(names, "")

    def _leave_or_close(self, name: str, slots: Sequence[SlotView], close_tmux: bool) -> str:
        if close_tmux:
            return self.mirror.close(name, slots)
        return f"its tmux window stays; `tpufn tmux close {name}` closes it"

    def close(self) -> None:
        """End what still runs on behalf of this site."""
        self.children.close()
