"""Buckets and regions: what costs money is refused, with the reason and the fix."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tpufn.domain.errors import InputError, NotFound
from tpufn.domain.fleet import Fleet, Pool
from tpufn.spec.job_model import JobFile
from tpufn.spec.jobs import load_jobs
from tpufn.spec.regions import resolve, resolve_file

FLEET = Fleet(
    name="lab",
    pools=(
        Pool(id="east", type="v6e-8", zone="us-east1-d", count=1),
        Pool(id="europe", type="v6e-8", zone="europe-west4-a", count=1),
    ),
)
REGIONS = {"east": "us-east1", "east-2": "us-east1", "europe": "europe-west4", "asia": "ASIA-NORTHEAST1", "wide": "us"}


def region_of(bucket: str) -> str:
    if bucket not in REGIONS:
        raise NotFound(bucket)
    return REGIONS[bucket]


def job(*buckets: str, **more: object) -> JobFile:
    uris = [f"gs://{name}" for name in buckets]
    return JobFile.model_validate({"tpu": "v6e-8", "command": "run", "buckets": uris, **more})


def problem(made: JobFile) -> str:
    with pytest.raises(InputError) as caught:
        resolve(made, FLEET, region_of)
    return "\n".join(caught.value.problems)


def test_one_bucket_for_each_region() -> None:
    """The winner's bucket is found by its region."""
    assert resolve(job("east", "europe"), FLEET, region_of) == {"us-east1": "east", "europe-west4": "europe"}


def test_a_region_without_pools_stays() -> None:
    """The fleet may get a pool there while the job waits."""
    assert resolve(job("asia"), FLEET, region_of) == {"asia-northeast1": "asia"}


@pytest.mark.parametrize("more", [{"zone": "europe-west4-a"}, {"tpu_name": "europe-1"}])
def test_a_job_of_one_place_uses_the_bucket_there(more: dict[str, str]) -> None:
    """Other buckets are no candidates."""
    assert resolve(job("east", "europe", **more), FLEET, region_of) == {"europe-west4": "europe"}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (job("east", "east-2"), ["buckets[1]", "us-east1", "keep one bucket for each region"]),
        (job("nowhere"), ["buckets[0]", "does not exist"]),
        (job("wide"), ["buckets[0]", "single region", "costs money"]),
        (job("east", zone="europe-west4-a"), ["buckets", "add one in europe-west4", "costs money"]),
        (job("east", "europe", command="cat gs://east/x"), ["command", "costs money", "$JOB_BUCKET"]),
        (job("east", "europe", env={"DATA": "gs://other/x"}), ["env.DATA", "costs money", "$JOB_BUCKET"]),
        (job("east", "europe", bundle="gs://east/b.tar.gz"), ["bundle", "costs money", "uploaded to each bucket"]),
        (job("east", command="cat gs://europe/x"), ["command", "europe-west4", "costs money", "copy it to us-east1"]),
        (job("east", bundle="gs://europe/b.tar.gz"), ["bundle", "europe-west4", "costs money"]),
        (job("east", env={"DATA": "x gs://europe"}), ["env.DATA", "europe-west4"]),
    ],
)
def test_what_costs_money_is_refused(made: JobFile, words: list[str]) -> None:
    """The message has the place, the reason and the fix."""
    text = problem(made)
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    "made",
    [
        job("east", command="cat gs://east/x gs://east-2/y"),
        job("east", command="cat gs://unknown-public/x"),
        job("east", bundle="gs://east/b.tar.gz"),
        job("east", "europe", command='cat "$JOB_BUCKET/x" "gs://$NAME/y"'),
        job("east", command="cat gs://europe$SUFFIX/x"),
    ],
)
def test_what_costs_nothing_is_accepted(made: JobFile) -> None:
    """Addresses in the job's own region, unknown ones, and those made from variables are left alone."""
    assert resolve(made, FLEET, region_of)


def test_problems_of_a_file_have_lines(write: Callable[[str, str], Path]) -> None:
    """All jobs of a file, or none."""
    text = "jobs:\n" + "  - {tpu: v6e-8, buckets: [gs://east, gs://east-2], command: run}\n" * 2
    with pytest.raises(InputError) as caught:
        resolve_file(load_jobs(write("job.yaml", text)), FLEET, region_of)
    assert [p.split("job.yaml:")[1][:29] for p in caught.value.problems] == [
        "2: jobs[0].buckets[1]: gs://e",
        "3: jobs[1].buckets[1]: gs://e",
    ]


def test_a_bucket_without_a_pool_is_a_warning(write: Callable[[str, str], Path]) -> None:
    """While another candidate remains, the job can run."""
    text = "jobs:\n  - {tpu: v6e-8, buckets: [gs://east, gs://asia], command: run}\n"
    resolved = resolve_file(load_jobs(write("job.yaml", text)), FLEET, region_of)
    assert "jobs[0].buckets[1]: gs://asia is in asia-northeast1" in resolved.warnings[0]


def test_a_literal_address_needs_no_cloud_when_there_are_several_buckets(tmp_path: Path) -> None:
    """`validate-jobs` must find what costs money without asking where the buckets are."""
    file = tmp_path / "job.yaml"
    file.write_text(
        "jobs:\n  - tpu: v6e-8\n    buckets: [gs://aaa, gs://bbb]\n    command: python3 train.py --data gs://aaa/data\n"
    )
    with pytest.raises(InputError, match="transfer between regions costs money"):
        load_jobs(file)
