"""`tpufn demo`: the shipped example, with a preemption by the director."""

import click

from tpufn_cli.doors import Options, as_json_lines, choosing, command


@command("tpufn demo", "tpufn demo --seed 7 --json")
@click.option("--seed", type=int, help="Repeat the same sequence of events, legs and attempts.")
@click.option("--speed", type=click.FloatRange(min=0.1), default=1.0, help="How fast simulated capacity comes.")
@as_json_lines
@choosing
def demo(options: Options, seed: int | None, speed: float, as_json: bool) -> int:
    """Run a small training job in the sandbox, with a preemption.

    Needs no cloud account. The TPUs are simulated; the training script really runs, in four processes on this
    machine. It is preempted once after its first checkpoint, and resumes from there.
    """
    from dataclasses import replace
    from importlib.resources import as_file, files

    from tpufn_cli.flow.director import Director
    from tpufn_cli.flow.stage import perform

    with as_file(files("tpufn_cli") / "examples" / "demo") as folder:
        options = replace(options, deployment=str(folder / "deployment.yaml"), sandbox=True)
        engine = options.engine(quiet=as_json, seed=seed, speed=speed, fresh=True)
        return perform(engine, str(folder / "job.yaml"), options, as_json=as_json, also=(Director(engine),))
