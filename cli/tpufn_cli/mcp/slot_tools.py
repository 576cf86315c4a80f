"""The tools about slots, shells and tmux windows. Docstrings are what the assistant reads."""

import shlex
import time
from collections.abc import Callable

from tpufn.domain.errors import InputError
from tpufn.domain.slot import SlotState
from tpufn_cli.console.site import Site
from tpufn_cli.mcp import results


def refuse_unconfirmed(confirm: bool, what: str) -> None:
    """Raises InputError unless the caller confirmed."""
    if not confirm:
        raise InputError(f"this {what}; ask the person, then call again with confirm=true")


class SlotTools:
    """`site` opens the deployment, at the first call that needs it."""

    def __init__(self, site: Callable[[], Site]) -> None:
        self._site = site

    def list_slots(self, state: str = "") -> results.SlotList:
        """List the fleet's slots: type, zone, state, holder, job, price. `state` keeps only that state."""
        if state not in ("", *SlotState):
            raise InputError(f"{state!r} is not a state; the states are {', '.join(SlotState)}")
        now, slots = time.time(), self._site().client.slots()
        rows = [results.SlotRow(**results.slot_row(slot, now)) for slot in slots if state in ("", slot.state)]
        states = [slot.state for slot in slots]
        return results.SlotList(slots=rows, counts={one: states.count(one) for one in dict.fromkeys(states)})

    def slot_info(self, name: str) -> results.SlotDetails:
        """Show one slot with its TPU's name, addresses and set-up."""
        site = self._site()
        slot = site.slot(name)
        return results.SlotDetails(
            **results.slot_row(slot, time.time()),
            pool=slot.pool,
            generation=slot.generation,
            tpu=slot.tpu,
            workers=list(slot.workers),
            cause=slot.cause,
            set_up=site.memory.set_up().get(slot.tpu, ""),
        )

    def ssh_command(self, name: str, worker: int = 0) -> results.Command:
        """The command line that opens a shell on a slot's worker, from this machine."""
        site = self._site()
        return results.Command(command=shlex.join(site.shell(site.slot(name), worker)))

    def queue_slot(self, name: str) -> results.Answer:
        """Ask for one free slot's TPU, held for the person. It costs money once granted, until it is cancelled."""
        return results.Answer(answers=dict(self._site().client.queue((name,))))

    def queue_slots(self, names: list[str]) -> results.Answer:
        """Ask for several free slots' TPUs, all of them, held for the person."""
        return results.Answer(answers=dict(self._site().client.queue(names)))

    def race_slots(self, names: list[str]) -> results.Answer:
        """Ask for several slots at once and keep the first that is granted; the others are cancelled."""
        return results.Answer(answers={"race": self._site().client.race(names)})

    def hold_slot(self, name: str) -> results.Answer:
        """Keep a slot for the person: no jobs are assigned to it and it is not torn down."""
        return results.Answer(answers=dict(self._site().client.hold((name,))))

    def release_slot(self, name: str) -> results.Answer:
        """Give a held slot back to the jobs; its TPU stays until it was idle for long."""
        return results.Answer(answers=dict(self._site().client.release((name,))))

    def cancel_slot(self, name: str, confirm: bool = False, close_tmux: bool = False) -> results.Answer:
        """Cancel a slot's request or delete its TPU, with everything on its disks. Needs confirm=true."""
        refuse_unconfirmed(confirm, f"deletes the TPU of {name} with everything on its disks")
        site = self._site()
        answers = site.client.delete((name,))
        windows = site.after_delete((name,), close_tmux=close_tmux)
        return results.Answer(answers={n: "; ".join(filter(None, (said, windows[n]))) for n, said in answers.items()})

    def setup_vm(self, name: str) -> results.SetUpResult:
        """Run the set-up scripts on all workers of a usable slot, over SSH with the person's agent. Takes minutes."""
        site, lines = self._site(), list[str]()
        done = site.set_up(site.slot(name), tell=lambda worker, line: lines.append(f"w{worker} | {line}"))
        return results.SetUpResult(
            ok=done.ok,
            summary=done.words,
            failed={str(worker): cause for worker, cause in done.failed.items()},
            logs=[str(path) for path in done.logs],
            last_lines=lines[-40:],
        )

    def tailscale_setup(self, name: str) -> results.Answer:
        """Join a slot's workers to the person's tailnet, with the key that the person has saved."""
        site = self._site()
        failed = site.join_tailnet(site.slot(name))
        said = "; ".join(f"worker {worker}: {cause}" for worker, cause in failed.items())
        return results.Answer(answers={name: said or "joined the tailnet"})

    def tmux_status(self) -> results.TmuxState:
        """Which usable slots have a tmux window, which windows are orphaned."""
        site = self._site()
        mirror = site.mirror.look(site.client.slots())
        return results.TmuxState(
            windows={name: windows[0].session for name, windows in mirror.shown.items()},
            dead=[name for name, windows in mirror.shown.items() if all(w.dead for w in windows)],
            missing=list(mirror.missing),
            orphaned=[window.name for window in mirror.orphaned],
            duplicates=list(mirror.duplicates),
            attach=site.mirror.tmux.attach,
        )

    def tmux_sync(self) -> results.Answer:
        """Open a tmux window for each usable slot that has none. Closes nothing."""
        site = self._site()
        return results.Answer(answers=dict.fromkeys(site.mirror.sync(site.client.slots()), "opened"))

    def tmux_open(self, name: str) -> results.Answer:
        """Open a slot's tmux window, or start its shell again, and make it current."""
        site = self._site()
        return results.Answer(answers={name: site.mirror.open(site.slot(name))})

    def tmux_close(self, name: str, confirm: bool = False) -> results.Answer:
        """Close a slot's tmux window with what runs in it on this machine. Needs confirm=true."""
        refuse_unconfirmed(confirm, f"closes the tmux window of {name} with what runs in it")
        site = self._site()
        return results.Answer(answers={name: site.mirror.close(name, site.client.slots())})
