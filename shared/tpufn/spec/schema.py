"""JSON Schemas (2020-12) of the two files and the three messages, for editors and for other services."""

from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from tpufn.domain.errors import InputError
from tpufn.spec.fleet_model import DeploymentKeys
from tpufn.spec.job_model import JobFile
from tpufn.spec.messages import CommandMessage, EventMessage
from tpufn.spec.problems import did_you_mean
from tpufn.spec.reference import reference
from tpufn.spec.submission import Submission

__all__ = ["KINDS", "json_schema", "reference"]


class JobsFile(BaseModel):
    """A job file: its jobs are submitted together, or not at all."""

    model_config = ConfigDict(extra="forbid")

    jobs: tuple[JobFile, ...] = Field(description="The jobs.", min_length=1)


_MODELS: dict[str, type[BaseModel]] = {
    "submission": Submission,
    "command": CommandMessage,
    "event": EventMessage,
    "job": JobsFile,
    "deployment": DeploymentKeys,
}

KINDS = tuple(_MODELS)


def json_schema(kind: str) -> dict[str, Any]:
    """The schema of one of KINDS. Raises InputError for anything else."""
    model = _MODELS.get(kind)
    if model is None:
        near = did_you_mean(kind, KINDS) or f"; there are {', '.join(KINDS)}"
        raise InputError(f"there is no schema {kind!r}{near}")
    schema = _with_values(model.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": f"tpufn {kind}"}


def _with_values(schema: Any) -> Any:
    """The same schema with its examples, which the models give as YAML text, as values."""
    if isinstance(schema, list):
        return [_with_values(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shown = {key: _with_values(value) for key, value in schema.items() if key != "examples"}
    examples = schema.get("examples", [])
    if isinstance(examples, dict):  # a property of that name
        return {**shown, "examples": _with_values(examples)}
    values = [yaml.safe_load(example) for example in examples if example != "[...]"]
    return {**shown, "examples": values} if values else shown
