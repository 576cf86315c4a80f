"""A pydantic model against a source: its errors as problems with line, key, cause and fix, all of them at once."""

from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from tpufn.spec.problems import MAX_PROBLEMS, Faults, Loc, Report, did_you_mean
from tpufn.spec.scalar import Scalar
from tpufn.spec.scalars import kind_of


class Keys(BaseModel):
    """A mapping with fixed keys. Every field has a description, and required ones an example: both are shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    empty_is_absent: ClassVar[frozenset[str]] = frozenset()
    """Keys for which a missing value means the same as a missing key."""

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {k: v for k, v in data.items() if k not in cls.empty_is_absent or not _is_null(v)}


M = TypeVar("M", bound=Keys)


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, Scalar) and value.kind == "null")


def check(model: type[M], data: object, report: Report, at: Loc = ()) -> M | None:
    """The validated model. What is wrong goes to the report; the model is then made of the keys that are left, so that
    rules between them can still be checked. None where too little is left."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        every = error.errors(include_url=False)
    found = [problem for details in every[: MAX_PROBLEMS + 1] for problem in _problems(model, details)]
    for loc, text in found:
        report.add((*at, *loc), text)
    return _without(model, data, {str(loc[0]) for loc, _ in found if loc})


def _without(model: type[M], data: object, wrong: set[str]) -> M | None:
    if not isinstance(data, dict) or not wrong:
        return None
    try:
        return model.model_validate({key: value for key, value in data.items() if key not in wrong})
    except ValidationError:
        return None


def _problems(model: type[Keys], details: ErrorDetails) -> Iterator[tuple[Loc, str]]:
    loc = tuple(part for part in details["loc"] if part != "[key]")
    cause = details.get("ctx", {}).get("error")
    match details["type"]:
        case "value_error" if isinstance(cause, Faults):
            yield from (((*loc, *below), text) for below, text in cause.faults)
        case "value_error":
            yield loc, str(cause)
        case "extra_forbidden":
            yield loc, f"unknown key{_near_key(model, loc)}"
        case "missing":
            yield loc, f"is missing{_example(model, loc)}"
        case "tuple_type" | "list_type":
            yield loc, f"must be a list, not {kind_of(details['input'])}; write one `- ` item a line"
        case "dict_type" | "model_type" | "model_attributes_type":
            yield loc, f"must be a mapping of keys to values, not {kind_of(details['input'])}"
        case _:
            yield loc, details["msg"]


def _near_key(model: type[Keys], loc: Loc) -> str:
    owner = owner_of(model, loc)
    keys = list(owner.model_fields) if owner else []
    return did_you_mean(str(loc[-1]), keys) or f"; the keys here are {', '.join(keys)}"


def _example(model: type[Keys], loc: Loc) -> str:
    owner = owner_of(model, loc)
    field = owner.model_fields.get(str(loc[-1])) if owner else None
    return f"; write, for example, `{loc[-1]}: {field.examples[0]}`" if field and field.examples else "; write it"


def owner_of(model: type[Keys], loc: Loc) -> type[Keys] | None:
    """The model that the last key of `loc` belongs to."""
    owner: type[Keys] | None = model
    for part in loc[:-1]:
        if isinstance(part, str) and owner:
            field = owner.model_fields.get(part)
            owner = inner_model(field.annotation) if field else None
    return owner


def inner_model(annotation: Any) -> type[Keys] | None:
    """The model inside an annotation: of `Retries | None`, `tuple[Cache, ...]` or the model itself."""
    if isinstance(annotation, type) and not get_origin(annotation):
        return annotation if issubclass(annotation, Keys) else None
    return next((found for arg in get_args(annotation) if (found := inner_model(arg))), None)
