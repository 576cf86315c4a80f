"""What the adapters of Google's services share: credentials for local servers, and the clients' errors as ours.

`told` is for services whose refusals need no reading: a thing is missing, we may not touch it, or there is no answer.
`mending` names the command that a person needs next.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError

from tpufn.domain.errors import CloudUnavailable, NotFound

LOGIN = "log in with: gcloud auth application-default login"
_FORBIDDEN = (exceptions.Forbidden, exceptions.Unauthorized)
_SWITCHED_OFF = re.compile(r"has not been used in project|SERVICE_DISABLED|it is disabled")
_API = re.compile(r"\b[a-z]+\.googleapis\.com\b")


def anonymous() -> AnonymousCredentials:
    """No login at all: for emulators and local servers."""
    return AnonymousCredentials()  # type: ignore[no-untyped-call]  # the class has no annotations


def mending(error: Exception, *, role: str, project: str = "PROJECT") -> str:
    """What to do about it: an API that is switched off, a login that is missing, or a role; "" for all else."""
    if isinstance(error, exceptions.Forbidden):
        if _SWITCHED_OFF.search(str(error)):
            api = _API.search(str(error))
            return f"switch the API on: gcloud services enable {api[0] if api else 'API'} --project {project}"
        return (
            f"the caller needs {role}: add yourself to `viewers`, `submitters` or `operators` of the deployment, or "
            f"gcloud projects add-iam-policy-binding {project} --member user:YOU --role {role}"
        )
    if isinstance(error, (exceptions.Unauthorized, GoogleAuthError)):
        return LOGIN
    return ""


@contextmanager
def told(what: str, *, role: str) -> Iterator[None]:
    """`what` names the thing that the call is about, `role` the role that the call needs."""
    try:
        yield
    except exceptions.NotFound as error:
        raise NotFound(f"{what} does not exist ({error.message})") from error
    except _FORBIDDEN as error:
        raise CloudUnavailable(f"{what}: {error.message}; {mending(error, role=role)}; or {LOGIN}") from error
    except GoogleAuthError as error:
        raise CloudUnavailable(f"{what}: no usable Google login ({error}); {LOGIN}") from error
    except exceptions.GoogleAPIError as error:
        raise CloudUnavailable(f"{what}: no usable answer: {_words(error)}") from error


def _words(error: exceptions.GoogleAPIError) -> str:
    """What the service said; of a call that was tried until its time was up, the last time."""
    cause = error.cause if isinstance(error, exceptions.RetryError) and error.cause else error
    return str(getattr(getattr(cause, "response", None), "text", "") or cause)
