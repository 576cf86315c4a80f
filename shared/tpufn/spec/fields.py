"""The pydantic types of the single values: a validator of `scalars`, the way back to JSON, and the schema."""

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from tpufn.domain.job import Priority
from tpufn.spec import scalars


def _plain(kind: str, **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": kind, **more})


MODELS = ("spot", "on-demand", "reserved")
MODES = ("laptop", "cloud")
TRANSPORTS = ("direct", "iap")

_DURATION_SCHEMA = _plain("string", pattern=f"^{scalars.DURATION.pattern}$")

Text = Annotated[str, BeforeValidator(scalars.text), _plain("string")]
Word = Annotated[str, BeforeValidator(scalars.word), _plain("string", minLength=1)]
Flag = Annotated[bool, BeforeValidator(scalars.flag), _plain("boolean")]
Count = Annotated[int, BeforeValidator(scalars.count), _plain("integer", minimum=0)]
Positive = Annotated[int, BeforeValidator(scalars.positive), _plain("integer", minimum=1)]
Duration = Annotated[float, BeforeValidator(scalars.seconds), PlainSerializer(scalars.duration_text), _DURATION_SCHEMA]
BucketUri = Annotated[str, BeforeValidator(scalars.bucket), _plain("string", pattern="^gs://[^/]+/?$")]
Zone = Annotated[str, BeforeValidator(scalars.zone), _plain("string", examples=["us-central2-b"])]
Region = Annotated[str, BeforeValidator(scalars.region), _plain("string", examples=["us-central2"])]
DeploymentName = Annotated[
    str,
    BeforeValidator(scalars.deployment_name),
    _plain("string", pattern=f"^{scalars.SLUG.pattern}$", maxLength=scalars.NAME_LENGTH),
]
JobId = Annotated[str, BeforeValidator(scalars.job_id), _plain("string", pattern=f"^{scalars.JOB_ID.pattern}$")]
SecretName = Annotated[
    str, BeforeValidator(scalars.secret_name), _plain("string", pattern=f"^{scalars.SECRET.pattern}$")
]
SecretReference = Annotated[
    str, BeforeValidator(scalars.secret_reference), _plain("string", pattern=f"^{scalars.SECRET_REFERENCE.pattern}$")
]
PriorityName = Annotated[
    Priority,
    BeforeValidator(scalars.priority),
    PlainSerializer(lambda value: value.label),
    _plain("string", enum=["low", "normal", "high"]),
]
ModelName = Annotated[str, BeforeValidator(scalars.one_of(*MODELS)), _plain("string", enum=[*MODELS])]
ModeName = Annotated[str, BeforeValidator(scalars.one_of(*MODES)), _plain("string", enum=[*MODES])]
TransportName = Annotated[str, BeforeValidator(scalars.one_of(*TRANSPORTS)), _plain("string", enum=[*TRANSPORTS])]
