"""What the stand-in refuses, and what its plans say. Values are Terraform's, decoded from MessagePack.

The real provider knows few of the attributes that it sets before it made the thing. Most of them follow from its name,
though, and a plan that holds them can be read line by line: who gets which role, what pushes where. So the stand-in
fills those in (`_KNOWN`), unless it is told to know nothing, which is how a plan has to work on a first apply.
"""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

Value = Any
Block = dict[str, Any]

UNKNOWN = msgspec.msgpack.Ext(0, b"\x00")
"""How Terraform writes a value that is not known yet."""

STRICT = os.environ.get("TPUFN_STUB_KNOWS", "names") == "nothing"

PROJECT_NUMBER = "123456789012"

_ACCOUNT = "{account_id}@{project}.iam.gserviceaccount.com"
_RUN = "projects/{project}/locations/{location}/services/{name}"
_KNOWN: dict[str, dict[str, str]] = {
    "google_service_account": {
        "email": _ACCOUNT,
        "member": f"serviceAccount:{_ACCOUNT}",
        "name": f"projects/{{project}}/serviceAccounts/{_ACCOUNT}",
    },
    "google_pubsub_topic": {"id": "projects/{project}/topics/{name}"},
    "google_pubsub_subscription": {"id": "projects/{project}/subscriptions/{name}"},
    "google_project_iam_custom_role": {"name": "projects/{project}/roles/{role_id}"},
    "google_artifact_registry_repository": {
        "id": "projects/{project}/locations/{location}/repositories/{repository_id}"
    },
    "google_cloudfunctions2_function": {
        "service_config.service": _RUN,
        "service_config.uri": "https://{name}-abcdefghij-uc.a.run.app",
    },
    "google_compute_network": {"id": "projects/{project}/global/networks/{name}"},
}


def faults(block: Block, config: Value, path: str) -> Iterator[str]:
    """What the schema forbids and Terraform itself does not check: values out of an enumeration, computed ones set."""
    if not isinstance(config, dict):
        return
    for name, attribute in block["attributes"].items():
        value = config.get(name)
        if value is None or isinstance(value, msgspec.msgpack.Ext):
            continue
        if not attribute.get("optional") and not attribute.get("required"):
            yield f"{path}{name} is set by the provider alone"
        if attribute.get("values") and value not in attribute["values"]:
            yield f"{path}{name} is {value!r}, expected one of {', '.join(attribute['values'])}"
    for name, nested in block.get("blocks", {}).items():
        for each in _each(config.get(name)):
            yield from faults(nested["block"], each, f"{path}{name}.")


def planned(type_name: str, block: Block, proposed: Value, config: Value) -> Value:
    """The proposed state with everything marked unknown that only the provider can say; None for a deletion."""
    if proposed is None:
        return None
    _mark(block, proposed, config)
    for path, template in {} if STRICT else _KNOWN.get(type_name, {}).items():
        *blocks, name = path.split(".")
        for target in _inside(proposed, blocks):
            target[name] = template.format_map(proposed)
    return proposed


def data(block: Block, config: Value) -> Value:
    """What a data source finds: a project with a number, and nothing else of interest."""
    found = dict(config)
    for name, attribute in block["attributes"].items():
        if found.get(name) is None and attribute.get("computed"):
            found[name] = PROJECT_NUMBER if name == "number" else "" if attribute["type"] == "string" else None
    return found


def _mark(block: Block, proposed: Value, config: Value) -> None:
    if not isinstance(proposed, dict):
        return
    given = config if isinstance(config, dict) else {}
    for name, attribute in block["attributes"].items():
        if attribute.get("computed") and given.get(name) is None and proposed.get(name) is None:
            proposed[name] = UNKNOWN
    for name, nested in block.get("blocks", {}).items():
        if nested["nesting"] == "list":  # what is in a set is told apart by its values: nothing may change in it
            for index, each in enumerate(_each(proposed.get(name))):
                inner = _each(given.get(name))
                _mark(nested["block"], each, inner[index] if index < len(inner) else None)


def _inside(value: Value, blocks: list[str]) -> list[Value]:
    """The values of a nested block, of which there may be none."""
    found = [value]
    for name in blocks:
        found = [inner for each in found for inner in _each(each.get(name))]
    return found


def _each(value: Value) -> list[Value]:
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, dict) else []
