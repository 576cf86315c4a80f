"""`tpufn init`: two files to start from."""

import shlex
import sys
from pathlib import Path

import click

from tpufn_cli.doors import command

NEXT = """\
next:
  1. edit deployment.yaml: your project, your zones, how many TPUs at most
  2. tpufn validate-fleet deployment.yaml
  3. edit job.yaml: your buckets, your command
  4. tpufn validate-jobs job.yaml
  5. tpufn --sandbox run job.yaml    tries it here, without a cloud account
  6. tpufn run job.yaml              runs it on Google Cloud, with an engine on this machine
     tpufn deploy                    or, with `mode: cloud`: functions do it, and `tpufn submit` hands jobs to them"""
FILE = "deployment.yaml"


@command("tpufn init", "tpufn init experiments/lab --yes", "tpufn init --from-tpu-manager config.toml")
@click.argument("folder", metavar="[FOLDER]", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--yes", "-y", is_flag=True, help="Ask nothing: write the commented template.")
@click.option("--from-tpu-manager", "config", metavar="CONFIG.TOML", help="Bring the slots over from its config.")
def init(folder: Path, yes: bool, config: str | None) -> None:
    """Write a deployment.yaml and a job.yaml to start from.

    In a terminal it asks for project, TPU types and zones, and shows what there is and what it costs. Existing files
    are never overwritten.
    """
    from importlib.resources import files

    templates = {i.name: i.read_bytes() for i in (files("tpufn_cli") / "examples" / "init").iterdir() if i.is_file()}
    if all((folder / name).exists() for name in templates):
        from tpufn.domain.errors import Conflict

        raise Conflict(f"nothing written: the files exist already in {folder}; name another folder")
    if not (folder / FILE).exists() and (made := _made(folder, config, asks=not yes)):
        templates[FILE] = made.encode()
    templates[FILE] = templates[FILE].replace(b"name: lab ", f"name: {_named(folder)} ".encode(), 1)
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(templates):
        _write(folder / name, templates[name])
    there = "" if folder.absolute() == Path.cwd() else f"  0. cd {shlex.quote(str(folder))}\n"
    click.echo(NEXT.replace("next:\n", f"next:\n{there}", 1))


def _named(folder: Path) -> str:
    """A deployment is named after its folder: states and cloud names of two projects must not be one."""
    from tpufn.spec.scalars import slugified

    name = slugified(folder.absolute().name)[:26].strip("-")
    return name if name[:1].isalpha() and len(name) > 3 else "lab"


def _made(folder: Path, config: str | None, *, asks: bool) -> str:
    """A deployment file of the person's own; "" for the template."""
    if config is not None:
        return _imported(folder, config)
    if not asks or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return ""
    from tpufn_cli.flow.starting import ask

    return ask()


def _imported(folder: Path, config: str) -> str:
    import os

    from tpufn.spec.deployment import parse_deployment
    from tpufn.spec.tpu_manager import convert

    found = convert(Path(config).read_text("utf-8"), os.environ, name=_named(folder))
    parse_deployment(FILE, found.text, base=folder)  # what we write must be right
    for note in found.notes:
        click.echo(f"{click.style('note:', fg='yellow')} {note}", err=True)
    return found.text


def _write(path: Path, content: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        click.echo(f"kept     {path} (exists)")
        return
    click.echo(f"written  {path}")
