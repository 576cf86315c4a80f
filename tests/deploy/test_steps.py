"""`tpufn deploy` step by step: the order, what stops it, and that doing it again is harmless."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError

from tpufn.deploy.steps import AGENT_PAUSE, AGENT_TRIES, deploy
from tpufn.deploy.terraform import TerraformFailed
from tpufn.domain.errors import CloudUnavailable, InputError
from tpufn.domain.fleet import Mode

from .conftest import FLEET, Bench, FakeGoogle, FakeTerraform, Heard, applied, failed, planned

Make = Callable[..., Bench]
TOPIC = 'module.topic["ticks"].google_pubsub_topic.this'
TRIGGER = 'module.function["assign"].google_eventarc_trigger.this'
AGENT = failed(
    TRIGGER,
    "Error creating Trigger: googleapi: Error 400: Invalid resource state",
    "Permission denied while using the Eventarc Service Agent. If you recently started to use Eventarc, it may take a "
    "few minutes before all necessary permissions are propagated to the Service Agent.",
)


def test_the_whole_way(bench: Make, terraform: FakeTerraform) -> None:
    """Checks first, then Terraform, then what Terraform must not see, then the fleet."""
    terraform.play("plan", [planned(TOPIC), planned(TRIGGER)])
    terraform.play("apply", [applied(TOPIC), applied(TRIGGER)])
    made, heard = bench(), Heard()
    done = deploy(made.wish, made.tools, heard)
    steps = [line.partition(":")[0] for line in heard.lines if ": " in line]
    wanted = ["file", "login", "apis", "permissions", "quotas", "sources", "terraform", "plan", "apply", "key", "fleet"]
    assert steps == wanted
    assert terraform.commands() == ["version", "init", "plan", "apply", "output"]
    assert (done.changed, done.outputs["database"]) == (True, "tpufn-lab")
    assert heard.questions == ["2 to make, 0 to change, 0 to delete in project my-project"]
    assert heard.lines[8:10] == [f"create {TOPIC}", f"create {TRIGGER}"]
    assert made.declared == ["lab after apply"]
    assert made.key.versions == 1


def test_what_terraform_is_given(bench: Make, terraform: FakeTerraform) -> None:
    """Our configuration with its modules, an archive for each function, and a state bucket of the project."""
    made = bench()
    deploy(made.wish, made.tools, Heard())
    folder = made.wish.folder
    assert {path.name for path in folder.glob("*.tf")} >= {"main.tf", "iam.tf", "variables.tf", "versions.tf"}
    assert (folder / "modules" / "function").is_dir()
    assert len(list(folder.glob("*.zip"))) == 9
    init = next(call for call in terraform.calls() if call[0] == "init")
    assert {"-backend-config=bucket=my-project-tpufn-state", "-backend-config=prefix=tpufn/lab"} <= set(init)


def test_again_changes_nothing(bench: Make, terraform: FakeTerraform) -> None:
    """No question, no apply, the same key; the fleet is declared, which is harmless, too."""
    made = bench()
    for _ in range(2):
        heard = Heard()
        assert not deploy(made.wish, made.tools, heard).changed
        assert heard.questions == []
    assert "apply" not in terraform.commands()
    assert made.key.versions == 1


def test_a_plan_changes_nothing(bench: Make, terraform: FakeTerraform) -> None:
    terraform.play("plan", [planned(TOPIC, "update")])
    made, heard = bench(plan_only=True), Heard()
    assert deploy(made.wish, made.tools, heard).changed
    assert terraform.commands() == ["version", "init", "plan"]
    assert dict(heard.plans[0].changes) == {TOPIC: "update"}
    assert made.declared == []


def test_not_agreed_to(bench: Make, terraform: FakeTerraform) -> None:
    terraform.play("plan", [planned(TOPIC)])
    made = bench()
    with pytest.raises(InputError, match="nothing was changed"):
        deploy(made.wish, made.tools, Heard(agrees=False))
    assert "apply" not in terraform.commands()


def test_a_key_is_rotated_when_asked_for(bench: Make) -> None:
    made = bench(rotate_key=True)
    made.key.ensure()
    heard = Heard()
    deploy(made.wish, made.tools, heard)
    assert made.key.versions == 2
    assert any("version 2 is new; the former one stays valid" in line for line in heard.lines)


def test_the_first_deploy_waits_for_eventarcs_agent(bench: Make, terraform: FakeTerraform) -> None:
    """Some minutes in which nothing is wrong: planned anew and applied again."""
    terraform.play("plan", [planned(TRIGGER)])
    terraform.play("apply", [applied(TOPIC), AGENT], code=1)
    terraform.play("apply", [applied(TRIGGER)])
    made, heard = bench(), Heard()
    deploy(made.wish, made.tools, heard)
    assert terraform.commands() == ["version", "init", "plan", "apply", "plan", "apply", "output"]
    assert made.slept == [AGENT_PAUSE]
    assert "apply: Google has not let Eventarc's agent in yet: again in 60 s" in heard.lines


def test_the_agent_is_not_waited_for_for_ever(bench: Make, terraform: FakeTerraform) -> None:
    terraform.play("plan", [planned(TRIGGER)])
    terraform.play("apply", [AGENT], code=1)
    made = bench()
    with pytest.raises(TerraformFailed, match="Eventarc Service Agent"):
        deploy(made.wish, made.tools, Heard())
    assert terraform.commands().count("apply") == AGENT_TRIES


def test_another_error_is_told_at_once(bench: Make, terraform: FakeTerraform) -> None:
    """With the resource, and Terraform's own words; also beside the agent's."""
    terraform.play("plan", [planned(TOPIC)])
    terraform.play("apply", [AGENT, failed(TOPIC, "Error 403: Permission denied on topic")], code=1)
    made = bench()
    with pytest.raises(TerraformFailed) as caught:
        deploy(made.wish, made.tools, Heard())
    assert f"{TOPIC}: Error 403: Permission denied on topic" in str(caught.value)
    assert terraform.commands().count("apply") == 1
    assert made.declared == []


def test_an_apply_that_dies_without_a_word(bench: Make, terraform: FakeTerraform) -> None:
    terraform.play("plan", [planned(TOPIC)])
    terraform.play("apply", "panic: runtime error\n", code=2)
    made = bench()
    with pytest.raises(TerraformFailed, match="panic: runtime error"):
        deploy(made.wish, made.tools, Heard())


WRONG: dict[str, tuple[Callable[[FakeGoogle], object], type[Exception], str]] = {
    "no login": (
        lambda g: g.answers.update({"userinfo": DefaultCredentialsError("none")}),
        CloudUnavailable,
        "gcloud auth",
    ),
    "a missing role": (
        lambda g: g.answers.update({":testIamPermissions": {"permissions": ["pubsub.topics.create"]}}),
        CloudUnavailable,
        "it lacks cloudfunctions.functions.create",
    ),
    "an API that stays off": (
        lambda g: g.answers.update({"services:batchGet": {"services": []}}),
        CloudUnavailable,
        "not on after two minutes",
    ),
    "a state bucket of somebody else": (
        lambda g: g.answers.update({"storage.googleapis.com": exceptions.Forbidden("not yours")}),
        CloudUnavailable,
        "my-project-tpufn-state",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_can_be_known_beforehand_stops_it_before_terraform(
    bench: Make, terraform: FakeTerraform, google: FakeGoogle, wrong: str
) -> None:
    breaking, error, words = WRONG[wrong]
    breaking(google)
    made = bench()
    with pytest.raises(error, match=words):
        deploy(made.wish, made.tools, Heard())
    assert not {"plan", "apply"} & set(terraform.commands() if (terraform.folder / "calls").exists() else ())


def test_missing_apis_are_switched_on(bench: Make, google: FakeGoogle) -> None:
    """Those that Terraform needs to look; it is waited until they are."""
    looks: list[int] = []

    def later(url: str, body: object) -> dict[str, Any]:
        looks.append(1)
        names = url.partition("?")[2].split("&")
        return {"services": [{"name": name, "state": "ENABLED"} for name in names[: len(looks) + 1]]}

    google.answers["services:batchGet"] = later
    made, heard = bench(), Heard()
    deploy(made.wish, made.tools, heard)
    assert any(url.endswith("services:batchEnable") for _, url, _ in google.asked)
    assert any(line.startswith("apis: switched on: ") for line in heard.lines)
    assert made.slept


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"mode": Mode.LAPTOP}, "`tpufn up` is its engine"), ({"buckets": {}}, "`buckets` is missing")],
)
def test_a_file_that_cannot_be_deployed(bench: Make, google: FakeGoogle, changed: dict[str, Any], words: str) -> None:
    made = bench(replace(FLEET, **changed))
    with pytest.raises(InputError, match=words):
        deploy(made.wish, made.tools, Heard())
    assert google.asked == []


def test_an_old_terraform(bench: Make, terraform: FakeTerraform) -> None:
    next(terraform.folder.glob("version.*")).unlink()
    terraform.play("version", '{"terraform_version": "1.5.7"}')
    made = bench()
    with pytest.raises(InputError, match=r"1\.5\.7 is too old"):
        deploy(made.wish, made.tools, Heard())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"metrics": []}, "spot-v6e8-ue1d: the largest quota in sight is 0, one v6e-8 needs 8 chips"),
        (exceptions.Forbidden("no"), "cannot be read"),
    ],
)
def test_a_small_quota_is_said_and_stops_nothing(bench: Make, google: FakeGoogle, answer: Any, said: str) -> None:
    """It may be asked for later; and not everybody may look."""
    google.answers["consumerQuotaMetrics"] = answer
    made, heard = bench(), Heard()
    deploy(made.wish, made.tools, heard)
    assert any(line.startswith("quotas: ") and said in line for line in heard.lines)
