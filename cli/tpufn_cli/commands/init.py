"""`tpufn init`: two files to start from."""

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
  6. tpufn run job.yaml              runs it on Google Cloud"""


@command("tpufn init", "tpufn init experiments/lab")
@click.argument("folder", metavar="[FOLDER]", default=".")
def init(folder: str) -> None:
    """Write a deployment.yaml and a job.yaml to start from.

    Existing files are never overwritten.
    """
    from importlib.resources import files

    templates = [item for item in (files("tpufn_cli") / "examples" / "init").iterdir() if item.is_file()]
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = [_write(Path(folder) / item.name, item.read_bytes()) for item in sorted(templates, key=lambda i: i.name)]
    if not any(written):
        from tpufn.domain.errors import Conflict

        raise Conflict(f"nothing written: the files exist already in {folder}; name another folder")
    click.echo(NEXT)


def _write(path: Path, content: bytes) -> bool:
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        click.echo(f"kept     {path} (exists)")
        return False
    click.echo(f"written  {path}")
    return True
