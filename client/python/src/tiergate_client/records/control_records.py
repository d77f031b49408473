"""What kind of control record a batch holds; what follows from it is not decided here.

    key = version[i16]=0 type[i16]

Control batches are never compressed and hold one record, or none after compaction.
"""

from __future__ import annotations

import struct
from typing import Final

from tiergate_client.records.varint_reading import VarintTooLong, read_bounded_varint

_KEY: Final = struct.Struct(">hh")


def control_type(body: memoryview) -> int | None:
    """None for a record that can not be read: like a type that is not known, it ends no transaction."""
    end = len(body)
    try:
        _, at = read_bounded_varint(body, 0, end)
        _, at = read_bounded_varint(body, at + 1, end, bits=64)
        _, at = read_bounded_varint(body, at, end)
        key_length, at = read_bounded_varint(body, at, end)
    except VarintTooLong:
        return None
    if key_length < _KEY.size or at + _KEY.size > end:
        return None
    kind: int = _KEY.unpack_from(body, at)[1]
    return kind
