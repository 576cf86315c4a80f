"""The written reference of every key and variable, made from the models so that it cannot be wrong about them."""

from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from tpufn.spec.checked import Keys, inner_model
from tpufn.spec.environment import PROVIDED
from tpufn.spec.fleet_model import UNUSED, DeploymentKeys
from tpufn.spec.job_model import JobFile
from tpufn.spec.tree import ALWAYS_SKIPPED, IGNORE_FILES

EXIT_CODES = {
    0: "Success; for `run` and `submit --wait`: every job succeeded.",
    1: "A job failed.",
    2: "The input is wrong; every problem is on standard error.",
    3: "There is no such job, slot or attempt.",
    4: "It exists already, or has changed meanwhile.",
    5: "The cloud is unreachable, or refuses.",
    70: "A defect in tpufn: please report it.",
    74: "The output, or a file of tpufn's own on this machine, cannot be written or read.",
    129: "The terminal was closed (SIGHUP).",
    130: "Interrupted with Ctrl-C.",
    141: "Nobody reads the output any more (`| head`).",
    143: "Ended from outside (SIGTERM).",
}


def reference() -> str:
    """The guide `reference.md`, as Markdown."""
    return "\n".join([*_head(), *_deployment(), *_job(), *_variables(), *_ignoring(), *_exits()]) + "\n"


def _head() -> Iterator[str]:
    yield "# Reference"
    yield ""
    yield "Every key of `deployment.yaml` and `job.yaml`, every variable that a job sees, every exit code."
    yield "`tpufn validate-fleet` and `tpufn validate-jobs` check the files without asking any cloud."
    yield ""
    yield "Durations are a number with `s`, `m`, `h` or `d`. Text that YAML would change (`yes`, `1e3`, `0123`, dates)"
    yield "needs quotes. Plain numbers are kept as they stand."
    yield ""


def _deployment() -> Iterator[str]:
    yield from _table("deployment.yaml", DeploymentKeys, skip=UNUSED)
    yield "tpu-runner's " + ", ".join(f"`{key}`" for key in UNUSED) + " are accepted and not used."
    yield ""
    yield from _table("deployment.yaml: each entry of `tpus`", _inner(DeploymentKeys, "tpus"))


def _job() -> Iterator[str]:
    yield "## job.yaml"
    yield ""
    yield "The file holds one key, `jobs`: a list. All of its jobs are submitted, or none."
    yield ""
    yield from _table("job.yaml: each entry of `jobs`", JobFile)
    yield from _table("job.yaml: each entry of `caches`", _inner(JobFile, "caches"))
    retries = _inner(JobFile, "retries")
    yield from _table("job.yaml: `retries`", retries)
    yield from _table("job.yaml: `retries.application`", _inner(retries, "application"))


def _variables() -> Iterator[str]:
    yield "## What the command sees"
    yield ""
    yield "The login environment, the job's `env` and `secrets`, JAX_PLATFORMS on a TPU (a job may set it), and"
    yield "these, which a job may not set. TPU_WORKER_ID and TPU_WORKER_HOSTNAMES are left to the TPU's own image."
    yield ""
    yield "| variable | meaning |"
    yield "|---|---|"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in PROVIDED.items())
    yield ""


def _ignoring() -> Iterator[str]:
    first, *others = (f"`{name}`" for name in IGNORE_FILES)
    yield "## What a bundle leaves out"
    yield ""
    yield f"What {first} lists, else {', else '.join(others)}, by git's rules, there and in the directories below."
    yield "Always: " + ", ".join(f"`{name}`" for name in sorted(ALWAYS_SKIPPED)) + "."
    yield ""


def _exits() -> Iterator[str]:
    yield "## Exit codes"
    yield ""
    yield "| code | meaning |"
    yield "|---|---|"
    yield from (f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())


def _inner(model: type[Keys], key: str) -> type[Keys]:
    found = inner_model(model.model_fields[key].annotation)
    assert found is not None, f"{key} holds no mapping"
    return found


def _table(title: str, model: type[Keys], skip: tuple[str, ...] = ()) -> Iterator[str]:
    properties: dict[str, Any] = model.model_json_schema()["properties"]
    defaults = model.model_construct().model_dump(mode="json", warnings=False)
    yield f"## {title}"
    yield ""
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    for key, field in model.model_fields.items():
        if key not in skip:
            example = f" Example: `{field.examples[0]}`." if field.examples and field.examples[0] != "[...]" else ""
            meaning = f"{field.description}{example}".replace("|", "\\|")
            yield f"| `{key}` | {_type(properties[key])} | {_default(field, defaults.get(key))} | {meaning} |"
    yield ""


def _default(field: FieldInfo, value: object) -> str:
    if field.is_required():
        return "required"
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case int() | float():
            return f"`{value:g}`"
        case str() if value:
            return f"`{value}`"
        case _:
            return ""


def _type(schema: dict[str, Any]) -> str:
    """A property's schema in a few words."""
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    if options:
        return " or ".join(dict.fromkeys(_type(option) for option in options))
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        return "mapping"
    return _words(schema)


def _words(schema: dict[str, Any]) -> str:
    match schema.get("type"):
        case "array":
            return "list"
        case "object":
            return "mapping"
        case "string":
            return "duration" if "(s|m|h|d)" in schema.get("pattern", "") else "text"
        case "boolean":
            return "true or false"
        case _:
            return "number"


if __name__ == "__main__":
    print(reference(), end="")
