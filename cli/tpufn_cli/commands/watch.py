"""`tpufn watch`: what happens to jobs, until they end."""

import click

from tpufn_cli.doors import Options, as_json_lines, choosing, command


@command("tpufn watch demo-7f3a", "tpufn watch --json")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@as_json_lines
@choosing
def watch(options: Options, ids: tuple[str, ...], as_json: bool) -> int:
    """Follow what happens to jobs until they end.

    Without an id it follows every job that has not ended. Exits with 0 if all succeeded, else with 1.
    """
    from tpufn.domain.job import TERMINAL, JobState
    from tpufn_cli.flow.ending import finished_event
    from tpufn_cli.flow.follow import follow, leaving, say_ends, teller
    from tpufn_cli.render.jsonable import print_event

    client = options.client(quiet=as_json)
    live = [state.value for state in JobState if state not in TERMINAL]
    chosen = ids or tuple(job.id for job in client.jobs(states=live))
    if not chosen and not as_json:
        click.echo("no job is pending or running", err=True)
    tell = teller(as_json=as_json)
    with leaving(tell.say, options.again(f"watch {' '.join(ids)}".rstrip())):
        ending = follow(client, chosen, tell)
    if as_json:
        print_event(finished_event(ending))
    else:
        say_ends(ending)
    return ending.exit_code
