"""`preemption`: a TPU is being reclaimed: settle its attempt, give the TPU up."""

import functions_framework
from cloudevents.http import CloudEvent

from tpufn.entry import serve


@functions_framework.cloud_event
def preemption(event: CloudEvent) -> None:
    serve("preemption", event)
