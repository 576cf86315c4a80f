"""`tpufn up`: the embedded engine in the foreground."""

import click

from tpufn_cli.doors import Options, as_json_lines, choosing, command


@command("tpufn up -d deployment.yaml", "tpufn up --sandbox")
@click.option("--seed", type=int, help="Sandbox: repeat the same sequence of events.")
@click.option("--speed", type=click.FloatRange(min=0.1), default=1.0, help="Sandbox: how fast capacity comes.")
@as_json_lines
@choosing
def up(options: Options, seed: int | None, speed: float, as_json: bool) -> int:
    """Run the embedded engine in the foreground.

    The other commands then talk to its state from other terminals. Ctrl-C stops the engine and leaves jobs and TPUs
    as they are; `tpufn up` goes on from there, also after a crash.
    """
    from tpufn_cli.flow.follow import teller
    from tpufn_cli.flow.serve import serve

    engine = options.engine(quiet=as_json, seed=seed, speed=speed)
    return serve(engine, teller(as_json=as_json), again=options.again("up"))
