"""`tpufn validate-fleet` and `tpufn validate-jobs`: check files, call nobody."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpufn_cli.doors import Options, as_json, choosing, command

if TYPE_CHECKING:
    from tpufn.domain.fleet import Fleet

DEFAULT = "deployment.yaml"


@command("tpufn validate-fleet deployment.yaml", "tpufn validate-fleet --json", name="validate-fleet")
@click.argument("path", metavar="[DEPLOYMENT.YAML]", required=False)
@as_json
@choosing
def validate_fleet(options: Options, path: str | None, as_json: bool) -> None:
    """Check a deployment file; calls no cloud.

    Names every problem with its line and its fix. With --json it prints the normalised file.
    """
    from tpufn.spec.deployment import load_deployment

    loaded = load_deployment(path or _declared(options) or DEFAULT)
    _advise(loaded.warnings, loaded.notes)
    if as_json:
        _print_normalised(loaded.normalised, loaded.warnings)
        return
    from tpufn_cli.render.console import show
    from tpufn_cli.render.fleet import fleet_view

    show(fleet_view(loaded.fleet))


@command("tpufn validate-jobs job.yaml", "tpufn validate-jobs job.yaml -d lab.yaml --json", name="validate-jobs")
@click.argument("path", metavar="JOB.YAML")
@as_json
@choosing
def validate_jobs(options: Options, path: str, as_json: bool) -> None:
    """Check a job file and its bundles; calls no cloud.

    Where a deployment is named, or ./deployment.yaml exists, the jobs are held against it: a type without a pool is a
    warning while another candidate remains. With --json it prints the normalised jobs.
    """
    from tpufn.spec.bundle import check
    from tpufn.spec.jobs import load_jobs

    loaded = load_jobs(path, fleet=_fleet(options))
    left_out = [note for job in loaded.jobs for note in check(job.bundle, base=loaded.base_dir)]
    _advise(loaded.warnings, tuple(dict.fromkeys(left_out)))
    if as_json:
        _print_normalised(loaded.normalised, loaded.warnings)
        return
    for job in loaded.normalised["jobs"]:
        click.echo(_summary(job))
    click.echo(f"{path}: {len(loaded.jobs)} valid")


def _declared(options: Options) -> str:
    """The deployment file that flags or the environment name; "" for none."""
    from tpufn import settings

    return settings.load(home=options.home, deployment=options.deployment).deployment


def _fleet(options: Options) -> Fleet | None:
    path = _declared(options) or (DEFAULT if Path(DEFAULT).exists() else "")
    if not path:
        return None
    from tpufn.spec.deployment import load_deployment

    return load_deployment(path).fleet


def _advise(warnings: tuple[str, ...], notes: tuple[str, ...] = ()) -> None:
    for kind, lines in (("warning", warnings), ("note", notes)):
        for line in lines:
            click.echo(f"{click.style(f'{kind}:', fg='yellow')} {line}", err=True)


def _print_normalised(normalised: dict[str, Any], warnings: tuple[str, ...]) -> None:
    from tpufn_cli.render.jsonable import print_document

    print_document({**normalised, "warnings": warnings})


def _summary(job: dict[str, Any]) -> str:
    from tpufn_cli.render.words import count

    name = job.get("id") or job.get("name") or "job"
    wants = job.get("tpu_name") or job.get("tpu")
    wanted = ", ".join(wants) if isinstance(wants, list) else str(wants)
    buckets = count(len(job.get("buckets") or ()), "bucket")
    return f"{name}: {wanted}, priority {job.get('priority')}, {buckets}"
