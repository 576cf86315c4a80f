"""What the output's end resembles."""

import pytest

from tpufn.worker.evidence import signature, tail


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("open(/dev/vfio/0): Device or resource busy", "device-busy"),
        ("Couldn't open iommu group /dev/vfio/0", "device-busy"),
        ("RuntimeError: TPU initialization failed: x", "device-busy"),
        ("No accelerator found. Please run on a TPU or GPU.", "device-busy"),
        ("ABORTED: The TPU is already in use by process with pid 12", "device-busy"),
        ("gRPC Socket closed {grpc_status:14}", "sibling-death"),
        ('UNAVAILABLE: Socket closed {"created":"@1", grpc_status:14}', "sibling-death"),
        ("RAW: Raising signal 6 with default behavior", "sibling-death"),
        ("RPC: /tensorflow.CoordinationService/PollForError", "sibling-death"),
        ("RESOURCE_EXHAUSTED: Program hbm requirement 20G exceeded by 4G", ""),
        ("umount: /mnt: target is busy. Device or resource busy", ""),
        ("", ""),
    ],
)
def test_signature(text, expected):
    """Every text of the field's reports, and two that only look alike."""
    assert signature(b"noise\n" + text.encode() + b"\nmore\n") == expected


def test_the_earliest_signature_counts():
    """A busy device takes the siblings down: the first sign is the cause."""
    text = b"gRPC Socket closed\nopen(/dev/accel0): Device or resource busy\n"
    assert signature(text) == "sibling-death"


def test_tail_is_bounded():
    """It goes into a document: one endless line must not."""
    assert len(tail(b"x" * 100_000)) == 8192
    assert tail(b"a\nb\n") == "a\nb"
