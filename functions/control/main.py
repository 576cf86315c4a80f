"""`control`: the commands of people."""

import functions_framework
from cloudevents.http import CloudEvent

from tpufn.entry import serve


@functions_framework.cloud_event
def control(event: CloudEvent) -> None:
    serve("control", event)
