"""`submit`: a submission becomes jobs."""

import functions_framework
from cloudevents.http import CloudEvent

from tpufn.entry import serve


@functions_framework.cloud_event
def submit(event: CloudEvent) -> None:
    serve("submit", event)
