"""The primitives of Kafka's flexible messages: varints, compact bytes, tagged fields.

    uvarint        = 7 bits per byte, the least significant group first, the high bit says that more follow
    compact-bytes  = uvarint(0), which is null | uvarint(length + 1) byte{length}
    tagged-fields  = uvarint(count) { uvarint(tag) uvarint(size) byte{size} }

for example `03 ca fe` is the two bytes `ca fe`, and `01 00 01 01` is one tagged field: tag 0, one byte, `01`.

Readers take the data and a position, and return what they read with the position behind it. They raise CorruptEvent,
or IndexError where the data ends too early. Which fields a message has is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiergate_client.varints import encode_varint
from tiergate_server.metadata.event_errors import CorruptEvent

# Kafka reads a varint into an int32.
_LAST_SHIFT = 28
_UVARINT_MAX = 2**31 - 1


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte, position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _LAST_SHIFT:
            raise CorruptEvent(f"the varint that ends at byte {position} is longer than five bytes")
    if value > _UVARINT_MAX:
        raise CorruptEvent(f"the varint that ends at byte {position} is {value}, above {_UVARINT_MAX}")
    return value, position


def read_compact_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_uvarint(data, position)
    if length == 0:
        return None, position
    return _read_bytes(data, position, length - 1)


def read_tagged_fields(data: bytes, position: int) -> tuple[Mapping[int, bytes], int]:
    count, position = read_uvarint(data, position)
    fields: dict[int, bytes] = {}
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        fields[tag], position = _read_bytes(data, position, size)
    return fields, position


def skip_tagged_fields(data: bytes, position: int) -> int:
    """The position behind tagged fields that nobody asks for. Nearly always there are none."""
    if data[position] == 0:
        return position + 1
    return read_tagged_fields(data, position)[1]


def write_compact_bytes(value: bytes | None) -> bytes:
    return b"\0" if value is None else encode_varint(len(value) + 1) + value


def _read_bytes(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if end > len(data):
        raise CorruptEvent(f"{size} bytes are announced at byte {position}, but {len(data) - position} are left")
    return data[position:end], end
