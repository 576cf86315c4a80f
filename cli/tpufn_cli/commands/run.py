"""`tpufn run`: a job file to its end, with an engine of its own."""

import click

from tpufn_cli.doors import Options, as_json_lines, choosing, command


@command("tpufn run job.yaml", "tpufn run job.yaml --sandbox --json")
@click.argument("path", metavar="JOB.YAML")
@click.option("--seed", type=int, help="Sandbox: repeat the same sequence of events.")
@click.option("--speed", type=click.FloatRange(min=0.1), default=1.0, help="Sandbox: how fast capacity comes.")
@as_json_lines
@choosing
def run(options: Options, path: str, seed: int | None, speed: float, as_json: bool) -> int:
    """Run a job file to its end, with an engine of its own.

    On Google's TPUs where the deployment file (named, or ./deployment.yaml) is of mode laptop; else, and always with
    --sandbox, on simulated ones on this machine, with a state of its own each time: the ten last finished ones are
    kept, unfinished ones always. Every TPU is released at the end. Ctrl-C, SIGTERM, a closed terminal and a reader that
    goes away (`| head`) cancel the jobs and release the TPUs; a second Ctrl-C leaves at once. Exits with 0 if all jobs
    succeeded, else with 1.
    """
    from tpufn_cli.flow.stage import perform

    engine = options.engine(quiet=as_json, seed=seed, speed=speed, fresh=True)
    return perform(engine, path, options, as_json=as_json)
