"""What operators do: the fleet, the ticks, the dead letters, and what is said of versions that do not fit."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tpufn.domain.errors import CloudUnavailable
from tpufn.domain.views import DeadLetter

LETTERS = (
    DeadLetter(id="81", topic="submissions", function="submit", problem="no JSON object", at=1.0, body="{\x1b[2J oops"),
    DeadLetter(id="82", topic="", problem="by hand", at=2.0, body="x" * 100),
)


@pytest.mark.parametrize("verb", ["tick", "pause", "resume"])
def test_ticks(tpufn: Callable[..., Any], client: Any, verb: str) -> None:
    """One word each; the answer says what that means."""
    ran = tpufn(verb)
    assert (ran.code, ran.out, client.asked) == (0, f"{verb}: done\n", [(verb,)])


def test_without_permission_exit_5_names_the_command_that_mends_it(tpufn: Callable[..., Any], client: Any) -> None:
    """A person reads the fix, and no traceback."""
    client.refusal = CloudUnavailable("the tick x: denied; gcloud projects add-iam-policy-binding p --member user:YOU")
    ran = tpufn("pause")
    assert (ran.code, ran.out) == (5, "")
    assert "error: the tick x: denied; gcloud projects add-iam-policy-binding p" in ran.err


def test_fleet_apply(tpufn: Callable[..., Any], client: Any, doors: Any) -> None:
    """The file that is named chooses the deployment, too; -d wins."""
    ran = tpufn("fleet", "apply", "lab.yaml")
    assert (ran.code, client.asked, doors.options[0].deployment) == (0, [("apply", "lab.yaml")], "lab.yaml")
    assert "revision 7" in ran.out
    tpufn("fleet", "apply", "lab.yaml", "-d", "other.yaml")
    assert doors.options[1].deployment == "other.yaml"


def test_fleet_apply_as_json(tpufn: Callable[..., Any]) -> None:
    """The fleet as it is declared now."""
    assert json.loads(tpufn("fleet", "apply", "--json").out)["revision"] == 7


def test_dead_letters_list(tpufn: Callable[..., Any], client: Any) -> None:
    """Whoever reads them does not get their control characters into the terminal."""
    client.letters = LETTERS
    ran = tpufn("dead-letters", "list")
    assert ran.code == 0
    assert "no JSON object" in ran.out
    assert "\x1b" not in ran.out
    assert [each["id"] for each in json.loads(tpufn("dead-letters", "list", "--json").out)] == ["81", "82"]


def test_no_dead_letters(tpufn: Callable[..., Any]) -> None:
    """Said on stderr: a script counts the lines of stdout."""
    ran = tpufn("dead-letters", "list")
    assert (ran.code, ran.out, "no dead letters" in ran.err) == (0, "", True)


def test_dead_letters_replay(tpufn: Callable[..., Any], client: Any) -> None:
    """By id, or all of them: never by accident."""
    client.letters = LETTERS
    assert tpufn("dead-letters", "replay", "81").out == "81: sent again to submissions\n"
    assert len(json.loads(tpufn("dead-letters", "replay", "--all", "--json").out)) == 2
    assert tpufn("dead-letters", "replay").code == 2
    assert tpufn("dead-letters", "replay", "81", "--all").code == 2


def test_versions_that_do_not_fit_are_said_first(tpufn: Callable[..., Any], client: Any) -> None:
    """With every command that people read; JSON stays clean."""
    client.advised = ("the deployed functions are tpufn 0.2.0, this command line is 0.1.0",)
    assert "note: the deployed functions are tpufn 0.2.0" in tpufn("jobs").err
    assert "note" not in tpufn("jobs", "--json").err


@pytest.mark.parametrize(
    ("engine", "said"), [("paused", "`tpufn resume`"), ("late", "`tpufn tick`"), ("unknown", "not yours to see")]
)
def test_status_says_how_the_ticks_stand(tpufn: Callable[..., Any], client: Any, engine: str, said: str) -> None:
    """Paused and forgotten is the worst of it."""
    client.status_value = replace(client.status_value, mode="cloud", engine=engine, dead_letters=-1)
    out = tpufn("status").out
    assert said in out
    assert "dead letters" in out
