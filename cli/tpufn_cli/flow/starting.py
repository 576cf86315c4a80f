"""The questions of `tpufn init`, and the deployment file that the answers make."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import click
from rich.table import Table

from tpufn.domain.accelerators import FAMILIES, Family, accelerator, all_types, api_type, price_per_hour
from tpufn_cli.render.console import show, table

_MODELS = ("spot", "on-demand")


def ask() -> str:
    """The text of a deployment.yaml."""
    project = click.prompt("Google Cloud project", default=gcloud_project() or None)
    name = click.prompt("name of the deployment", default="lab")
    show(catalogue())
    types = click.prompt("TPU types, with commas", default="v6e-8", value_proc=_types)
    model = click.prompt("bought as", default="spot", type=click.Choice(_MODELS))
    pools = [(type, _zones(type)) for type in types]
    count = click.prompt("at most how many of each, in each zone", default=1, type=click.IntRange(1, 1000))
    mode = click.prompt("who runs it: laptop (`tpufn up`), or cloud (`tpufn deploy`)", default="laptop", type=_MODES)
    return deployment(project, name, mode, model, count, pools)


_MODES = click.Choice(("laptop", "cloud"))


def deployment(
    project: str, name: str, mode: str, model: str, count: int, pools: Sequence[tuple[str, Sequence[str]]]
) -> str:
    """Every pool with what it is and costs in a comment."""
    lines = [
        "# What may be used, and where. `tpufn validate-fleet` checks this file; nothing is made until a job wants it.",
        f"name: {name}",
        f"project: {project}",
        f"mode: {mode}",
        "idle_timeout_seconds: 600     # an idle TPU is given back after this time",
        "ssh_transport: iap            # private TPUs; direct: public addresses, of which most may have 8 in a region",
        "",
        "# The buckets that jobs may use; mode cloud needs them.",
        "# buckets: [gs://your-data-us-east1]",
        "",
        "tpus:",
    ]
    return "\n".join([*lines, *(_pool(type, zones, model, count) for type, zones in pools)]) + "\n"


def _pool(type: str, zones: Sequence[str], model: str, count: int) -> str:
    kind = accelerator(type)
    price = price_per_hour(type, zones[0], spot=model == "spot")
    words = f"type: {type}, zones: [{', '.join(zones)}], count: {count}, provisioning_model: {model}"
    return f"  # {kind.chips} chips on {kind.hosts} host{'s' * (kind.hosts > 1)}, ${price:.2f}/h\n  - {{{words}}}"


def catalogue() -> Table:
    """The families: what a type's number counts, where they are, what a chip costs."""
    made = table("family", "types", "zones", "spot", "on-demand", numbers=("spot", "on-demand"))
    for family in FAMILIES.values():
        spot, full = (min(prices.values()) for prices in (family.spot, family.on_demand))
        made.add_row(family.name, _range(family), ", ".join(family.zones), f"${spot:.2f}", f"${full:.2f}")
    made.caption = "USD per chip and hour in the cheapest region, list prices"
    return made


def _range(family: Family) -> str:
    unit = "cores" if family.cores_per_chip == 2 else "chips"
    return f"{family.prefix}-{family.sizes[0]} … {family.prefix}-{family.sizes[-1]} ({unit})"


def _types(answer: str) -> list[str]:
    types = [api_type(word) for word in answer.replace(",", " ").split()]
    for type in types:
        try:
            accelerator(type)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    if not types:
        raise click.BadParameter(f"name one of {len(all_types())} types, such as v6e-8")
    return types


def _zones(type: str) -> list[str]:
    offered = FAMILIES[accelerator(type).family].zones

    def read(answer: str) -> list[str]:
        zones = answer.replace(",", " ").split()
        if wrong := [zone for zone in zones if zone not in offered]:
            raise click.BadParameter(f"{wrong[0]} does not sell {type}: {', '.join(offered)} do")
        return zones

    return list(click.prompt(f"zones for {type}", default=", ".join(offered), value_proc=read))


def gcloud_project() -> str:
    """The project that gcloud is set to; "" where it is not there or has none."""
    try:
        asked = ["gcloud", "config", "get-value", "project"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    name = done.stdout.strip()
    return "" if done.returncode or name == "(unset)" else name
