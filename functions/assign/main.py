"""`assign`: which waiting job gets which idle slot."""

import functions_framework
from cloudevents.http import CloudEvent

from tpufn.entry import serve


@functions_framework.cloud_event
def assign(event: CloudEvent) -> None:
    serve("assign", event)
