"""`capacity_race`: which slots to request for waiting jobs, which surplus legs to release."""

import functions_framework
from cloudevents.http import CloudEvent

from tpufn.entry import serve


@functions_framework.cloud_event
def capacity_race(event: CloudEvent) -> None:
    serve("capacity_race", event)
