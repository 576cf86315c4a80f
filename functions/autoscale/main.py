"""`autoscale`: the tick: compare what is with what should be."""

import functions_framework
from cloudevents.http import CloudEvent

from tpufn.entry import serve


@functions_framework.cloud_event
def autoscale(event: CloudEvent) -> None:
    serve("autoscale", event)
