"""schema.json, as it is and in the protocol's words."""

import json
from pathlib import Path
from typing import Any

from messages import MESSAGES

_NESTING = {"single": 1, "list": 2, "set": 3}

SCHEMA: dict[str, Any] = json.loads((Path(__file__).parent.parent / "schema.json").read_text())


def answer() -> Any:
    """Everything, for the call with which Terraform begins."""
    whole = MESSAGES["SchemaAnswer"]()
    whole.provider.block.CopyFrom(_block(SCHEMA["provider"]))
    for kind, target in (("resources", whole.resource_schemas), ("data", whole.data_source_schemas)):
        for name, block in SCHEMA[kind].items():
            target.add(key=name).value.block.CopyFrom(_block(block))
    return whole


def _block(block: dict[str, Any]) -> Any:
    told = MESSAGES["Block"]()
    for name, attribute in sorted(block["attributes"].items()):
        flags = {flag: attribute.get(flag, False) for flag in ("required", "optional", "computed")}
        if flags["required"]:  # a required argument that the provider could fill in is a contradiction to Terraform
            flags["computed"] = False
        told.attributes.add(name=name, type=json.dumps(attribute["type"]).encode(), **flags)
    for name, nested in sorted(block.get("blocks", {}).items()):
        told.block_types.add(
            type_name=name,
            nesting=_NESTING[nested["nesting"]],
            min_items=nested.get("min", 0),
            max_items=nested.get("max", 0),
            block=_block(nested["block"]),
        )
    return told
