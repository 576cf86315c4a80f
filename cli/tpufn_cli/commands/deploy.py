"""`tpufn deploy` and `tpufn destroy`: a deployment in its project, made, changed and taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpufn_cli.doors import Options, as_json_lines, choosing, command

if TYPE_CHECKING:
    from tpufn.deploy.wiring import Target

_path = click.argument("path", metavar="[DEPLOYMENT.YAML]", required=False, default="")
_yes = click.option("--yes", "-y", is_flag=True, help="Agree beforehand: for scripts and CI.")
_local = click.option("--local-state", is_flag=True, help="Keep Terraform's state in a file on this machine.")


_LAPTOP = "`tpufn cancel` ends its jobs, and `tpufn up` then gives its TPUs back"


def _target(options: Options, path: str) -> Target:
    from tpufn.deploy.wiring import target

    if options.sandbox:
        raise click.UsageError("--sandbox: nothing of a sandbox is deployed; this is about a project in the cloud")
    return target(path, home=options.home, deployment=options.deployment)


@command("tpufn deploy deployment.yaml", "tpufn deploy --plan", "tpufn deploy --yes --json")
@_path
@_yes
@click.option("--plan", "plan_only", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--rotate-key", is_flag=True, help="Make a new SSH key for the workers.")
@_local
@as_json_lines
@choosing
def deploy(
    options: Options, path: str, yes: bool, plan_only: bool, rotate_key: bool, local_state: bool, as_json: bool
) -> None:
    """Make or change a deployment in its project.

    Checks the file, the login, APIs and permissions; Terraform then makes what is missing and changes what differs;
    the SSH key and the fleet come last. Doing it again is harmless. A pool that has left the file is given up when its
    jobs have ended. Terraform's state is in the bucket PROJECT-tpufn-state.
    """
    from tpufn.deploy.steps import deploy as carry_out
    from tpufn_cli.flow.deploying import closing, teller

    target = _target(options, path)
    tell = teller(yes=yes, as_json=as_json)
    done = carry_out(
        target.wish(local_state=local_state, plan_only=plan_only, rotate_key=rotate_key), target.tools(), tell
    )
    if not plan_only:
        closing(tell, target.fleet, done, again=options.again("submit job.yaml"))


@command("tpufn destroy deployment.yaml", "tpufn destroy --force --yes")
@_path
@_yes
@click.option("--force", is_flag=True, help="Cancel the jobs that are unfinished instead of waiting for them.")
@_local
@as_json_lines
@choosing
def destroy(options: Options, path: str, yes: bool, force: bool, local_state: bool, as_json: bool) -> None:
    """Take a deployment away: its TPUs first, then all else.

    Waits for unfinished jobs (--force cancels them), has every TPU released, deletes by label whatever is left of ours
    in any zone, and then the infrastructure with the database. The buckets of jobs stay.
    """
    from tpufn.deploy.teardown import destroy as carry_out
    from tpufn.domain.errors import InputError
    from tpufn.domain.fleet import Mode
    from tpufn_cli.flow.deploying import left, teller

    target = _target(options, path)
    if target.fleet.mode is Mode.LAPTOP:
        raise InputError(f"{target.fleet.name} is of mode laptop, which deploys nothing: {_LAPTOP}")
    tell = teller(yes=yes, as_json=as_json)
    kept = carry_out(
        target.wish(local_state=local_state),
        target.tools(),
        tell,
        client=target.client(),
        tpus=target.tpus(),
        empty=target.declare(),
        force=force,
    )
    left(tell, kept)
