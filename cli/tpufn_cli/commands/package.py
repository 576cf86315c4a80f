"""`tpufn package`: what Terraform deploys, as files."""

from pathlib import Path

import click

from tpufn_cli.doors import Options, as_json, choosing, command


@command("tpufn package --out build")
@click.option("--out", metavar="DIR", required=True, type=click.Path(file_okay=False, path_type=Path), help="Where to.")
@as_json
@choosing
def package(options: Options, out: Path, as_json: bool) -> None:
    """Write the functions' archives and Terraform's variables.

    Both follow from this installation and the deployment file; no cloud is asked. `terraform apply` takes them.
    """
    from tpufn import settings
    from tpufn.package import package as write
    from tpufn.spec.deployment import load_deployment

    chosen = settings.load(home=options.home, deployment=options.deployment).deployment or "deployment.yaml"
    written = write(out, load_deployment(chosen).fleet)
    if as_json:
        from tpufn_cli.render.jsonable import print_document

        archives = {name: str(path) for name, path in written.archives.items()}
        print_document({"archives": archives, "variables": str(written.variables), "terraform": str(written.terraform)})
        return
    for path in (*written.archives.values(), written.variables):
        click.echo(f"written  {path}")
    click.secho(f"next: terraform -chdir={written.terraform} apply -var-file={written.variables.absolute()}", err=True)
