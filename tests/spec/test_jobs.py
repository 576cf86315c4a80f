"""What job files mean."""

import json
import string
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet, Pool
from tpufn.domain.job import Priority, Retries
from tpufn.spec.deployment import load_deployment
from tpufn.spec.jobs import LoadedJobs, load_jobs
from tpufn.spec.scalars import duration_text, seconds

Write = Callable[[str, str], Path]

JOB_HEAD = "jobs:\n  - tpu: v6e-8\n    buckets: [gs://data]\n    command: run\n"


def one(write: Write, more: str = "") -> LoadedJobs:
    return load_jobs(write("job.yaml", JOB_HEAD + more))


def test_tpu_runner_files_are_valid_together(tpu_runner: Path) -> None:
    """Nobody has to change a file to move here, even where the fleet lacks one of the job's types."""
    fleet = load_deployment(tpu_runner / "deployment.yaml").fleet
    loaded = load_jobs(tpu_runner / "job.yaml", fleet=fleet)
    (job,) = loaded.jobs
    assert job.tpu == ("v4-32", "v6e-64")
    assert job.priority is Priority.HIGH
    assert job.env == {"PIP_CACHE_DIR": ".cache/pip", "WANDB_PROJECT": "my-project"}
    assert any("no pool for v4-32" in warning for warning in loaded.warnings)


def test_defaults(write: Write) -> None:
    """What is not written has the meaning that tpu-runner's users know."""
    (job,) = one(write).jobs
    assert (job.priority, job.bundle, job.finish_timeout) == (Priority.NORMAL, ".", 600.0)
    assert job.domain_retries() == Retries(preemption=None, infrastructure=10, application=0)


def test_no_retry_on_infrastructure_failure_zeroes_two_budgets(write: Write) -> None:
    """The old key is a short form of the new ones, and leaves application retries alone."""
    more = "    retry_on_infrastructure_failure: no\n    retries: {infrastructure: 3, application: {max: 2}}\n"
    loaded = one(write, more)
    assert loaded.jobs[0].domain_retries() == Retries(preemption=0, infrastructure=0, application=2)
    assert "overrules `retries.infrastructure`" in loaded.warnings[0]


@pytest.mark.parametrize(
    ("written", "types"),
    [
        ("v5e-16", ("v5litepod-16",)),
        ("[v6e-8, V6E-8]", ("v6e-8",)),
        ("any", ("any",)),
        ("[v4-8, v5e-8]", ("v4-8", "v5litepod-8")),
    ],
)
def test_tpu_names(write: Write, written: str, types: tuple[str, ...]) -> None:
    """People write the names that they hear; the API's name is kept."""
    loaded = load_jobs(write("job.yaml", JOB_HEAD.replace("v6e-8", written)))
    assert loaded.jobs[0].tpu == types


@pytest.mark.parametrize("text", ["0", "-7", "12", "1.50", "-0.5", "123456789012345678901234567890", "0.1"])
def test_plain_numbers_in_env_keep_their_text(write: Write, text: str) -> None:
    """A learning rate of 1.50 must not arrive as 1.5."""
    assert one(write, f"    env: {{A: {text}}}\n").jobs[0].env == {"A": text}


@pytest.mark.parametrize("text", ["y", "n", "a b", "1.2.3", "0x", "e3", "$HOME", "=", "1 2", "v1"])
def test_plain_words_in_env_are_text(write: Write, text: str) -> None:
    """Only what YAML would change needs quotes."""
    assert one(write, f"    env:\n      A: {text}\n").jobs[0].env == {"A": text}


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
WILD = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=200)


