"""Literal gs:// addresses in a job: where each would be read from another region than the job runs in."""

import re
from collections.abc import Callable, Iterator, Mapping

from tpufn.domain.errors import NotFound
from tpufn.spec.job_model import JobFile, JobKeys
from tpufn.spec.problems import Loc

RegionOf = Callable[[str], str]
"""A bucket's bare name -> its region ("" where it is not known). May raise NotFound."""

COST = "transfer between regions costs money"
_LITERAL = re.compile(r"gs://([A-Za-z0-9][A-Za-z0-9._-]*)([/$]?)")


def several_regions(job: JobFile) -> Iterator[tuple[Loc, str]]:
    """What no cloud needs to be asked for: a job with several buckets may run in several regions."""
    if len(job.buckets) > 1 and not job.zone and not job.tpu_name:
        beside = {f"beside {uri}": uri.removeprefix("gs://") for uri in job.buckets}
        yield from literal_faults(job, beside, lambda name: "", bundle=job.bundle)


def literal_faults(
    job: JobKeys, regions: Mapping[str, str], region_of: RegionOf, *, bundle: str = ""
) -> Iterator[tuple[Loc, str]]:
    """Literal gs:// addresses that some region of the job would read from another one."""
    texts: list[tuple[Loc, str]] = [(("command",), job.command), (("bundle",), bundle)]
    texts += [(("env", name), value) for name, value in job.env.items()]
    for loc, text in texts:
        for match in _LITERAL.finditer(text):
            yield from ((loc, problem) for problem in _literal_problem(match, loc, regions, region_of))


def _literal_problem(match: re.Match[str], loc: Loc, regions: Mapping[str, str], region_of: RegionOf) -> Iterator[str]:
    address = f"gs://{match[1]}"
    if loc == ("bundle",):
        fix = "name a directory or an archive on this machine, which is uploaded to each bucket"
    elif loc[0] == "env":
        fix = f"drop it, and write $JOB_BUCKET instead of {address} in the command"
    else:
        fix = f"write $JOB_BUCKET instead of {address}, with the same paths in each bucket"
    if len(regions) > 1:
        yield f"{address} is in one region, but the job may run in {', '.join(regions)}: {COST}; {fix}"
        return
    (home,) = regions
    other = "" if match[2] == "$" or match[1] in regions.values() else known_region(match[1], region_of)
    if other not in ("", home):
        yield f"{address} is in {other}, but the job runs in {home}: {COST}; copy it to {home}, or {fix}"


def known_region(bucket: str, region_of: RegionOf) -> str:
    try:
        return region_of(bucket).lower()
    except NotFound:
        return ""
