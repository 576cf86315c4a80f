"""Who holds the TPU devices, as a table or as JSON."""

from collections.abc import Mapping, Sequence

import click

from tpufn.remote import Holder
from tpufn_cli.render.console import show, table
from tpufn_cli.render.jsonable import print_document


def tell(slot: str, found: Mapping[int, Sequence[Holder]], causes: Mapping[int, str], *, as_json: bool) -> None:
    """Workers that did not answer are told on stderr, or beside the others as `error`."""
    if as_json:
        holders = [holder for worker in sorted(found) for holder in found[worker]]
        print_document({"slot": slot, "workers": sorted(found), "holders": holders, "errors": dict(causes)})
        return
    rows = [holder for worker in sorted(found) for holder in found[worker]]
    if rows:
        shown = table("worker", "pid", "device", "command", numbers=("worker", "pid"))
        for holder in rows:
            shown.add_row(str(holder.worker), str(holder.pid), holder.device, holder.command)
        show(shown)
    elif found:
        click.echo(f"{slot}: nobody holds a TPU device on {len(found)} workers")
    for worker, cause in sorted(causes.items()):
        click.echo(f"worker {worker}: {cause}", err=True)