def quoted(value: object) -> str:
    """YAML with every text quoted and everything unusual escaped."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)}: {quoted(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(quoted, value)) + "]"
    plain = string.ascii_letters + string.digits + " $`'=-:/#{}"
    return '"' + "".join(c if c in plain else f"\\U{ord(c):08x}" for c in str(value)) + '"'


@given(
    env=st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), WILD, max_size=5), command=WILD
)
def test_quoted_values_survive_byte_for_byte(
    env: dict[str, str], command: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Quotes, newlines, dollars and all else arrive as written, through the file and its JSON form."""
    command = f"run {command}"
    path = tmp_path_factory.mktemp("env") / "job.yaml"
    job = {"tpu": "v6e-8", "buckets": ["gs://data"], "command": command, "env": env}
    path.write_text(quoted({"jobs": [job]}), "utf-8")
    loaded = load_jobs(path)
    assert (loaded.jobs[0].env, loaded.jobs[0].command) == (env, command)
    assert json.loads(json.dumps(loaded.normalised))["jobs"][0]["env"] == env


@given(env=st.dictionaries(st.sampled_from("ABC"), WILD))
def test_what_yaml_dumps_is_read_back(env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """A program that writes the file with PyYAML quotes exactly what we would refuse bare, or we read it the same."""
    path = tmp_path_factory.mktemp("env") / "job.yaml"
    job = {"tpu": "v6e-8", "buckets": ["gs://data"], "command": "x", "env": env}
    path.write_text(yaml.safe_dump({"jobs": [job]}), "utf-8")
    try:
        loaded = load_jobs(path)
    except InputError as error:
        assert all("YAML reads" in problem for problem in error.problems)  # noqa: PT017  # numbers of YAML 1.2
        return
    assert loaded.jobs[0].env == env


def test_merge_keys_and_aliases_are_written_out(write: Write) -> None:
    """Several jobs in a file share what they have in common, as YAML offers."""
    text = (
        "jobs:\n  - &base\n    tpu: v6e-8\n    buckets: [gs://data]\n    command: run\n    env: {A: x}\n"
        "  - <<: *base\n    command: test\n"
    )
    first, second = load_jobs(write("job.yaml", text)).jobs
    assert (first.command, second.command, second.env) == ("run", "test", {"A": "x"})


def test_bundle_is_looked_for_beside_the_file(write: Write) -> None:
    """The file can be named from anywhere."""
    write("sub/src/train.py", "")
    path = write("sub/job.yaml", JOB_HEAD + "    bundle: src\n")
    assert load_jobs(path).base_dir == path.parent


def test_a_job_that_nothing_can_run_is_a_warning(write: Write) -> None:
    """It may wait for the fleet to change."""
    fleet = Fleet(name="lab", pools=(Pool(id="p", type="v4-8", zone="us-central2-b", count=1),))
    loaded = load_jobs(write("job.yaml", JOB_HEAD), fleet=fleet)
    assert "nothing in lab can run this: it has spot v4-8 in us-central2-b" in loaded.warnings[0]


def test_a_job_may_name_an_existing_tpu(write: Write) -> None:
    """`tpu_name` is a slot's name or an adopted TPU's."""
    fleet = Fleet(name="lab", pools=(Pool(id="p", type="v6e-8", zone="us-east1-d", existing="mine"),))
    assert load_jobs(write("job.yaml", JOB_HEAD + "    tpu_name: mine\n"), fleet=fleet).jobs[0].tpu_name == "mine"


@given(st.integers(1, 366 * 86400))
def test_durations_are_written_exactly(value: int) -> None:
    """The JSON form must not round a deadline."""
    assert seconds(duration_text(float(value))) == value


@given(st.binary(max_size=300))
def test_no_bytes_cause_a_traceback(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Whatever the file is, the answer is a list of problems."""
    path = tmp_path_factory.mktemp("raw") / "job.yaml"
    path.write_bytes(b"jobs:\n" + raw)
    with suppress(InputError):
        load_jobs(path)


def test_a_flood_of_problems_is_cut(write: Write) -> None:
    """A hundred are more than anybody mends in one go."""
    with pytest.raises(InputError) as caught:
        one(write, "    env:\n" + "".join(f"      A{i}: yes\n" for i in range(500)))
    assert len(caught.value.problems) == 101
    assert "and 400 more problems" in caught.value.problems[-1]
