"""`tpufn cancel`."""

from collections.abc import Mapping

import click

from tpufn_cli.doors import Options, as_json, choosing, command


@command("tpufn cancel demo-7f3a", "tpufn cancel sweep-1 sweep-2 --if-pending")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--if-pending", is_flag=True, help="Leave jobs alone that run already.")
@as_json
@choosing
def cancel(options: Options, ids: tuple[str, ...], if_pending: bool, as_json: bool) -> None:
    """Cancel jobs.

    A running job is stopped on every worker, and is cancelled once nothing of it runs any more.
    """
    from tpufn.domain.errors import PartlyDone

    try:
        _tell(options.client(quiet=as_json).cancel(ids, if_pending=if_pending), as_json=as_json)
    except PartlyDone as partly:
        _tell(partly.done, as_json=as_json)
        raise


def _tell(answers: Mapping[str, str], *, as_json: bool) -> None:
    from tpufn_cli.render.jsonable import print_document

    if as_json:
        print_document(answers)
        return
    for id, answer in answers.items():
        click.echo(f"{id}: {answer}")
