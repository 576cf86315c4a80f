"""The sandbox's buckets: each gs:// name is a directory here, and lies in a region of the sandbox fleet."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from tpufn.domain.accelerators import FAMILIES, region_of

_KNOWN = frozenset(region_of(zone) for family in FAMILIES.values() for zone in family.zones)


class SandboxRegions:
    """bucket name -> region, decided once and remembered beside the buckets.

    The region that the deployment file gives, else the one that the name contains (`my-data-us-east1`), else the first
    region of the fleet that has no bucket yet.
    """

    def __init__(self, path: Path, *, declared: dict[str, str], regions: Sequence[str]) -> None:
        self._path, self._declared, self._regions = path, declared, regions

    def __call__(self, bucket: str) -> str:
        known = self._load()
        if bucket not in known:
            known[bucket] = self._declared.get(bucket) or _named(bucket) or self._next(known)
            self._save(known)
        return known[bucket]

    def _next(self, known: dict[str, str]) -> str:
        free = [r for r in self._regions if r not in known.values()]
        return (free or list(self._regions) or ["us-central1"])[0]

    def _load(self) -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        return found

    def _save(self, known: dict[str, str]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(known, indent=1, sort_keys=True))
        scratch.replace(self._path)


def _named(bucket: str) -> str:
    """The longest region whose name is part of the bucket's."""
    return max((r for r in _KNOWN if r in bucket), key=len, default="")
