"""What is deployed, as files: one source archive for each function, and Terraform's variables.

An archive is what the buildpack takes: main.py, the package `tpufn` and the locked requirements; nothing of the command
line. The same sources make the same bytes everywhere (fixed times, no compression), and an archive is named by its
content, so that Terraform replaces only what changed.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tpufn
from tpufn.domain.errors import NotFound
from tpufn.domain.fleet import Fleet

VARIABLES = "tpufn.auto.tfvars.json"
_SHIPPED = "deployed"
"""The folder in an installed package that holds what stands beside it in the source tree."""
_SUFFIXES = (".py", ".json", ".sh", ".typed")
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """Where everything was written to."""

    archives: Mapping[str, Path]
    variables: Path
    terraform: Path  # the configuration that takes them; not copied


def package(out: Path, fleet: Fleet) -> Packaged:
    """Write archives and variables for a fleet into `out`, which is made where it is not there."""
    sources = folder("functions")
    out.mkdir(parents=True, exist_ok=True)
    archives = {}
    for main in sorted(sources.glob("*/main.py")):
        name, data = main.parent.name, archive(main, sources / "requirements.txt")
        archives[name] = out / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}.zip"
        archives[name].write_bytes(data)
    file = out / VARIABLES
    file.write_text(json.dumps(variables(fleet, archives), indent=2) + "\n")
    return Packaged(archives=archives, variables=file, terraform=folder("terraform"))


def folder(name: str) -> Path:
    """`functions` or `terraform`: in the installed package, or beside it in the source tree."""
    own = Path(tpufn.__file__).parent
    for path in (own / _SHIPPED / name, own.parents[1] / name):
        if path.is_dir():
            return path
    raise NotFound(f"this installation of tpufn lacks its folder {name}: pip install --force-reinstall tpufn")


def archive(main: Path, requirements: Path) -> bytes:
    """One function's archive."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:
        for name, path in sorted({"main.py": main, "requirements.txt": requirements, **dict(_package())}.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system, info.external_attr = 3, 0o644 << 16
            file.writestr(info, path.read_bytes())
    return packed.getvalue()


def _package() -> Iterator[tuple[str, Path]]:
    """The files of `tpufn`, without what was compiled and what is deployed with it."""
    own = Path(tpufn.__file__).parent
    for path in own.rglob("*"):
        relative = path.relative_to(own)
        if path.suffix in _SUFFIXES and relative.parts[0] != _SHIPPED:
            yield f"tpufn/{relative.as_posix()}", path


def variables(fleet: Fleet, archives: Mapping[str, Path]) -> dict[str, Any]:
    """What Terraform has to know of a deployment file (terraform/variables.tf)."""
    settings = fleet.settings
    listed = {name: json.loads(settings[name]) for name in ("writable_prefixes",) if settings.get(name)}
    known = {
        "region": settings.get("controller_region"),
        "database_location": settings.get("firestore_location"),
        "bucket": settings.get("bucket", "").removeprefix("gs://"),
        "ssh_transport": settings.get("ssh_transport"),
        "network": settings.get("network"),
        "functions_subnetwork": settings.get("subnetwork"),
        "buckets": sorted(fleet.buckets),
        "existing_tpus": any(pool.existing for pool in fleet.pools),
        "worker_secrets": sorted(fleet.worker_secrets),
        **listed,
    }
    return {
        "name": fleet.name,
        "project": fleet.project,
        "archives": {name: str(path.absolute()) for name, path in archives.items()},
        **{name: value for name, value in known.items() if value},
    }
