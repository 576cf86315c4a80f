"""`tpufn slots`."""

import time

from tpufn_cli.doors import Options, as_json, choosing, command


@command("tpufn slots", "tpufn slots --json")
@as_json
@choosing
def slots(options: Options, as_json: bool) -> None:
    """List the fleet's slots and what they hold."""
    from tpufn_cli.render.jsonable import print_document

    found = options.client(quiet=as_json).slots()
    if as_json:
        print_document(found)
        return
    from tpufn_cli.render.console import show
    from tpufn_cli.render.slots import slots_table

    show(slots_table(found, now=time.time()))
