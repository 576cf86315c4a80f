"""`tpufn why`."""

import click

from tpufn_cli.doors import Options, as_json, choosing, command


@command("tpufn why demo-7f3a")
@click.argument("id", metavar="ID")
@as_json
@choosing
def why(options: Options, id: str, as_json: bool) -> None:
    """Say what a job waits for, or why it ended as it did.

    For every pool that could run it: free slots, limits, the last outcome and its cause, and when the next try is.
    """
    from tpufn_cli.render.jsonable import print_document

    explained = options.client(quiet=as_json).why(id)
    if as_json:
        print_document(explained)
        return
    from tpufn_cli.render.console import show
    from tpufn_cli.render.why import explanation

    show(explanation(explained))
