"""The submission message: what a client writes is what `submit` reads, and nothing wrong gets through."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpufn.domain.errors import InputError
from tpufn.domain.fleet import Fleet, Pool
from tpufn.domain.job import Bundle, Cache, JobSpec, Priority, Retries
from tpufn.spec.job_model import JobFile
from tpufn.spec.submission import check_job_id, compile_specs, digest, make_id, read_submission, write_submission

BUNDLE = Bundle(sha256="a" * 64, size=10, files=2)
FLEET = Fleet(
    name="lab",
    pools=(Pool(id="p", type="v6e-8", zone="us-east1-d", count=1),),
    worker_secrets=("wandb-key",),
    buckets={"east": "us-east1", "europe": "europe-west4"},
)


def job(**more: object) -> JobFile:
    return JobFile.model_validate({"tpu": "v6e-8", "command": "run", "buckets": ["gs://east"], **more})


def body(**more: Any) -> dict[str, Any]:
    one = {"tpu": "v6e-8", "command": "run", "buckets": {"us-east1": "gs://east"}, **more}
    return {"v": 1, "submission_id": "s", "jobs": [one]}


FULL = job(
    id="a.b",
    name="Train 7B",
    tpu=["v5e-8", "v6e-8"],
    zone="us-east1-d",
    provisioning_model="spot",
    priority="high",
    caches=[{"key": "pip", "path": "./.cache//pip"}],
    env={"A": "'\"\n$`=é"},
    secrets={"KEY": "wandb-key@3"},
    labels={"team": "vision"},
    retries={"preemption": 5, "infrastructure": 2, "application": {"max": 1, "exit_codes": [75]}},
    max_runtime="12h",
    queue_deadline="2d",
    finish_timeout="90s",
)


def test_every_key_arrives() -> None:
    """The domain's value has all that the file says, in its own units."""
    (spec,) = compile_specs([FULL], buckets=[{"us-east1": "east"}], bundles=[BUNDLE], submission_id="s")
    assert spec == JobSpec(
        id="a.b",
        name="Train 7B",
        command="run",
        tpu=("v5litepod-8", "v6e-8"),
        zone="us-east1-d",
        provisioning_model="spot",
        buckets={"us-east1": "east"},
        bundle=BUNDLE,
        priority=Priority.HIGH,
        caches=(Cache(key="pip", path=".cache/pip"),),
        env={"A": "'\"\n$`=é"},
        secrets={"KEY": "wandb-key@3"},
        labels={"team": "vision"},
        retries=Retries(preemption=5, infrastructure=2, application=1, application_exit_codes=(75,)),
        max_runtime=43200.0,
        queue_deadline=172800.0,
        finish_timeout=90.0,
    )


def test_the_message_is_plain_json() -> None:
    """It goes over Pub/Sub and back without a change of meaning."""
    made = write_submission([FULL], buckets=[{"us-east1": "east"}], bundles=[BUNDLE], submission_id="s")
    assert read_submission(json.loads(json.dumps(made)), FLEET) == read_submission(made)


def test_ids_are_given_or_follow_from_the_submission() -> None:
    """A message that arrives twice makes the same jobs; the client can print ids at once."""
    jobs = [job(name="My Run"), job(), job(id="x")]
    made = write_submission(
        jobs, buckets=[{"us-east1": "east"}] * 3, bundles=[BUNDLE] * 3, submission_id="s", correlation_id="c"
    )
    ids = [spec.id for spec in read_submission(made)]
    assert ids == [make_id("My Run", "s", 0), make_id("", "s", 1), "x"]
    assert ids[0].startswith("my-run-")
    assert ids[1].startswith("job-")


def test_a_message_without_an_id_takes_the_one_it_came_with() -> None:
    """Other services need not choose one."""
    made = body()
    del made["submission_id"]
    assert read_submission(made, submission_id="m1")[0].id == make_id("", "m1", 0)


def test_job_id_names_a_single_job() -> None:
    """`--job-id` makes no sense for two."""
    with pytest.raises(InputError, match="--job-id"):
        check_job_id("x", [job(), job()])
    single = {"buckets": [{"us-east1": "east"}], "bundles": [BUNDLE], "submission_id": "s"}
    assert write_submission([job()], **single, job_id="x")["jobs"][0]["id"] == "x"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({}, ["v: is missing", "jobs: is missing"]),
        ({"v": 2, "jobs": []}, ["submission: v", "jobs: has 0 jobs"]),
        ({"v": 1, "jobs": "x"}, ["jobs: must be a list"]),
        ({"v": 1, "jobs": [None]}, ["jobs[0]: must be a mapping"]),
        ({**body(), "extra": 1}, ["extra: unknown key"]),
        (body(env={"A": 1}), ["jobs[0].env.A", 'write "1"']),
        (body(env={"A": True}), ["jobs[0].env.A", 'write "true"']),
        (body(env={"A": "\ud800"}), ["jobs[0].env.A", "surrogate"]),
        (body(env={"JOB_DIR": "x"}), ["jobs[0].env.JOB_DIR"]),
        (body(command=""), ["jobs[0].command"]),
        (body(id="../x"), ["jobs[0].id"]),
        (body(buckets={}), ["jobs[0].buckets: is empty"]),
        (body(buckets={"us": "gs://east"}), ["jobs[0].buckets.us", "not a region"]),
        (body(buckets={"us-east1": "gs://other"}), ["jobs[0].buckets", "does not let workers use gs://other"]),
        (body(secrets={"K": "nothing"}), ["jobs[0].secrets.K"]),
        (body(tpu_name="q-1"), ["jobs[0].tpu_name"]),
        (body(bundle={"sha256": "x"}), ["jobs[0].bundle.sha256"]),
        (body(bundle={"uri": "/etc/passwd"}), ["jobs[0].bundle.uri"]),
        (body(bundle={"uri": "gs://europe/b.tar"}), ["jobs[0].bundle", "costs money"]),
        (body(command="cat gs://europe/x"), ["jobs[0].command", "costs money"]),
        (body(caches=[{"key": "a", "path": "../.."}]), ["jobs[0].caches[0].path"]),
        (body(max_runtime=90), ["jobs[0].max_runtime", "write 90s"]),
    ],
)
def test_untrusted_messages_are_refused_with_every_problem(wrong: dict[str, Any], words: list[str]) -> None:
    """Whoever may publish may publish anything."""
    with pytest.raises(InputError) as caught:
        read_submission(wrong, FLEET)
    text = "\n".join(caught.value.problems)
    assert all(word in text for word in words), text


def test_two_jobs_of_one_id_are_refused() -> None:
    """One of them would be lost."""
    made = body(id="x")
    made["jobs"] *= 2
    with pytest.raises(InputError, match="another job of this submission"):
        read_submission(made)


def test_digest_ignores_the_order_of_keys_and_the_correlation() -> None:
    """The same wish is one submission, however it was written down; another wish is a conflict."""
    made = body()
    turned = {**dict(reversed(made.items())), "correlation_id": "c"}
    turned["jobs"] = [dict(reversed(made["jobs"][0].items()))]
    assert digest(turned) == digest(made)
    assert digest(body(command="other")) != digest(made)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(key=st.sampled_from([*JobFile.model_fields, "checkpoints_of"]), value=JSON)
def test_no_value_of_any_key_causes_a_traceback(key: str, value: object) -> None:
    """A message is accepted or refused; it never breaks the function that reads it."""
    with suppress(InputError):
        read_submission(body(**{key: value}), FLEET)
