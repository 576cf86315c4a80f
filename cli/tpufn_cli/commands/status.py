"""`tpufn status`."""

from tpufn_cli.doors import Options, as_json, choosing, command


@command("tpufn status")
@as_json
@choosing
def status(options: Options, as_json: bool) -> None:
    """Show the deployment at a glance."""
    from tpufn_cli.render.jsonable import print_document

    found = options.client(quiet=as_json, thorough=True).status()
    if as_json:
        print_document(found)
        return
    from tpufn_cli.render.console import show
    from tpufn_cli.render.slots import status_view

    show(status_view(found))
