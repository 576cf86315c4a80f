"""The values that only jobs have: TPU types, commands, bundles, caches, retry budgets, labels."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from tpufn.domain.accelerators import accelerator, api_type
from tpufn.spec.environment import check_env, env_name
from tpufn.spec.fields import Text
from tpufn.spec.problems import Loc, raise_faults, shown
from tpufn.spec.scalars import as_list, count, text, word

MAX_COMMAND = 128 * 1024 - 1
MAX_LABELS = 64
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")
_GS_OBJECT = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]/\S+")


def tpu_types(value: object) -> tuple[str, ...]:
    """API type names, each once, or ("any",)."""
    given = as_list(value)
    if not isinstance(given, list | tuple) or not given:
        raise ValueError("must name one TPU type, a list of types, or `any`")
    types: dict[str, None] = {}
    faults: list[tuple[Loc, str]] = []
    for index, item in enumerate(given):
        try:
            types[_tpu_type(item)] = None
        except ValueError as error:
            faults.append(((index,) if isinstance(value, list | tuple) else (), str(error)))
    raise_faults(faults)
    if "any" in types and len(types) > 1:
        raise ValueError("`any` stands alone; write `tpu: any`, or the types")
    return tuple(types)


def _tpu_type(value: object) -> str:
    name = api_type(word(value))
    return name if name == "any" else accelerator(name).type


def command_text(value: object) -> str:
    found = text(value)
    if not found.strip():
        raise ValueError("is empty; write what each worker is to run")
    if len(found.encode()) > MAX_COMMAND:
        raise ValueError("is over 128 KiB, more than a shell takes; put it into a script in the bundle")
    return found


def bundle_source(value: object) -> str:
    """A path, or the `gs://bucket/object` of an archive."""
    found = word(value)
    if found.startswith("gs://") and not _GS_OBJECT.fullmatch(found):
        raise ValueError(f"must name an object: gs://BUCKET/PATH/NAME.tar.gz, not {shown(found)!r}")
    return found


def display_name(value: object) -> str:
    found = text(value).strip()
    if len(found) > 100 or not found.isprintable():
        raise ValueError("must be one line of at most 100 characters")
    return found


def cache_key(value: object) -> str:
    found = text(value)
    if not found or "/" in found or found in {".", ".."} or not found.isprintable() or len(found) > 100:
        raise ValueError("must be one path component of at most 100 characters, such as `pip`")
    return found


def cache_path(value: object) -> str:
    """A relative path below JOB_DIR, in its normal form."""
    found = PurePosixPath(text(value))
    if found.is_absolute() or ".." in found.parts or not found.parts:
        raise ValueError("must be a directory inside JOB_DIR: relative, without `..`, such as `.cache/pip`")
    return str(found)


def infrastructure_limit(value: object) -> int:
    found = count(value)
    if found > 1000:
        raise ValueError("must be at most 1000")
    return found


def preemption_limit(value: object) -> int | None:
    """None for `unlimited`."""
    if isinstance(value, str) and value.strip().lower() == "unlimited":
        return None
    try:
        return count(value)
    except ValueError:
        raise ValueError(f"must be `unlimited` or a whole number, not {shown(value)!r}") from None


def exit_code(value: object) -> int:
    found = count(value)
    if not 1 <= found <= 255:
        raise ValueError("must be an exit code from 1 to 255; 0 is success")
    return found


def check_labels(value: object) -> object:
    if not isinstance(value, dict):
        return value
    faults: list[tuple[Loc, str]] = []
    for name, given in value.items():
        try:
            if not _LABEL.fullmatch(str(name)):
                raise ValueError("is not a label's name; use up to 63 letters, digits, `.`, `_`, `/` and `-`")
            if len(text(given).encode()) > 256:
                raise ValueError("is over 256 bytes; labels are for short marks")
        except ValueError as error:
            faults.append(((str(name),), str(error)))
    if len(value) > MAX_LABELS:
        faults.append(((), f"has {len(value)} labels; at most {MAX_LABELS} are kept"))
    raise_faults(faults)
    return value


def _dump_types(value: tuple[str, ...]) -> str | list[str]:
    return value[0] if len(value) == 1 else list(value)


_STRING: dict[str, Any] = {"type": "string"}
_TYPES_SCHEMA = {"anyOf": [_STRING, {"type": "array", "items": _STRING, "minItems": 1}]}
_ENV_SCHEMA = {"type": "object", "additionalProperties": {"anyOf": [_STRING, {"type": "number"}]}}
_PREEMPTION_SCHEMA = {"anyOf": [{"const": "unlimited"}, {"type": "integer", "minimum": 0}]}

TpuTypes = Annotated[
    tuple[str, ...], BeforeValidator(tpu_types), PlainSerializer(_dump_types), WithJsonSchema(_TYPES_SCHEMA)
]
Command = Annotated[str, BeforeValidator(command_text), WithJsonSchema(_STRING)]
BundleSource = Annotated[str, BeforeValidator(bundle_source), WithJsonSchema(_STRING)]
DisplayName = Annotated[str, BeforeValidator(display_name), WithJsonSchema({"type": "string", "maxLength": 100})]
EnvName = Annotated[str, BeforeValidator(env_name)]
Env = Annotated[dict[str, str], BeforeValidator(check_env), WithJsonSchema(_ENV_SCHEMA)]
Labels = Annotated[dict[str, Text], BeforeValidator(check_labels)]
PreemptionLimit = Annotated[
    int | None,
    BeforeValidator(preemption_limit),
    PlainSerializer(lambda value: "unlimited" if value is None else value),
    WithJsonSchema(_PREEMPTION_SCHEMA),
]
InfrastructureLimit = Annotated[
    int, BeforeValidator(infrastructure_limit), WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 1000})
]
ExitCode = Annotated[int, BeforeValidator(exit_code), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 255})]
CacheKey = Annotated[str, BeforeValidator(cache_key), WithJsonSchema(_STRING)]
CachePath = Annotated[str, BeforeValidator(cache_path), WithJsonSchema(_STRING)]
