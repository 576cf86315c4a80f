"""A deployment's ticks as jobs of Cloud Scheduler: pause and resume them for maintenance, and say how they stand.

Cloud Scheduler starts at most one execution of a job at a time and may start one twice; ticks bear both.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property

from google.api_core.exceptions import ServiceUnavailable
from google.api_core.retry import Retry, if_exception_type
from google.cloud.scheduler_v1 import CloudSchedulerClient, GetJobRequest, Job, PauseJobRequest, ResumeJobRequest

from tpufn.adapters.google_access import anonymous, told
from tpufn.ports import TickState

_TIMEOUT = 10.0
_RETRY = Retry(predicate=if_exception_type(ServiceUnavailable), initial=0.2, maximum=4.0, timeout=30.0)
_ROLE = "roles/cloudscheduler.admin"


def connect(endpoint: str = "") -> CloudSchedulerClient:
    """The client of the real service, or with an endpoint (http://host:port) of another one, without a login."""
    if not endpoint:
        return CloudSchedulerClient()
    return CloudSchedulerClient(transport="rest", credentials=anonymous(), client_options={"api_endpoint": endpoint})


class CloudTicks:
    """Implements `Ticks` for the jobs `names` of one region. `client` is made on the first call."""

    def __init__(
        self,
        project: str,
        region: str,
        names: Sequence[str],
        *,
        client: Callable[[], CloudSchedulerClient] = connect,
    ) -> None:
        self._parent, self._names = f"projects/{project}/locations/{region}", tuple(names)
        self._make_client = client

    def pause(self) -> None:
        """Only an enabled job may be paused: the others are left as they are."""
        for job in self._jobs():
            if job.state is Job.State.ENABLED:
                with self._told(job.name):
                    self._client.pause_job(request=PauseJobRequest(name=job.name), timeout=_TIMEOUT, retry=_RETRY)

    def resume(self) -> None:
        for job in self._jobs():
            if job.state is Job.State.PAUSED:
                with self._told(job.name):
                    self._client.resume_job(request=ResumeJobRequest(name=job.name), timeout=_TIMEOUT, retry=_RETRY)

    def ticks(self) -> Sequence[TickState]:
        return tuple(map(_tick, self._jobs()))

    @cached_property
    def _client(self) -> CloudSchedulerClient:
        return self._make_client()

    def _jobs(self) -> Iterator[Job]:
        for name in self._names:
            request = GetJobRequest(name=f"{self._parent}/jobs/{name}")
            with self._told(request.name):
                job = self._client.get_job(request=request, timeout=_TIMEOUT, retry=_RETRY)
            yield job

    def _told(self, name: str) -> AbstractContextManager[None]:
        return told(f"the tick {name}", role=_ROLE)


def _tick(job: Job) -> TickState:
    """A job that is neither enabled nor paused (disabled, or its last update failed) does not run either."""
    return TickState(
        name=job.name.rpartition("/")[2],
        paused=job.state is not Job.State.ENABLED,
        last_run=job.last_attempt_time.timestamp() if "last_attempt_time" in job else 0.0,
        next_run=job.schedule_time.timestamp() if "schedule_time" in job else 0.0,
        failure=(job.status.message or f"code {job.status.code}") if job.status.code else "",
    )
