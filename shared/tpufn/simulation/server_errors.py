"""The simulated cloud's refusals on the wire: status, message and details, as the service sends them.

What it said before anything was done (403, 404, 409, 429, a wrong request) is the call's own error. A create that was
refused for want of capacity or quota (8, 9) was accepted as a call: its operation ends with the error.
"""

import re

import grpc  # type: ignore[import-untyped]  # the package has no types
from google.protobuf import any_pb2  # type: ignore[import-untyped]  # the package has no types
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # the package has no types

from tpufn.domain.errors import Refused

_HTTP = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_REASON = re.compile(r" \[reason: \"(?P<reason>\w+)\"\]$")
_QUOTA = re.compile(r"^Quota '[^']+' exhausted\.")
_IN_OPERATION = frozenset({8, 9})


def is_of_operation(refused: Refused) -> bool:
    """Whether a refused create is told by its operation."""
    return refused.code in _IN_OPERATION


def status_of(refused: Refused) -> status_pb2.Status:
    """The refusal as a status. A reason in brackets is no part of the message: clients print it from the details."""
    code = _HTTP[refused.code].value[0] if refused.code in _HTTP else refused.code
    reason = _REASON.search(refused.text)
    status = status_pb2.Status(code=code, message=_REASON.sub("", refused.text))
    if reason:
        info = error_details_pb2.ErrorInfo(reason=reason["reason"], domain="googleapis.com")
        status.details.append(_packed(info))
    if _QUOTA.match(refused.text):
        violation = error_details_pb2.QuotaFailure.Violation(description=refused.text)
        status.details.append(_packed(error_details_pb2.QuotaFailure(violations=[violation])))
    return status


def _packed(message: object) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
