"""`notify`: tell people what happened."""

import functions_framework
from cloudevents.http import CloudEvent

from tpufn.entry import serve


@functions_framework.cloud_event
def notify(event: CloudEvent) -> None:
    serve("notify", event)
