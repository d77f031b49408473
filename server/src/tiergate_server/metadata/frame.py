"""The frame around each of Kafka's metadata messages.

    frame = uvarint(frame version, always 1) uvarint(api key) uvarint(api version) message

for example `01 00 00` begins a segment event of version 0. What the messages hold is not known here.
"""

from __future__ import annotations

import struct

from tiergate_client.errors import InvalidField
from tiergate_server.metadata.event_errors import CorruptEvent
from tiergate_server.metadata.flexible_message import read_uvarint

_FRAME_VERSION = 1

DAMAGE = (IndexError, struct.error, UnicodeDecodeError, InvalidField)
"""What a damaged frame makes the readers and the values raise, besides CorruptEvent."""


def read_header(data: bytes) -> tuple[int, int, int]:
    """Api key, api version, and the position of the message."""
    frame_version, position = read_uvarint(data, 0)
    if frame_version != _FRAME_VERSION:
        raise CorruptEvent(f"frame version {frame_version} is not known, only {_FRAME_VERSION} is")
    api_key, position = read_uvarint(data, position)
    api_version, position = read_uvarint(data, position)
    return api_key, api_version, position


def require_end(data: bytes, position: int) -> None:
    if position != len(data):
        raise CorruptEvent(f"the message ends at byte {position}, but {len(data) - position} more follow")


def corruption(damage: Exception) -> CorruptEvent:
    """What a reader's or a value's complaint about a frame (one of DAMAGE) amounts to."""
    if isinstance(damage, InvalidField):
        return CorruptEvent(damage.message)
    if isinstance(damage, UnicodeDecodeError):
        return CorruptEvent("the topic name is not UTF-8")
    return CorruptEvent("the frame ends in the middle of its message")
