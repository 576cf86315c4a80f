"""`execute`: an attempt's next step: launch, go, verdict, stop, close."""

import functions_framework
from cloudevents.http import CloudEvent

from tpufn.entry import serve


@functions_framework.cloud_event
def execute(event: CloudEvent) -> None:
    serve("execute", event)
