"""The frames of IAP's relay, subprotocol `relay.tunnel.cloudproxy.app`, as bytes.

Every websocket message is one frame: a tag of two bytes, then by tag (all numbers big-endian)

    1  connect success    length (4), session id          relay -> us, first
    2  reconnect success  bytes received (8)              relay -> us, first after a reconnect
    4  data               length (4), at most 16,384 bytes
    7  ack                bytes received (8)

Source: gcloud's googlecloudsdk/api_lib/compute/iap_tunnel_websocket_utils.py.
"""

import struct
from dataclasses import dataclass

SUBPROTOCOL = "relay.tunnel.cloudproxy.app"
MAX_DATA = 16384
_CONNECTED, _RECONNECTED, _DATA, _ACK = 1, 2, 4, 7


@dataclass(frozen=True)
class Connected:
    session: str


@dataclass(frozen=True)
class Reconnected:
    received: int


@dataclass(frozen=True)
class Data:
    data: bytes


@dataclass(frozen=True)
class Ack:
    received: int


Frame = Connected | Reconnected | Data | Ack


class FrameError(ValueError):
    """A frame that is cut or of an unknown kind where that matters."""


def pack(frame: Frame) -> bytes:
    match frame:
        case Connected(session=session):
            name = session.encode()
            return struct.pack(">HI", _CONNECTED, len(name)) + name
        case Reconnected(received=received):
            return struct.pack(">HQ", _RECONNECTED, received)
        case Data(data=data):
            return struct.pack(">HI", _DATA, len(data)) + data
        case Ack(received=received):
            return struct.pack(">HQ", _ACK, received)


def unpack(message: bytes) -> Frame | None:
    """None for a tag that is not known: to be ignored, says the protocol. Bytes after the frame are ignored too."""
    try:
        (tag,) = struct.unpack_from(">H", message)
        match tag:
            case 1:
                return Connected(_array(message).decode("ascii", "replace"))
            case 2:
                return Reconnected(*struct.unpack_from(">Q", message, 2))
            case 4:
                return Data(_array(message))
            case 7:
                return Ack(*struct.unpack_from(">Q", message, 2))
    except struct.error as error:
        raise FrameError(f"a cut frame of {len(message)} bytes") from error
    return None


def _array(message: bytes) -> bytes:
    (length,) = struct.unpack_from(">I", message, 2)
    if len(message) < 6 + length:
        raise FrameError(f"a cut frame: {length} bytes announced, {len(message) - 6} there")
    return message[6 : 6 + length]
