"""What the adapters of Google's services share: credentials for local servers, and the clients' errors as ours.

`told` is for services whose refusals need no reading: a thing is missing, we may not touch it, or there is no answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError

from tpufn.domain.errors import CloudUnavailable, NotFound

LOGIN = "log in with: gcloud auth application-default login"
_FORBIDDEN = (exceptions.Forbidden, exceptions.Unauthorized)


def anonymous() -> AnonymousCredentials:
    """No login at all: for emulators and local servers."""
    return AnonymousCredentials()  # type: ignore[no-untyped-call]  # the class has no annotations


@contextmanager
def told(what: str, *, role: str) -> Iterator[None]:
    """`what` names the thing that the call is about, `role` the role that the call needs."""
    try:
        yield
    except exceptions.NotFound as error:
        raise NotFound(f"{what} does not exist ({error.message})") from error
    except _FORBIDDEN as error:
        raise CloudUnavailable(f"{what}: {error.message}; give the caller {role}, or {LOGIN}") from error
    except GoogleAuthError as error:
        raise CloudUnavailable(f"{what}: no usable Google login ({error}); {LOGIN}") from error
    except exceptions.GoogleAPIError as error:
        raise CloudUnavailable(f"{what}: no usable answer: {_words(error)}") from error


def _words(error: exceptions.GoogleAPIError) -> str:
    """What the service said; of a call that was tried until its time was up, the last time."""
    cause = error.cause if isinstance(error, exceptions.RetryError) and error.cause else error
    return str(getattr(getattr(cause, "response", None), "text", "") or cause)
