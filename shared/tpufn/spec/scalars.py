"""The single values of the files: what each accepts, what it says otherwise, and how it is written in JSON.

Validators take what `yaml_source` hands over (text, or a `Scalar` that YAML would change) as well as plain JSON.
"""

import re
from collections.abc import Callable

from tpufn.domain.accelerators import FAMILIES, region_of
from tpufn.domain.job import Priority
from tpufn.spec.problems import did_you_mean, shown
from tpufn.spec.scalar import Scalar

_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h|d)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SECRET = re.compile(r"[A-Za-z0-9_-]{1,255}")
SECRET_REFERENCE = re.compile(r"([A-Za-z0-9_-]{1,255})(@(latest|[1-9][0-9]*))?")
_TRUE, _FALSE = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})


def text(value: object) -> str:
    """Text, or a plain number with the very digits of the file."""
    if isinstance(value, str):
        return _storable(value)
    if isinstance(value, Scalar):
        if value.kind == "a number" and _PLAIN_NUMBER.fullmatch(value.text):
            return value.text
        if not value.text:
            raise ValueError('has no value; write "" for an empty one, or drop the key')
        raise ValueError(f'YAML reads {value.text} as {value.kind}; write "{value.text}"')
    raise ValueError(f"must be text, not {kind_of(value)}{_quoted(value)}")


def _storable(value: str) -> str:
    if "\0" in value:
        raise ValueError("holds a NUL character, which no program can be given; remove it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is not a character; remove it") from None
    return value


def kind_of(value: object) -> str:
    """What a value is, in the words of the file's author."""
    match value:
        case None:
            return "null"
        case Scalar():
            return value.kind
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return type(value).__name__


def _quoted(value: object) -> str:
    if value is None:
        return '; write ""'
    if isinstance(value, bool):
        return f'; write "{str(value).lower()}"'
    return f'; write "{value}"' if isinstance(value, int | float) else ""


def word(value: object) -> str:
    """Text that is not empty, without blanks around it."""
    found = text(value).strip()
    if not found:
        raise ValueError("is empty; write a value or drop the key")
    return found


def flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Scalar) and value.text.lower() in _TRUE | _FALSE:
        return value.text.lower() in _TRUE
    raise ValueError("must be true or false")


def count(value: object) -> int:
    """A whole number, 0 or more."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    digits = value.text if isinstance(value, Scalar) else value
    if isinstance(digits, str) and re.fullmatch(r"0|[1-9][0-9]{0,11}", digits.strip()):
        return int(digits)
    raise ValueError(f"must be a whole number, 0 or more, not {shown(value)!r}")


def positive(value: object) -> int:
    found = count(value)
    if found == 0:
        raise ValueError("must be 1 or more; drop the key for no limit")
    return found


def seconds(value: object) -> float:
    """A duration with its unit: `90s`, `15m`, `12h`, `2d`."""
    written = str(value).strip() if isinstance(value, str | Scalar) else ""
    match = DURATION.fullmatch(written)
    if match is None:
        number = re.fullmatch(r"[0-9]+", shown(value))
        fix = f"write {shown(value)}s" if number else "write a number and s, m, h or d, such as 90s, 15m, 12h or 2d"
        raise ValueError(f"is not a duration: {shown(value)!r}; {fix}")
    found = round(float(match[1]) * _UNITS[match[2]], 6)
    if not 0 < found <= 366 * 86400:
        raise ValueError("must be longer than 0 and at most 366d")
    return found


def duration_text(value: float | None) -> str | None:
    """The shortest exact way to write a duration: 5400.0 is `90m`."""
    if value is None:
        return None
    unit, size = next(((u, s) for u, s in reversed(_UNITS.items()) if value % s == 0), ("s", 1))
    number = value / size
    return f"{int(number)}{unit}" if number == int(number) else f"{number:.6f}".rstrip("0") + unit


def bucket(value: object) -> str:
    """`gs://name`; the normal form has no trailing slash."""
    found = word(value).rstrip("/")
    name = found.removeprefix("gs://")
    if found == name:
        raise ValueError(f"is not a bucket: {shown(found)!r}; write gs://{shown(name.split('/')[0])}")
    if "/" in name:
        raise ValueError(f"must name a bucket without a path; write gs://{shown(name.split('/')[0])}")
    if not _BUCKET.fullmatch(name):
        raise ValueError(f"is not a bucket name: {shown(name)!r}; use 3 or more of a-z, 0-9, `-`, `_` and `.`")
    return found


def zone(value: object) -> str:
    if isinstance(value, list | tuple):
        raise ValueError("must be a single zone, not a list")
    found = word(value)
    try:
        region_of(found)
    except ValueError:
        known = {z for family in FAMILIES.values() for z in family.zones}
        near = did_you_mean(found, sorted(known)) or "; zones look like us-central2-b"
        raise ValueError(f"is not a zone: {shown(found)!r}{near}") from None
    return found


def region(value: object) -> str:
    found = word(value)
    if not is_region(found):
        raise ValueError(f"is not a region: {shown(found)!r}; regions look like us-central2")
    return found


def is_region(name: str) -> bool:
    """Whether this names one region, as a bucket or a pool has it (and not `us` or `eur4`)."""
    try:
        return region_of(f"{name}-a") == name
    except ValueError:
        return False


def slug(value: object) -> str:
    found = word(value)
    if not SLUG.fullmatch(found):
        fix = slugified(found)
        raise ValueError(f"must be lowercase letters, digits and single hyphens{f'; write {fix}' if fix else ''}")
    return found


NAME_LENGTH = 26
"""The longest name of a deployment: 49 characters for the service behind `tpufn-NAME-capacity-race`, and 63 for the
bucket `PROJECT-tpufn-NAME` (terraform/variables.tf)."""


def deployment_name(value: object) -> str:
    found = slug(value)
    if len(found) > NAME_LENGTH:
        raise ValueError(f"has {len(found)} characters; take at most {NAME_LENGTH}: it is part of every cloud name")
    return found


def slugified(name: str) -> str:
    """The nearest slug: `My Run_2` is `my-run-2`. Empty when nothing of it can stay."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def job_id(value: object) -> str:
    found = text(value)
    if not JOB_ID.fullmatch(found):
        raise ValueError("must begin with a letter or digit and have up to 100 of A-Z, a-z, 0-9, `.`, `_` and `-`")
    return found


def secret_name(value: object) -> str:
    found = word(value)
    if not SECRET.fullmatch(found):
        raise ValueError(f"is not a secret's name: {shown(found)!r}; use A-Z, a-z, 0-9, `_` and `-`")
    return found


def secret_reference(value: object) -> str:
    found = word(value)
    if not SECRET_REFERENCE.fullmatch(found):
        raise ValueError(f"is not a secret: {shown(found)!r}; write NAME or NAME@VERSION, the version a number")
    return found


def one_of(*options: str) -> Callable[[object], str]:
    """A validator for one of a few words, in any case."""

    def validate(value: object) -> str:
        found = value.text if isinstance(value, Scalar) else value
        low = found.strip().lower() if isinstance(found, str) else ""
        if low in options:
            return low
        near = did_you_mean(low, options) or f"; write one of {', '.join(options)}"
        raise ValueError(f"must be one of {', '.join(options)}, not {shown(found)!r}{near}")

    return validate


def priority(value: object) -> Priority:
    if isinstance(value, Priority):
        return value
    return Priority[one_of("low", "normal", "high")(value).upper()]


def as_list(value: object) -> object:
    """A single text stands for a list of one."""
    return [value] if isinstance(value, str | Scalar) else value
