"""One Firestore database: bounded reads as of one moment, unretried commits, and their errors in our own words.

A consistent cut is made of reads as of one read time, which Firestore serves from its versions of the last hour
(`read_time` in the API's BatchGetDocumentsRequest and RunQueryRequest). This is what a read-only transaction does,
without its two more calls and its limit of 60 s between reads. The first read of a cut tells the moment.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from google.api_core import exceptions
from google.api_core.retry import Retry, if_exception_type
from google.auth.exceptions import GoogleAuthError
from google.cloud import firestore

from tpufn.adapters.google_access import mending
from tpufn.domain.errors import CloudUnavailable, CommitUnknown, Stale

TIMEOUT = 10.0
"""Seconds for one call."""
_AGAIN = Retry(
    predicate=if_exception_type(exceptions.ServiceUnavailable, exceptions.InternalServerError),
    initial=0.05,
    maximum=0.5,
    timeout=3.0,
)
"""Reads only, and tight: an idle instance's first call often meets a closed connection."""
_STALE = (exceptions.Aborted, exceptions.FailedPrecondition, exceptions.AlreadyExists, exceptions.NotFound)
_LOST = (exceptions.ServerError, exceptions.Cancelled, exceptions.TooManyRequests)
_ROLE = "roles/datastore.user"
_MISSING = "is this deployment installed? `tpufn deploy` makes the database"

T = TypeVar("T")


def database_id(deployment: str) -> str:
    """A deployment's database. Named ones are isolated from each other and need no App Engine location."""
    return f"tpufn-{deployment}"


class Database:
    """Calls with a deadline each. The client is made at the first of them and shared by all threads."""

    def __init__(self, project: str, id: str, *, credentials: Any = None, timeout: float = TIMEOUT) -> None:
        self.project, self.id = project, id
        self._credentials, self._timeout = credentials, timeout

    @cached_property
    def client(self) -> firestore.Client:
        with self._errors():
            return firestore.Client(project=self.project, database=self.id, credentials=self._credentials)

    def close(self) -> None:
        """Let go of the connection, for threads that are in a call not before its end. The next call makes another."""
        self.__dict__.pop("client", None)

    def get(
        self, paths: Sequence[str], *, at: datetime | None, names: Sequence[str] | None = None
    ) -> list["firestore.DocumentSnapshot[Any]"]:
        """The documents, missing ones included, in the order of the paths. Without `at`: as they are now."""
        refs = [self.client.document(path) for path in paths]

        def fetch() -> list["firestore.DocumentSnapshot[Any]"]:
            found = self.client.get_all(refs, field_paths=names, read_time=at, retry=None, timeout=self._timeout)
            return list(found)

        by_path = {snapshot.reference.path: snapshot for snapshot in self._read(fetch)}
        return [by_path[path] for path in paths]

    def query(self, query: Any, *, at: datetime) -> list["firestore.DocumentSnapshot[Any]"]:
        return self._read(lambda: list(query.stream(read_time=at, retry=None, timeout=self._timeout)))

    def commit(self, batch: firestore.WriteBatch, what: str) -> None:
        """All or nothing, once. Raises Stale, CommitUnknown, CloudUnavailable; AlreadyExists is Stale's cause."""
        try:
            with self._errors():
                batch.commit(retry=None, timeout=self._timeout)
        except _STALE as error:
            raise Stale(f"{what}: {error.message}") from error
        except _LOST as error:
            raise CommitUnknown(f"{what}: no answer: {error}") from error

    def _read(self, fetch: Callable[[], T]) -> T:
        try:
            with self._errors():
                result: T = _AGAIN(fetch)()
                return result
        except exceptions.InvalidArgument:
            raise  # a defect of ours
        except (exceptions.GoogleAPICallError, exceptions.RetryError) as error:
            raise self._unavailable(error) from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What no call of ours can go on from, whatever it is."""
        try:
            yield
        except (exceptions.PermissionDenied, exceptions.Unauthenticated, GoogleAuthError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> CloudUnavailable:
        missing = _MISSING if isinstance(error, exceptions.NotFound) else ""
        hint = mending(error, role=_ROLE, project=self.project) or missing
        where = f"Firestore database {self.id} of project {self.project}"
        return CloudUnavailable(f"{where}: {error}{'; ' if hint else ''}{hint}")
