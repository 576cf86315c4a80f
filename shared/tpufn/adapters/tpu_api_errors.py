"""The client's errors and an operation's error as the domain's: what the API said, or that it did not answer.

A refusal of the call itself carries the HTTP status where the layer in front of the service speaks (403, 429), else the
gRPC number; the error of an operation and failed data carry their own numbers. So 429 is a refused call and 8 a request
that could not be fulfilled, although gRPC has one number for both.
"""

from collections.abc import Iterable
from typing import Any

from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # the package has no types

from tpufn.adapters.google_access import LOGIN
from tpufn.domain.errors import CloudUnavailable, Refused, TpufnError, Unknown

NOT_FOUND = frozenset({5, 404})
_IN_FRONT = frozenset({403, 429})
_NO_ANSWER = (
    exceptions.DeadlineExceeded,
    exceptions.GatewayTimeout,
    exceptions.ServerError,
    exceptions.Cancelled,
    exceptions.RetryError,
)
_NO_LOGIN = ("invalid_grant", "Reauthentication is needed", "gcloud auth application-default login")


def meaning(error: Exception, what: str) -> TpufnError:
    """What an exception of the client means; `what` names the call. Anything unexpected comes back as Unknown."""
    if isinstance(error, DefaultCredentialsError) or any(sign in str(error) for sign in _NO_LOGIN):
        return CloudUnavailable(f"{what}: no usable Google login ({error}); {LOGIN}")
    if isinstance(error, exceptions.Unauthenticated | exceptions.Unauthorized):
        return CloudUnavailable(f"{what}: the login was not accepted ({error}); {LOGIN}")
    if isinstance(error, _NO_ANSWER) or not isinstance(error, exceptions.GoogleAPICallError):
        return Unknown(f"{what}: {error}")
    return Refused(_code(error), _words(error.message, error.details))


def refused_by(status: status_pb2.Status) -> Refused:
    """The refusal that an operation ended with."""
    return Refused(status.code, _words(status.message, map(_unpacked, status.details)))


CAUSES = (exceptions.GoogleAPIError, GoogleAuthError)
"""Everything that a call of the client raises by design."""


def _code(error: exceptions.GoogleAPICallError) -> int:
    http, grpc = int(error.code or 0), error.grpc_status_code
    return http if grpc is None or http in _IN_FRONT else int(grpc.value[0])


def _words(message: str, details: Iterable[Any]) -> str:
    """The message, with what only its details say: the reason and the quotas. Both are needed to classify it."""
    words = message
    for detail in details:
        if isinstance(detail, error_details_pb2.QuotaFailure):
            more = [each.description for each in detail.violations if each.description not in words]
            words = " ".join((words, *more))
        elif isinstance(detail, error_details_pb2.ErrorInfo) and detail.reason not in words:
            words = f'{words} [reason: "{detail.reason}"]'
    return words


def _unpacked(detail: Any) -> Any:
    for kind in (error_details_pb2.QuotaFailure, error_details_pb2.ErrorInfo):
        if detail.Is(kind.DESCRIPTOR):
            inner = kind()
            detail.Unpack(inner)
            return inner
    return detail
