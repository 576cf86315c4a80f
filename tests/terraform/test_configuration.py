"""The configuration itself: its form, its validity, its own tests, and that the schema it is held against is right."""

import json
import re

import pytest

from .harness import FUNCTIONS, HERE, SOURCE, VERSION, TerraformError, Workspace
from .provider import extract

SCHEMA = json.loads((HERE / "schema.json").read_text())


def test_formatted(shared_workspace: Workspace) -> None:
    """`terraform fmt` has nothing to change; the copy has one more file, which is formatted, too."""
    shared_workspace.run("fmt", "-check", "-recursive", "-diff", str(SOURCE))


def test_valid(shared_workspace: Workspace) -> None:
    """Every argument, block and reference is one that the provider knows."""
    assert "Success" in shared_workspace.run("validate", "-no-color")


def test_own_tests(shared_workspace: Workspace) -> None:
    """`terraform test` passes: plans and an apply on a mocked provider."""
    assert "Success!" in shared_workspace.run("test", "-no-color")


def test_schema_is_of_the_version_that_is_asked_for() -> None:
    """Looser than `~>` of the very version would promise more than was checked."""
    pinned = re.search(r'version = "~> ([\d.]+)"', (SOURCE / "versions.tf").read_text())
    assert pinned
    assert VERSION.startswith(f"{pinned[1]}.")


def test_schema_is_of_what_is_used() -> None:
    """Neither less nor more; `provider/extract.py` makes it anew."""
    resources, data = extract.used(SOURCE)
    assert (set(SCHEMA["resources"]), set(SCHEMA["data"])) == (resources, data)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("timeout_seconds ", "timeout_secs ", "timeout_secs"),
        ("  location    = var.region\n", "", "location"),
        ('"ALLOW_INTERNAL_ONLY"', '"ALLOW_INTERNAL"', "ALLOW_INTERNAL_ONLY, ALLOW_INTERNAL_AND_GCLB"),
        ("service_config[0].uri", "service_config[0].url", "url"),
        ('event_filters {\n        attribute = "database"', 'filters {\n        attribute = "database"', "filters"),
    ],
    ids=["an unknown argument", "a missing one", "a wrong value", "an unknown attribute", "an unknown block"],
)
def test_stand_in_refuses(own_workspace: Workspace, old: str, new: str, told: str) -> None:
    """The stand-in is worth something only if it refuses what the real provider would."""
    own_workspace.edit("modules/function/main.tf", old, new)
    with pytest.raises(TerraformError, match=told):
        own_workspace.run("validate", "-no-color")


def test_example_names_every_function() -> None:
    """The example of variables is one that could be applied."""
    text = (SOURCE / "terraform.tfvars.example").read_text()
    assert re.findall(r'^  (\w+) += "\.\./build/\1\.zip"', text, re.M) == list(FUNCTIONS)


def test_readme_names_what_there_is() -> None:
    """Files and variables that the README names exist."""
    text = (SOURCE / "README.md").read_text()
    variables = set(re.findall(r'^variable "(\w+)"', (SOURCE / "variables.tf").read_text(), re.M))
    for file in re.findall(r"^\| `([\w.]+\.tf)` \|", text, re.M):
        assert (SOURCE / file).exists(), file
    assert {path.name for path in SOURCE.glob("*.tf")} - set(re.findall(r"`([\w.]+\.tf)`", text)) <= {
        "outputs.tf",
        "variables.tf",
        "versions.tf",
    }
    for name in re.findall(r"`(\w+) = ", text):
        assert name in variables, name
