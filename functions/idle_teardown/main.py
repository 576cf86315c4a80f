"""`idle_teardown`: release idle TPUs after their timeout, keep the warm floor."""

import functions_framework
from cloudevents.http import CloudEvent

from tpufn.entry import serve


@functions_framework.cloud_event
def idle_teardown(event: CloudEvent) -> None:
    serve("idle_teardown", event)
