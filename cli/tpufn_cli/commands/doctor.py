"""`tpufn doctor`: what a deployment needs, and what mends it."""

from __future__ import annotations

import click

from tpufn_cli.doors import Options, as_json_lines, choosing, command


@command("tpufn doctor", "tpufn doctor deployment.yaml --fix")
@click.argument("path", metavar="[DEPLOYMENT.YAML]", required=False, default="")
@click.option("--fix", is_flag=True, help="Mend what can be mended without a decision: switch APIs on.")
@as_json_lines
@choosing
def doctor(options: Options, path: str, fix: bool, as_json: bool) -> int:
    """Check what a deployment needs, and say what mends it.

    Login, project, APIs, roles; quota, addresses and firewall for the TPUs; whether each zone offers the types and
    runtimes; and of a running deployment its indexes, ticks, dead letters and strays. Exits with 1 if one is wrong.
    """
    from tpufn.deploy.checks import examine
    from tpufn.deploy.wiring import target
    from tpufn_cli.render.jsonable import print_event

    if options.sandbox:
        raise click.UsageError("--sandbox: a sandbox needs nothing; this is about a project in the cloud")
    patient = target(path, home=options.home, deployment=options.deployment).patient(fix=fix)
    wrong = 0
    for finding in examine(patient):
        wrong += not (finding.ok or finding.fixed)
        if as_json:
            print_event({"event": "check", **{name: getattr(finding, name) for name in finding.__dataclass_fields__}})
            continue
        mark = click.style("✓", fg="green") if finding.ok else click.style("fixed" if finding.fixed else "✗", fg="red")
        click.echo(f"{mark} {finding.check:<13} {finding.text}")
        if finding.mend and not finding.fixed:
            click.echo(f"  {'mend:':<13} {finding.mend}")
    return 1 if wrong else 0
