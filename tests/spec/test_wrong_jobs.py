"""Wrong job files. Each gives an error that names the place and the fix, and never a traceback."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet, Pool
from tpufn.spec.jobs import load_jobs

FLEET = Fleet(
    name="lab",
    pools=(Pool(id="spot-v6e8-ue1d", type="v6e-8", zone="us-east1-d", count=2),),
    worker_secrets=("wandb-key",),
    buckets={"data": "us-east1"},
)

GOOD = """\
jobs:
  - tpu: v6e-8
    buckets: [gs://data]
    command: python3 train.py
"""


def with_line(line: str) -> str:
    """The good file with one more line (or several) in its job, from line 5 on."""
    return GOOD + "".join(f"    {part}\n" for part in line.split("\n"))


def instead(old: str, new: str) -> str:
    return GOOD.replace(old, new)


def bomb(levels: int = 9) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n" + GOOD


# (what is wrong, the file, the place, the fix)
WRONG: list[tuple[str, str | bytes, str, str]] = [
    ("unknown key", with_line("priorty: high"), "job.yaml:5: jobs[0].priorty", 'did you mean "priority"?'),
    ("unknown key at the top", "job:\n  - tpu: v6e-8\n", "job.yaml:1: job", 'did you mean "jobs"?'),
    ("no jobs", "{}\n", "job.yaml:1: jobs: is missing", "write a list of jobs"),
    ("empty jobs", "jobs: []\n", "job.yaml:1: jobs", "write a list of jobs"),
    ("jobs as a mapping", "jobs:\n  tpu: v6e-8\n", "job.yaml:1: jobs", "write a list of jobs"),
    ("a job that is text", "jobs: [train]\n", "job.yaml:1: jobs[0]", "must be a mapping"),
    ("missing command", instead("    command: python3 train.py\n", ""), "job.yaml:2: jobs[0].command", "`command: "),
    ("missing tpu", "jobs:\n  - command: x\n    buckets: [gs://data]\n", "job.yaml:2: jobs[0].tpu", "`tpu: "),
    ("missing buckets", instead("    buckets: [gs://data]\n", ""), "job.yaml:2: jobs[0].buckets", "`buckets: "),
    ("empty command", instead("python3 train.py", '" "'), "job.yaml:4: jobs[0].command", "write what each worker"),
    ("null command", instead("python3 train.py", ""), "job.yaml:4: jobs[0].command", "no value"),
    ("command as a list", instead("python3 train.py", "[a, b]"), "job.yaml:4: jobs[0].command", "must be text"),
    ("null in env", with_line("env:\n  A: null"), "job.yaml:6: jobs[0].env.A", 'write "null"'),
    ("nothing in env", with_line("env:\n  A:"), "job.yaml:6: jobs[0].env.A", 'write ""'),
    ("boolean in env", with_line("env:\n  DEBUG: yes"), "job.yaml:6: jobs[0].env.DEBUG", 'write "yes"'),
    ("on in env", with_line("env: {A: on}"), "job.yaml:5: jobs[0].env.A", 'write "on"'),
    ("exponent in env", with_line("env: {LR: 1e3}"), "jobs[0].env.LR", 'write "1e3"'),
    ("signed exponent in env", with_line("env: {LR: 1.0e-3}"), "jobs[0].env.LR", 'write "1.0e-3"'),
    ("octal in env", with_line("env: {A: 0123}"), "jobs[0].env.A", 'write "0123"'),
    ("octal-like in env", with_line("env: {A: 089}"), "jobs[0].env.A", 'write "089"'),
    ("new octal in env", with_line("env: {A: 0o17}"), "jobs[0].env.A", 'write "0o17"'),
    ("hexadecimal in env", with_line("env: {A: 0x10}"), "jobs[0].env.A", 'write "0x10"'),
    ("base 60 in env", with_line("env: {A: 1:30}"), "jobs[0].env.A", 'write "1:30"'),
    ("underscores in env", with_line("env: {A: 1_000}"), "jobs[0].env.A", 'write "1_000"'),
    ("a plus sign in env", with_line("env: {A: +5}"), "jobs[0].env.A", 'write "+5"'),
    ("infinity in env", with_line("env: {A: .inf}"), "jobs[0].env.A", 'write ".inf"'),
    ("not a number in env", with_line("env: {A: .nan}"), "jobs[0].env.A", 'write ".nan"'),
    ("date in env", with_line("env: {A: 2026-01-31}"), "jobs[0].env.A", 'write "2026-01-31"'),
    ("list in env", with_line("env: {A: [1]}"), "jobs[0].env.A", "must be text"),
    ("env as a list", with_line("env: [A=1]"), "jobs[0].env", "must be a mapping"),
    ("bad env name", with_line("env: {1A: x}"), 'jobs[0].env["1A"]', "use letters, digits"),
    ("reserved env name", with_line("env: {JOB_ID: x}"), "jobs[0].env.JOB_ID", "choose another name"),
    ("NUL character in env", with_line(r'env: {A: "a\0b"}'), "jobs[0].env.A", "remove it"),
    ("huge env value", with_line(f"env: {{A: {'x' * 131072}}}"), "jobs[0].env.A", "file of the bundle"),
    (
        "huge env",
        with_line("env:\n" + "\n".join(f"  A{i}: {'x' * 100_000}" for i in range(3))),
        "job.yaml:5: jobs[0].env",
        "over 256 KiB",
    ),
    ("huge command", instead("python3 train.py", "x" * 131072), "jobs[0].command", "script in the bundle"),
    ("impossible size", instead("v6e-8", "v6e-12"), "job.yaml:2: jobs[0].tpu", "v6e-8 and v6e-16"),
    ("impossible size of cores", instead("v6e-8", "v5p-6"), "job.yaml:2: jobs[0].tpu", "v5p-8"),
    ("impossible size in a list", instead("v6e-8", "[v6e-8, v4-12]"), "jobs[0].tpu[1]", "v4-8 and v4-16"),
    ("unknown family", instead("v6e-8", "v9-8"), "job.yaml:2: jobs[0].tpu", "types look like"),
    ("any and more", instead("v6e-8", "[any, v4-8]"), "job.yaml:2: jobs[0].tpu", "`tpu: any`"),
    ("empty tpu list", instead("v6e-8", "[]"), "job.yaml:2: jobs[0].tpu", "must name"),
    ("bad priority", with_line("priority: urgent"), "job.yaml:5: jobs[0].priority", "low, normal, high"),
    ("priority as a number", with_line("priority: 1"), "job.yaml:5: jobs[0].priority", "low, normal, high"),
    ("cache path with ..", with_line("caches: [{key: pip, path: ../x}]"), "jobs[0].caches[0].path", "without `..`"),
    ("absolute cache path", with_line("caches: [{key: pip, path: /x}]"), "jobs[0].caches[0].path", "relative"),
    ("cache path .", with_line("caches: [{key: pip, path: .}]"), "jobs[0].caches[0].path", "inside JOB_DIR"),
    ("cache key with /", with_line("caches: [{key: a/b, path: x}]"), "jobs[0].caches[0].key", "one path component"),
    (
        "equal cache keys",
        with_line("caches:\n  - {key: a, path: x}\n  - {key: a, path: y}"),
        "job.yaml:7: jobs[0].caches[1].key",
        "its own key",
    ),
    (
        "nested caches",
        with_line("caches:\n  - {key: a, path: x}\n  - {key: b, path: x/y}"),
        "job.yaml:7: jobs[0].caches[1].path",
        "beside x",
    ),
    ("cache without path", with_line("caches: [{key: a}]"), "jobs[0].caches[0].path", "`path: "),
    ("id with /", with_line("id: a/b"), "job.yaml:5: jobs[0].id", "must begin with"),
    ("long id", with_line(f"id: {'a' * 101}"), "job.yaml:5: jobs[0].id", "up to 100"),
    (
        "duplicate ids",
        with_line("id: a") + GOOD.removeprefix("jobs:\n") + "    id: a\n",
        "job.yaml:9: jobs[1].id",
        "give each job its own",
    ),
    ("bucket with a path", instead("gs://data", "gs://data/x"), "jobs[0].buckets[0]", "write gs://data"),
    ("bucket without gs://", instead("gs://data", "data"), "jobs[0].buckets[0]", "write gs://data"),
    ("bucket name", instead("gs://data", "gs://Da"), "jobs[0].buckets[0]", "is not a bucket name"),
    ("bucket twice", instead("gs://data", "gs://data, gs://data/"), "jobs[0].buckets[1]", "keep one"),
    ("no bucket", instead("[gs://data]", "[]"), "job.yaml:3: jobs[0].buckets", "name one bucket"),
    ("bucket as text", instead("[gs://data]", "gs://data"), "job.yaml:3: jobs[0].buckets", "must be a list"),
    ("unlisted bucket", instead("gs://data", "gs://date"), "jobs[0].buckets[0]", 'did you mean "data"?'),
    ("missing bundle", with_line("bundle: nowhere"), "job.yaml:5: jobs[0].bundle", "relative to this file"),
    ("gs bundle without object", with_line("bundle: gs://data"), "jobs[0].bundle", "NAME.tar.gz"),
    ("bad zone", with_line("zone: us-east1"), "job.yaml:5: jobs[0].zone", 'did you mean "us-east1-d"?'),
    ("unknown TPU", with_line("tpu_name: spot-v6e8-ue1d-9"), "jobs[0].tpu_name", 'did you mean "spot-v6e8-ue1d-'),
    (
        "TPU of another type",
        instead("v6e-8", "v4-8") + "    tpu_name: spot-v6e8-ue1d-1\n",
        "job.yaml:5: jobs[0].tpu_name",
        "write `tpu: v6e-8`",
    ),
    ("bad model", with_line("provisioning_model: sopt"), "jobs[0].provisioning_model", 'did you mean "spot"?'),
    ("unlisted secret", with_line("secrets: {K: wandb}"), "jobs[0].secrets.K", 'did you mean "wandb-key"?'),
    ("bad secret", with_line("secrets: {K: a@b}"), "jobs[0].secrets.K", "NAME@VERSION"),
    ("secret and env", with_line("env: {K: a}\nsecrets: {K: wandb-key}"), "jobs[0].secrets.K", "keep one"),
    ("bare duration", with_line("max_runtime: 90"), "job.yaml:5: jobs[0].max_runtime", "write 90s"),
    ("no duration", with_line("queue_deadline: soon"), "jobs[0].queue_deadline", "90s, 15m, 12h or 2d"),
    ("zero duration", with_line("finish_timeout: 0s"), "jobs[0].finish_timeout", "longer than 0"),
    ("bad retries", with_line("retries: {preemption: often}"), "jobs[0].retries.preemption", "`unlimited`"),
    ("unknown retries", with_line("retries: {preemptions: 3}"), "jobs[0].retries.preemptions", '"preemption"?'),
    (
        "exit code 0",
        with_line("retries: {application: {max: 1, exit_codes: [0]}}"),
        "jobs[0].retries.application.exit_codes[0]",
        "from 1 to 255",
    ),
    ("retry flag", with_line("retry_on_infrastructure_failure: maybe"), "infrastructure_failure", "true or false"),
    ("bad label", with_line('labels: {"a b": x}'), 'jobs[0].labels["a b"]', "use up to 63"),
    ("boolean label", with_line("labels: {a: true}"), "jobs[0].labels.a", 'write "true"'),
    ("long name", with_line(f"name: {'n' * 101}"), "jobs[0].name", "at most 100"),
    ("alias bomb", bomb(), "job.yaml:", "make it shorter"),
    ("endless alias", GOOD + "x: &x [*x]\n", "job.yaml:5", "write the value out"),
    ("undefined alias", with_line("env: *nothing"), "job.yaml:5", "undefined alias"),
    ("deep nesting", "jobs: " + "[" * 900 + "]" * 900, "job.yaml:1", "write it flatter"),
    ("tab indentation", "jobs:\n\t- tpu: v6e-8\n", "job.yaml:2", "allows only spaces"),
    ("tab further down", with_line("env:\n\tA: x"), "job.yaml:6", "allows only spaces"),
    ("NUL byte", GOOD.encode() + b"\0", "job.yaml:5", "plain UTF-8"),
    ("not UTF-8", GOOD.encode() + b"# \xe9\n", "job.yaml:5", "save the file as UTF-8"),
    ("control character", GOOD + "# \x01\n", "job.yaml:5", "remove it"),
    ("a hidden line break", GOOD + "    name: a\u2028b\n", "job.yaml:5", 'write "\\u2028"'),
    ("huge file", GOOD + "#" * (1 << 20), "job.yaml", "over 1 MiB"),
    ("duplicate key", with_line("command: python3 test.py"), "job.yaml:5: command", "first on line 4; keep one"),
    ("two documents", GOOD + "---\n" + GOOD, "job.yaml:5", "keep one"),
    ("a list at the top", "- tpu: v6e-8\n", "job.yaml:1", "begin with a key"),
    ("empty file", "", "job.yaml:1", "begin with a key"),
    ("broken quotes", GOOD + '    name: "x\n', "job.yaml:", "is not valid YAML"),
    ("two colons", with_line("name: a: b"), "job.yaml:5", "quote the value"),
    ("a tag", with_line("name: !!python/name:os.system x"), "job.yaml:5: jobs[0].name", "without it"),
    ("a list as key", with_line("? [a]\n: b"), "job.yaml:5", "a single word"),
]


@pytest.mark.parametrize(("text", "place", "fix"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_file_names_place_and_fix(
    text: str | bytes, place: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads the message knows where to look and what to write."""
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        load_jobs("job.yaml", fleet=FLEET)
    assert any(place in problem and fix in problem for problem in caught.value.problems), caught.value.problems
    assert caught.value.exit_code == 2


def test_the_good_file_is_good(write: Callable[[str, str], Path]) -> None:
    """Else every test above proves nothing."""
    assert len(load_jobs(write("job.yaml", GOOD), fleet=FLEET).jobs) == 1


def test_every_problem_is_reported_at_once_by_line(write: Callable[[str, str], Path]) -> None:
    """A person mends a file in one go, from top to bottom."""
    text = with_line("priorty: high\nenv: {A: yes, JOB_ID: x}\nbundle: nowhere") + "  - tpu: v6e-12\n"
    with pytest.raises(InputError) as caught:
        load_jobs(write("job.yaml", text), fleet=FLEET)
    lines = [int(problem.split("job.yaml:")[1].split(":")[0]) for problem in caught.value.problems]
    assert lines == [5, 6, 6, 7, 8, 8, 8]


@pytest.mark.parametrize("path", ["nothing.yaml", ".", "a\0b"])
def test_unreadable_path_is_an_input_error(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong path is the user's input too."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        load_jobs(path)
